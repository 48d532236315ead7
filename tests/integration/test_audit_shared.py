"""Audits of topics that others write to as well: both ways under one name, and several flows into one topic."""

from __future__ import annotations

import dataclasses
import time
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_audit import FULL, audited, found, write_anew

from lab import Seen, configure, create_topic, cycle, produce
from twinlog.audit.result import AuditedPartition, AuditResult
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.audit import DifferenceKind as Kind

pytestmark = pytest.mark.integration

NOW = int(time.time() * 1000)


def flows_of(folder: Path, clusters: dict[str, Any], flows: list[str], topic: str) -> list[FlowSettings]:
    """Flows that keep the topic's name, of aliases no other test uses."""
    file = configure(
        folder,
        clusters,
        flows,
        topics=topic,
        heartbeats__replication__enabled="false",
        replication__policy__class="org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    )
    return [load(file).flows[name] for name in flows]


def written(name: str, first: int = 0, count: int = 40) -> list[Seen]:
    return [Seen(b"%d" % (n % 7), f"{name} {n}".encode(), NOW + n) for n in range(first, first + count)]


def row(result: AuditResult) -> AuditedPartition:
    (only,) = result.partitions
    return only


def test_both_ways_under_one_name(cluster_a: Any, cluster_b: Any, tmp_path: Path) -> None:
    """Each flow proves its own records and no other; damage among them is still located; the rest is counted."""
    suffix = uuid.uuid4().hex[:5]
    topic, left, right = f"audit-both-{suffix}", f"L{suffix}", f"R{suffix}"
    for cluster in (cluster_a, cluster_b):
        create_topic(cluster, topic)
    there, back = flows_of(
        tmp_path, {left: cluster_a, right: cluster_b}, [f"{left}->{right}", f"{right}->{left}"], topic
    )
    for turn in range(3):
        produce(cluster_a, topic, written("a", 40 * turn), batch_num_messages=1 if turn == 1 else 1000)
        produce(cluster_b, topic, written("b", 40 * turn, 25), compression_type="lz4")
        cycle(there)
        cycle(back)
        for flow, count in ((there, 40), (back, 25)):
            result = audited(flow)
            assert (True, [], [], count, 1.0) == (
                result.equal, found(result), list(result.problems), row(result).records, row(result).coverage,
            )  # fmt: skip
    full = audited(there, FULL)
    # The first 25 of the other side stand in front of the first that was copied: nothing is said of those.
    assert (True, 120, 50) == (full.equal, row(full).records, row(full).others)
    produce(cluster_b, topic, written("b", 500, 5))
    full = audited(there, FULL)
    assert (True, 1.0, 120) == (full.equal, row(full).coverage, row(full).records)


def test_what_clients_wrote_before_the_reverse_flows_first_cycle_is_not_extra(
    cluster_a: Any, cluster_b: Any, tmp_path: Path
) -> None:
    """The file says that the reverse flow will copy it: the first cycle of both raised a false alarm."""
    suffix = uuid.uuid4().hex[:5]
    topic, left, right = f"audit-first-{suffix}", f"L{suffix}", f"R{suffix}"
    for cluster in (cluster_a, cluster_b):
        create_topic(cluster, topic)
    there, back = flows_of(
        tmp_path, {left: cluster_a, right: cluster_b}, [f"{left}->{right}", f"{right}->{left}"], topic
    )
    produce(cluster_a, topic, written("a", 0))
    cycle(there)
    produce(cluster_b, topic, written("b", 0, 25))
    for flow, count in ((there, 40), (back, 25)):
        if flow is back:
            cycle(back)
            produce(cluster_a, topic, written("a", 40))
        result = audited(flow)
        assert (True, [], count) == (result.equal, found(result), row(result).records)
    cycle(there)
    assert (True, []) == ((full := audited(there, FULL)).equal, found(full))


def test_several_flows_into_one_topic(cluster_a: Any, cluster_b: Any, cluster_c: Any, tmp_path: Path) -> None:
    """What another flow's map knows is that flow's; what nobody's map knows is a stranger's record, still."""
    suffix = uuid.uuid4().hex[:5]
    topic, target = f"audit-fan-{suffix}", f"T{suffix}"
    sources = {f"X{suffix}": cluster_a, f"Y{suffix}": cluster_c}
    for cluster in (cluster_a, cluster_b, cluster_c):
        create_topic(cluster, topic)
    flows = flows_of(tmp_path, sources | {target: cluster_b}, [f"{it}->{target}" for it in sources], topic)
    for turn in range(2):
        for source in sources.values():
            produce(source, topic, written("a", 40 * turn))
        for flow in flows:
            cycle(flow)
    for flow, others in zip(flows, (80, 40), strict=True):  # the first flow's first 40 stand in front of all
        result = audited(flow)
        assert (True, [], 80, 1.0, others) == (
            result.equal, found(result), row(result).records, row(result).coverage, row(result).others,
        )  # fmt: skip
    produce(cluster_b, topic, [Seen(b"x", b"stranger", NOW)])
    for flow in flows:
        result = audited(flow)
        assert [Kind.EXTRA] == [it.kind for it in result.differences]


def test_damage_of_a_shared_topic_is_located(cluster_a: Any, cluster_b: Any, tmp_path: Path) -> None:
    """In a topic of both ways: a record of the flow's own that was changed, and one that is missing."""
    suffix = uuid.uuid4().hex[:5]
    topic, left, right = f"audit-hurt-{suffix}", f"L{suffix}", f"R{suffix}"
    for cluster in (cluster_a, cluster_b):
        create_topic(cluster, topic)
    there, back = flows_of(
        tmp_path, {left: cluster_a, right: cluster_b}, [f"{left}->{right}", f"{right}->{left}"], topic
    )
    good = written("a")
    produce(cluster_a, topic, good)
    for flow in (there, back):
        cycle(flow)
    assert audited(there).equal
    damaged = [*good[:5], dataclasses.replace(good[5], value=b"damage"), *good[6:-1]]
    write_anew(cluster_b, topic, damaged)
    result = audited(there, FULL)
    assert [(Kind.VALUE, 5, 5), (Kind.MISSING, 39, 39)] == found(result)


def test_the_other_way_begins_during_an_audit(
    cluster_a: Any, cluster_b: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What clients of the target wrote is not called extra if the reverse flow records its topics during the audit."""
    suffix = uuid.uuid4().hex[:5]
    topic, left, right = f"audit-live-{suffix}", f"L{suffix}", f"R{suffix}"
    for cluster in (cluster_a, cluster_b):
        create_topic(cluster, topic)
    there, back = flows_of(
        tmp_path, {left: cluster_a, right: cluster_b}, [f"{left}->{right}", f"{right}->{left}"], topic
    )
    produce(cluster_a, topic, written("a"))
    cycle(there)
    produce(cluster_b, topic, written("b", count=240))
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: cycle(back))
    monkeypatch.setattr("twinlog.audit.audit.time", clock)
    result = audited(there)
    assert (True, [], 40) == (result.equal, found(result), row(result).records)
