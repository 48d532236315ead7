"""Kafka 3.9 on either side: transactions, aborts, compaction, a fence in the middle; and messages of format v0 and v1.

Costs about half a minute, a broker of its own included.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ResourceType
from test_audit import audited
from test_legacy import message, wrapper

from batches import Rec
from lab import (
    Seen,
    ThreadRunner,
    alter_configs,
    create_topic,
    cycle,
    flow_of,
    produce,
    produce_transaction,
    read,
    read_with_offsets,
)
from twinlog.batches import codec as codecs
from twinlog.cluster.admin.groups import GroupPartition, OffsetChange
from twinlog.cluster.api import open_clusters
from twinlog.copying.ownership import state_topics
from twinlog.errors import FencedError
from twinlog.kafka_types import TopicPartition
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lab.kafka.jars import OLDER_KAFKA_VERSION
from twinlog.lane.fence.fence import fence
from twinlog.lane.spec import LaneSpec
from twinlog.lifecycle import sync_topics
from twinlog.metadata import sync
from twinlog.protocol.brokers import Brokers
from twinlog.state.progress import read_maps

NOW = int(time.time() * 1000)


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """One broker of Kafka 3.9 whose log cleaner is always looking for work."""
    folder = tmp_path_factory.mktemp("older") / "kafka"
    settings = {"log.cleaner.backoff.ms": "200"}
    with EmbeddedKafka("older", folder, OLDER_KAFKA_VERSION, settings=settings) as cluster:
        yield cluster


def traffic(cluster: Any, topic: str) -> None:
    """Every codec, a committed transaction and an aborted one; then updates that the cleaner may take away."""
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        records = [Seen(b"k%d" % (n % 9), b"%s-%d" % (codec.encode(), n), NOW + n) for n in range(30)]
        produce(cluster, topic, records, compression_type=codec)
    produce_transaction(cluster, topic, [Seen(b"txn", b"kept", NOW)])
    produce_transaction(cluster, topic, [Seen(b"txn", b"aborted", NOW)], commit=False)
    for n in range(3):
        produce(cluster, topic, [Seen(b"last-%d" % n, b"x", NOW + 10_000 * (n + 1))])


def compacted(cluster: Any, topic: str) -> None:
    """Wait until the cleaner has taken something away."""
    deadline = time.monotonic() + 30
    while len(read(cluster, topic)) >= 154 and time.monotonic() < deadline:
        time.sleep(0.3)
    assert len(read(cluster, topic)) < 154


@pytest.mark.parametrize("old_side", ["source", "target"])
def test_a_copy_with_3_9_on_one_side(
    old_side: str,
    older: EmbeddedKafka,
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Gaps, transactions and codecs arrive equal and mapped, though another driver fences the first one midway."""
    source, target = (older, cluster_b) if old_side == "source" else (cluster_a, older)
    topic = create_topic(
        source,
        unique_topic("old"),
        cleanup_policy="compact",
        segment_ms="5000",
        min_cleanable_dirty_ratio="0.01",
    )
    traffic(source, topic)
    if source is older:
        compacted(source, topic)
    # The copy is not to be compacted further than its source while both are compared.
    alias = "OLD" if source is older else "A"
    flow = flow_of(
        tmp_path, source, target, [topic], alias=alias, config__properties__exclude="cleanup.policy"
    )

    def take_over(spec: LaneSpec) -> None:
        if spec.lane == 0:
            with open_clusters(flow) as clusters, Brokers(flow.target.connection) as brokers:
                state = state_topics(flow, clusters)
                fence(brokers, flow.name, state, run_id="rival", lanes=2, transaction_timeout_ms=10_000)

    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
    with pytest.raises(FencedError, match="run rival"):
        cycle(flow, ThreadRunner(before=take_over))
    assert read(target, f"{alias}.{topic}") == []
    assert cycle(flow).state == "done"
    upstream = read_with_offsets(source, topic)
    downstream = read_with_offsets(target, f"{alias}.{topic}")
    assert [seen for _, seen in downstream] == [seen for _, seen in upstream]
    with open_clusters(flow) as clusters:
        (known,) = [it for life, it in read_maps(flow, clusters.target).items() if life.topic == topic]
    found = [known.translate(offset) for offset, _ in upstream]
    assert [item.offset for item in found if item] == [offset for offset, _ in downstream]
    assert [True, []] == [(result := audited(flow)).equal, list(result.differences)]


