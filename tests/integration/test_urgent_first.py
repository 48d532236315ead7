"""A lane that is behind, on real brokers: the topics with the least RPO are committed first, and nobody starves."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lab import Seen, ThreadRunner, create_topic, cycle, flow_of, produce, read, read_partitions
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.follow import follow
from twinlog.formats.mm2.connect_offset import parse_offset_value, parse_source_key
from twinlog.kafka_types import TopicPartition
from twinlog.lifecycle import sync_topics
from twinlog.state.progress import read_progress

pytestmark = pytest.mark.integration

RECORDS = 60
RECORD_BYTES = 20_000
SMALL = {
    "twinlog__lanes": "1",
    "twinlog__fetch__bytes": str(6 * RECORD_BYTES),
    "twinlog__partition__fetch__bytes": str(3 * RECORD_BYTES),
    "twinlog__transaction__bytes": str(6 * RECORD_BYTES),
}
"""An answer holds six records, and so does a transaction."""


def commits(flow: FlowSettings, cluster: Any, stem: str) -> list[dict[TopicPartition, int]]:
    """Progress (records copied) of the topics of this test after each transaction, by the time that a lane gives it."""
    found: dict[int, dict[TopicPartition, int]] = {}
    partitions = range(flow.offset_storage_partitions)
    for records in read_partitions(cluster, flow.offsets_topic, partitions).values():
        for _, record in records:
            key = parse_source_key(record.key, "MirrorSourceConnector", "A")
            offset = parse_offset_value(record.value)
            if key is not None and key.topic.startswith(stem) and offset is not None:
                place = TopicPartition(key.topic, key.partition)
                found.setdefault(record.timestamp, {})[place] = offset + 1
    return [found[at] for at in sorted(found)]


def in_a_cycle(flow: FlowSettings, wanted: Mapping[TopicPartition, int]) -> None:
    """Copy with the batch loop."""
    assert sum(wanted.values()) == cycle(flow).records


def followed(flow: FlowSettings, wanted: Mapping[TopicPartition, int]) -> None:
    """Copy with the stream loop, until everything is there."""
    over = threading.Event()

    def watch() -> None:
        with open_clusters(flow) as clusters:
            while not over.wait(0.5):
                progress = read_progress(flow, clusters.target)
                if all(progress.get(it, -1) + 1 >= count for it, count in wanted.items()):
                    over.set()

    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
        watcher = threading.Thread(target=watch)
        watcher.start()
        result = follow.run(flow, clusters, ThreadRunner(), run_id=uuid.uuid4().hex, seconds=300, stop=over)
        over.set()
        watcher.join()
    assert sum(wanted.values()) == result.records


@pytest.mark.parametrize("copy", [in_a_cycle, followed])
def test_the_urgent_tier_is_committed_before_the_rest(
    cluster_a, cluster_b, tmp_path: Path, copy: Any
) -> None:
    """When its last record is committed, the rest has had its share, and not more.

    Without an order the six partitions of the rest would have three times as much by then.  A topic of which little
    is missing has all of it by then, whatever its RPO.
    """
    stem = f"urgent-{uuid.uuid4().hex[:6]}"
    partitions = {f"{stem}-a-bulk": 6, f"{stem}-b-trickle": 2, f"{stem}-c-gold": 2}
    bulk, trickle, gold = partitions
    chance = Random(1)
    wanted: dict[TopicPartition, int] = {}
    for topic, count in partitions.items():
        create_topic(cluster_a, topic, count)
        records, size = (3, 10) if topic == trickle else (RECORDS, RECORD_BYTES)
        for number in range(count):
            written = [
                Seen(b"k%d" % n, chance.randbytes(size), 1_700_000_000_000 + n) for n in range(records)
            ]
            produce(cluster_a, topic, written, number, **{"batch.num.messages": 1})
            wanted[TopicPartition(topic, number)] = records
    tiers = {"twinlog__tier__gold__topics": f"{stem}-c-.*", "twinlog__tier__gold__rpo__seconds": "10"}
    flow = flow_of(tmp_path, cluster_a, cluster_b, [f"{stem}-.*"], **SMALL, **tiers)

    copy(flow, wanted)

    reached = dict.fromkeys(wanted, 0)
    for step in commits(flow, cluster_b, stem):
        reached |= step
        if all(reached[it] == count for it, count in wanted.items() if it.topic == gold):
            break
    copied = {topic: sum(count for it, count in reached.items() if it.topic == topic) for topic in partitions}
    assert (2 * RECORDS, 6) == (copied[gold], copied[trickle])
    assert 0 < copied[bulk] < copied[gold]
    for topic, number in wanted:
        assert read(cluster_a, topic, number) == read(cluster_b, f"A.{topic}", number)
