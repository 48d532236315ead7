"""Handing over and taking back without MM2 in between: who may copy when, and Connect's other names.

Costs about 15 s with its brokers; the whole way with MM2 is in test_takeover.py.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from lab import Seen, configure, create_topic, cycle, flow_of, produce, read, read_with_offsets
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.errors import TerminalError
from twinlog.formats.mm2.connect_offset import offset_value, source_offset_key
from twinlog.migration import handover, takeover
from twinlog.migration.copier import Origin
from twinlog.state.ledger import read_ledger
from twinlog.state.progress import read_maps

NOW = int(time.time() * 1000)


def some(first: int, count: int) -> list[Seen]:
    return [Seen(b"%d" % n, b"value %d" % n, NOW + n) for n in range(first, first + count)]


def test_a_flow_that_was_handed_over_stands_still_until_it_is_taken_back(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Positions go under the names of a Connect cluster, too; nothing is copied meanwhile, nothing twice after."""
    topic, offsets = create_topic(cluster_a, unique_topic("back")), unique_topic("connect-offsets")
    create_topic(cluster_b, offsets, 5, cleanup_policy="compact")
    alias = topic.replace("back-", "S")
    names = ("offset-syncs__topic__replication__factor", "checkpoints__topic__replication__factor")
    config = configure(
        tmp_path,
        {alias: cluster_a, f"{alias}b": cluster_b},
        [f"{alias}->{alias}b"],
        topics=topic,
        heartbeats__replication__enabled="false",
        emit__heartbeats__enabled="false",
        **dict.fromkeys(names, "1"),
    )
    flow = load(config).flows[f"{alias}->{alias}b"]
    origin = Origin.of(flow, f"{flow.name}.MirrorSourceConnector", offsets, "strimzi-workers")
    remote = flow.policy.format_remote_topic(alias, topic)
    produce(cluster_a, topic, some(0, 100))
    assert 100 == cycle(flow).records

    with open_clusters(flow) as clusters:
        done = handover.run(flow, clusters, origin, run_id=uuid.uuid4().hex, watch_seconds=0)
        stored = clusters.target.latest(offsets)
    assert ("done", 1, 100) == (done.state, done.positions_written, done.partitions[0].compared)
    assert {source_offset_key(origin.connector, alias, 0, topic): offset_value(99)} == stored
    assert any("offset-sync(s) written" in note for note in done.notes)

    produce(cluster_a, topic, some(100, 50))
    with suppress(TerminalError):
        assert 0 == cycle(flow).records
    assert 100 == len(read(cluster_b, remote))

    with open_clusters(flow) as clusters:
        back = takeover.run(flow, clusters, origin, run_id=uuid.uuid4().hex, watch_seconds=0)
    assert ("done", 0, 0) == (back.state, back.duplicates, back.beyond)
    assert 50 == cycle(flow).records
    assert some(0, 150) == read(cluster_b, remote)


def test_a_flow_that_two_programs_have_copied_at_once_is_taken_over(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """MM2 was not stopped, and was ahead: nothing is copied a third time, and readers go to the first copies."""
    topic = create_topic(cluster_a, unique_topic("both"))
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], emit__heartbeats__enabled="false")
    remote = flow.policy.format_remote_topic("A", topic)
    produce(cluster_a, topic, some(0, 100))
    assert 100 == cycle(flow).records
    produce(cluster_a, topic, some(100, 50))
    produce(cluster_b, remote, some(100, 50))  # as MM2 does
    assert 30 == cycle(flow, until_ms=NOW + 130).records
    with open_clusters(flow) as clusters:
        origin = Origin.of(flow)
        report = takeover.run(flow, clusters, origin, run_id=uuid.uuid4().hex, watch_seconds=0)
    assert ("done", 30) == (report.state, report.duplicates)

    produce(cluster_a, topic, some(150, 10))
    assert 10 == cycle(flow).records
    expected = [*some(0, 150), *some(100, 30), *some(150, 10)]
    assert expected == read(cluster_b, remote)
    first: dict[bytes | None, int] = {}
    for offset, seen in read_with_offsets(cluster_b, remote):
        first.setdefault(seen.key, offset)
    with open_clusters(flow) as clusters:
        known = next(it for life, it in read_maps(flow, clusters.target).items() if life.topic == topic)
        assert () == read_ledger(flow, clusters.target).map_holes
    for number, seen in read_with_offsets(cluster_a, topic):
        found = known.translate(number)
        assert found is not None
        assert (first[seen.key], True) == (found.offset, found.exact)
