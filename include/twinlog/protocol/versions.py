"""Check that a broker offers the request versions that twinlog needs, and refuse brokers that are too old.

Kafka 2.8 is the oldest supported version: its Metadata is the first with topic ids (v10, KIP-516), which tell a
recreated topic from its former incarnation.
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
"""By api key: name, and the lowest and highest version that twinlog speaks; brokers 2.8 to 4.3 offer them."""


def require(offered: Mapping[int, tuple[int, int]], alias: str, address: str) -> None:
    """Check the lowest and highest version of each request that a broker offers, by api key (its ApiVersions answer).

    Raises ClusterRefused (code `broker-version`), which names the broker and the first request that it cannot take.
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
