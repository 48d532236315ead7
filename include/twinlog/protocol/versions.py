"""Which brokers the relay can talk to: what each of its requests must be offered in, and one line for those too old.

Kafka 2.8 is the oldest: the first whose Metadata tells topic ids (v10, KIP-516), by which a topic that was deleted
and made anew is told from its former life.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from twinlog.errors import ClusterRefused
from twinlog.protocol import kafka_python, wire

OLDEST_KAFKA: Final = "2.8"

NEEDED: Final[Mapping[int, tuple[str, int, int]]] = {
    wire.PRODUCE: ("Produce", wire.PRODUCE_VERSION, wire.PRODUCE_VERSION),
    wire.FETCH: ("Fetch", wire.FETCH_VERSION, wire.FETCH_VERSION),
    **{
        api.request.API_KEY: (name, lowest, api.version)
        for name, lowest, api in (
            ("ListOffsets", 5, kafka_python.LIST_OFFSETS),
            ("Metadata", 10, kafka_python.METADATA),
            ("FindCoordinator", 3, kafka_python.FIND_COORDINATORS),
            ("InitProducerId", 3, kafka_python.INIT_PRODUCER_ID),
            ("AddPartitionsToTxn", 2, kafka_python.ADD_PARTITIONS),
            ("EndTxn", 2, kafka_python.END_TXN),
        )
    },
}
"""By api key: name, and the lowest and highest version the relay speaks; in the tables of brokers 2.8 to 4.3."""


def require(offered: Mapping[int, tuple[int, int]], alias: str, address: str) -> None:
    """Check what a broker offers, by api key its lowest and highest version (the answer to ApiVersions).

    Raises ClusterRefused (code `broker-version`) naming the broker and the first request it cannot take.
    """
    for key, (name, low, high) in NEEDED.items():
        if key not in offered:
            has = f"no {name}"
        elif offered[key][1] < low or offered[key][0] > high:
            has = "{} v{} to v{}".format(name, *offered[key])
        else:
            continue
        needed = f"v{low}" if low == high else f"v{low} to v{high}"
        raise ClusterRefused(
            f"the broker of cluster {alias} at {address} offers {has}; twinlog speaks {needed}",
            hint=f"brokers from Kafka {OLDEST_KAFKA} on are supported",
            code="broker-version",
            cluster=alias,
            address=address,
        )
