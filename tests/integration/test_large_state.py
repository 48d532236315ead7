"""State that has grown large, on real brokers: written whole or not at all, read as it was.

Costs about a minute, brokers included.
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from lab import create_topic, flow_of, read

from twinlog.cluster.clusters import open_clusters
from twinlog.cluster.ledger import read_ledger, write_ledger
from twinlog.errors import FencedError
from twinlog.formats.ledger_topics import Gap, GapCause, GroupPosition, Rebuild, RebuildPhase
from twinlog.steps import sync_topics
from twinlog.steps.fencing import held
from twinlog.steps.life_records import noted

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


@pytest.fixture
def flow(cluster_a: Any, cluster_b: Any, tmp_path: Path) -> Any:
    """A flow with its topics made."""
    topic = create_topic(cluster_a, f"large-{uuid.uuid4().hex[:6]}")
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
    return flow


def test_a_rebuild_of_a_hundred_thousand_positions_is_noted_and_read(flow, cluster_b) -> None:
    """Behind the fence, then without one; a driver that was fenced leaves what was there."""
    with open_clusters(flow) as clusters:
        topic = f"none-{uuid.uuid4().hex[:6]}"
        with held(flow, clusters, "test") as fence:
            fence.write([noted(fence.state, rebuild_of(topic, "behind the fence"))])
        assert rebuild_of(topic, "behind the fence") == read_ledger(flow, clusters.target).rebuilds[topic]
        write_ledger(flow, clusters.target, [rebuild_of(topic, "without one")])
        assert rebuild_of(topic, "without one") == read_ledger(flow, clusters.target).rebuilds[topic]
        with held(flow, clusters, "test") as late:
            with held(flow, clusters, "another"):
                pass
            with pytest.raises(FencedError):
                late.write([noted(late.state, rebuild_of(topic, "too late"))])
    with open_clusters(flow) as clusters:
        assert rebuild_of(topic, "without one") == read_ledger(flow, clusters.target).rebuilds[topic]
    records = read(cluster_b, flow.ledger_topic)
    assert max(len(it.key or b"") + len(it.value or b"") for it in records) < MOST_BYTES


@pytest.mark.parametrize("count", [10_000, 50_000, 200_000])
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