@pytest.mark.long
def test_messages_older_than_batches(
    older: EmbeddedKafka, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """A segment of v0 and v1 messages, plain and wrapped, as a broker of long ago left it; today's batches behind.

    The audit proves all of them.
    """
    topic = create_topic(older, unique_topic("ancient"))
    records = [Rec(b"value %d" % n, b"k%d" % n, NOW - 1000 + n) for n in range(12)]
    numbered = list(enumerate(records))
    segment = b"".join([
        *(message(offset, 0, record) for offset, record in numbered[:3]),
        wrapper(3, 0, numbered[3:5], codecs.GZIP),
        *(message(offset, 1, record) for offset, record in numbered[5:8]),
        wrapper(8, 1, numbered[8:], codecs.GZIP),
    ])
    older.stop()
    (folder,) = older.folder.glob(f"node-1/data/{topic}-0")
    for stale in folder.iterdir():
        if stale.suffix in {".index", ".timeindex", ".snapshot"} or stale.name == "leader-epoch-checkpoint":
            stale.unlink()
    (folder / f"{0:020}.log").write_bytes(segment)
    older.start()
    produce(older, topic, [Seen(b"new", b"new", NOW)])
    assert len(read(older, topic)) == 13
    flow = flow_of(tmp_path, older, cluster_b, [topic], alias="OLD")
    assert cycle(flow).records == 13
    assert read(cluster_b, f"OLD.{topic}") == read(older, topic)
    audit = audited(flow)
    assert (True, [], [(13, 1.0, ())]) == (
        audit.equal,
        list(audit.differences),
        [(it.records, it.coverage, it.unproved) for it in audit.partitions],
    )


def test_configs_that_the_target_does_not_know_or_take_are_named_one_by_one(
    older: EmbeddedKafka, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """3.9 has a config that 4.x has dropped, and allows segments of a kilobyte: no copy is made until they are left
    out; from then on each is refused by itself, and all else is synced."""
    topic = create_topic(older, unique_topic("old"), segment_bytes="1024", message_format_version="3.0-IV1")
    flow = flow_of(tmp_path, older, cluster_b, [topic], alias="OLD", sync__topic__acls__enabled="false")
    bad = r"message\\.format\\.version,segment\\.bytes"  # backslashes are doubled in a properties file
    without = flow_of(tmp_path, older, cluster_b, [topic], alias="OLD", config__properties__exclude=bad)
    with open_clusters(flow) as clusters:
        (refusal,) = sync_topics.run(flow, clusters).refused
        assert "Unknown topic config name: message.format.version" in refusal.message
        assert "config.properties.exclude" in refusal.hint
        assert () == sync_topics.run(without, clusters).refused
        alter_configs(older, ResourceType.TOPIC, topic, max_message_bytes="2000000", segment_ms="3600000")
        result = sync.run(flow, clusters)
        has = clusters.target.topic_configs([f"OLD.{topic}"]).require()[f"OLD.{topic}"]
    assert ("2000000", "3600000") == (has["max.message.bytes"].value, has["segment.ms"].value)
    assert {
        f"topic OLD.{topic}: message.format.version": "unknown-config",
        f"topic OLD.{topic}: segment.bytes": "refused",
    } == {it.name: it.code for it in result.refused if topic in it.name}


def test_share_groups_are_refused_by_name(older, tmp_path) -> None:
    """3.9 has no request for them: each is refused, and other groups are not."""
    flow = flow_of(tmp_path, older, older, "none")
    at = TopicPartition("none", 0)
    with open_clusters(flow) as clusters:
        read = clusters.source.share_starts(["shared"])
        changed = clusters.target.alter_share_starts({"shared": {at: OffsetChange(1, None)}})
    assert (["shared"], [GroupPartition("shared", *at)]) == ([*read.refused], [*changed.refused])
    errors = [*read.refused.values(), *changed.refused.values()]
    assert [(35, True)] * 2 == [(it.data["kafka_code"], "4.2 with share groups" in it.hint) for it in errors]
