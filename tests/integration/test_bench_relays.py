"""The relays beside which the benchmark measures twinlog copy every record as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.contenders import Contender
from bench.peers.contenders import CONFLUENT, FRANZ_GO, relays
from in_turn import in_turn

from lab import NOW, VARIED, Seen, create_topic, produce, produce_transaction, read, wait_until


@pytest.mark.parametrize("name", [CONFLUENT, *in_turn(FRANZ_GO)])
def test_records_arrive_as_they_are(
    name: str, cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Partition, key, value, headers, timestamp and order are equal, and nothing of an aborted transaction arrives."""
    relay = next((it for it in relays(tmp_path) if it.name == name), None)
    if relay is None:
        pytest.skip(f"{name} cannot be built here")
    topic = create_topic(cluster_a, unique_topic("relayed"), partitions=2)
    create_topic(cluster_b, relay.remote(topic), partitions=2)
    produce(cluster_a, topic, VARIED)
    produce_transaction(cluster_a, topic, [Seen(b"aborted", b"x", NOW)], commit=False)
    produce(cluster_a, topic, [Seen(b"last", b"of 0", NOW)])
    produce(cluster_a, topic, [Seen(b"%d" % n, b"of 1", NOW + n) for n in range(1000)], partition=1)
    expected = [read(cluster_a, topic, partition) for partition in range(2)]
    assert [len(VARIED) + 1, 1000] == [len(records) for records in expected]
    assert expected == _relayed(relay, cluster_a, cluster_b, topic, tmp_path)


def _relayed(relay: Contender, cluster_a: Any, cluster_b: Any, topic: str, folder: Path) -> list[list[Seen]]:
    """Run a relay until it has copied as many records as the test made; return the copies."""

    def copies() -> list[list[Seen]]:
        return [read(cluster_b, relay.remote(topic), partition) for partition in range(2)]

    with relay.running(relay.properties(cluster_a, cluster_b, topic), folder):
        wait_until(lambda: sum(len(records) for records in copies()) >= 1006)
    return copies()
