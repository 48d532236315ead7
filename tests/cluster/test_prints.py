"""Fingerprints of real records: every kind of batch, aborted transactions, markers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from lab import Seen, create_topic, flow_of, produce, produce_transaction, wait_until
from twinlog.cluster.api import open_clusters
from twinlog.kafka_types import TopicPartition

pytestmark = pytest.mark.integration

NOW = int(time.time() * 1000)


def some(first: int, count: int) -> list[Seen]:
    return [
        Seen(b"%d" % n, b"value %d" % n, NOW + n, (("n", b"%d" % n),)) for n in range(first, first + count)
    ]


def test_equal_records_have_equal_prints(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Any
) -> None:
    """Whatever the batches, the codec and the offsets; aborted records are told apart, markers are none."""
    plain, mixed = (
        create_topic(cluster_a, unique_topic("plain")),
        create_topic(cluster_b, unique_topic("mixed")),
    )
    produce(cluster_a, plain, some(0, 50))
    produce(cluster_b, mixed, some(0, 20), compression_type="lz4", linger_ms=0)
    produce_transaction(cluster_b, mixed, some(900, 5), commit=False)
    produce_transaction(cluster_b, mixed, some(20, 30))
    with open_clusters(flow_of(tmp_path, cluster_a, cluster_b, [plain])) as clusters:
        found = clusters.source.record_prints(TopicPartition(plain, 0), 0, 1000)
        # A commit is answered before its marker lets the stable offset go on.
        wait_until(lambda: len(clusters.target.record_prints(TopicPartition(mixed, 0), 0, 1000)) == 55)
        others = clusters.target.record_prints(TopicPartition(mixed, 0), 0, 1000)
        part = clusters.source.record_prints(TopicPartition(plain, 0), 7, 3)

    visible = [it for it in others if not it.aborted]
    assert list(range(50)) == [it.offset for it in found]
    assert [(it.timestamp, it.content, it.key) for it in found] == [
        (it.timestamp, it.content, it.key) for it in visible
    ]
    assert 50 == len({it.content for it in found})
    assert list(range(20, 25)) == [it.offset for it in others if it.aborted]
    assert found[7:10] == part
