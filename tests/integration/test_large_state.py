"""State that has grown large, on real brokers: written whole or not at all, read as it was.

Costs about two minutes.  The brokers are these tests' own: a ledger of 200,000 records would slow down all others.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from in_turn import in_turn

from lab import Seen, create_topic, cycle, flow_of, produce, read
from twinlog.cluster.admin.groups import OffsetChange
from twinlog.cluster.api import open_clusters
from twinlog.copying.ownership import Ownership
from twinlog.errors import FencedError
from twinlog.formats.ledger.topics import Gap, GapCause, GroupPosition, Rebuild, RebuildPhase
from twinlog.kafka_types import TopicPartition
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lifecycle import rebuild, sync_topics
from twinlog.lifecycle.records import noted
from twinlog.state.ledger import read_ledger, write_ledger

pytestmark = pytest.mark.integration

POSITIONS = 100_000
MOST_BYTES = 1_048_588 // 2
"""Half of Kafka's default of max.message.bytes."""


def rebuild_of(topic: str, request: str) -> Rebuild:
    """Make the record of a rebuild that keeps a hundred thousand positions."""
    groups = tuple(GroupPosition(f"group-{n // 100}", n % 100, n, n + 7) for n in range(POSITIONS))
    return Rebuild(
        topic, "id", f"A.{topic}", "", RebuildPhase.COPYING, "me", "why", 1, groups=groups, request=request
    )


@pytest.fixture(scope="module")
def cluster_a(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A source of their own."""
    with EmbeddedKafka("A", tmp_path_factory.mktemp("large-A") / "kafka") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster_b(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A target of their own."""
    with EmbeddedKafka("B", tmp_path_factory.mktemp("large-B") / "kafka") as cluster:
        yield cluster


@pytest.fixture
def flow(cluster_a: Any, cluster_b: Any, tmp_path: Path) -> Any:
    """A flow with its topics made."""
    topic = create_topic(cluster_a, f"large-{uuid.uuid4().hex[:6]}")
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
    return flow


@pytest.mark.long
def test_a_rebuild_of_a_hundred_thousand_positions_is_noted_and_read(flow, cluster_b) -> None:
    """Behind the fence, then without one; a driver that was fenced leaves what was there."""
    with open_clusters(flow) as clusters:
        topic = f"none-{uuid.uuid4().hex[:6]}"
        owned = Ownership.taken(flow, clusters, "test")
        owned.write([noted(owned.state, rebuild_of(topic, "behind the fence"))])
        assert rebuild_of(topic, "behind the fence") == read_ledger(flow, clusters.target).rebuilds[topic]
        write_ledger(flow, clusters.target, [rebuild_of(topic, "without one")])
        assert rebuild_of(topic, "without one") == read_ledger(flow, clusters.target).rebuilds[topic]
        late = Ownership.taken(flow, clusters, "test")
        Ownership.taken(flow, clusters, "another")
        with pytest.raises(FencedError):
            late.write([noted(late.state, rebuild_of(topic, "too late"))])
    with open_clusters(flow) as clusters:
        assert rebuild_of(topic, "without one") == read_ledger(flow, clusters.target).rebuilds[topic]
    records = read(cluster_b, flow.ledger_topic)
    assert max(len(it.key or b"") + len(it.value or b"") for it in records) < MOST_BYTES


@pytest.mark.long
def test_a_rebuild_with_a_hundred_thousand_positions_restores_them(cluster_a, cluster_b, tmp_path) -> None:
    """A thousand groups on a hundred partitions, each exactly where it stood."""
    topic = create_topic(cluster_a, f"many-{uuid.uuid4().hex[:6]}", 100)
    for partition in range(100):
        produce(cluster_a, topic, [Seen(b"k", b"%d" % n, 1_000 + n) for n in range(3)], partition)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    cycle(flow)
    places = [TopicPartition(f"A.{topic}", partition) for partition in range(100)]
    wanted = {f"{topic}-{n}": {at: OffsetChange(n % 3 + 1, None) for at in places} for n in range(1_000)}
    with open_clusters(flow) as clusters:
        assert not clusters.target.alter_offsets(wanted).refused
        begun = rebuild.run(flow, clusters, topic, by="test", reason="drill", request="r1")
        assert begun.deleted
        assert POSITIONS == len(read_ledger(flow, clusters.target).rebuilds[topic].groups)
    cycle(flow)
    with open_clusters(flow) as clusters:
        rebuild.restore_reached(flow, clusters)
        assert RebuildPhase.DONE == read_ledger(flow, clusters.target).rebuilds[topic].phase
        found = clusters.target.committed_offsets(wanted).require()
    assert {group: {at: it.offset for at, it in changes.items()} for group, changes in wanted.items()} == {
        group: {at: it.offset for at, it in offsets.items()} for group, offsets in found.items()
    }
    assert max(len(it.value or b"") for it in read(cluster_b, flow.ledger_topic)) < MOST_BYTES


@pytest.mark.parametrize("count", [10_000, 50_000, *in_turn(200_000)])
def test_a_ledger_is_read_again_for_what_is_new(flow, count, record_property) -> None:
    """Whatever its size; the time it took is told, and not judged."""
    gaps = [Gap(f"t{n // 10}", n % 10, n, n + 5, GapCause.RETENTION, 1, 5, "id") for n in range(count)]
    with open_clusters(flow) as clusters:
        write_ledger(flow, clusters.target, gaps)
        spent = []
        for _ in range(3):
            wall, cpu = time.perf_counter(), time.process_time()
            found = read_ledger(flow, clusters.target)
            spent.append((round(time.perf_counter() - wall, 3), round(time.process_time() - cpu, 3)))
        print(f"{count} records, wall and CPU seconds of three readings: {spent}")
        assert set(gaps) <= set(found.gaps)
        assert found is read_ledger(flow, clusters.target)
