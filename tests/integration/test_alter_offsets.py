"""A copy moved to another upstream offset by a person (KIP-875's alter), on real brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, configure, create_topic, cycle, produce, read
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.formats.ledger.records import GapCause
from twinlog.lifecycle import alter, positions
from twinlog.lifecycle.alter import AlterRequest, AlterResult
from twinlog.state.ledger import read_ledger
from twinlog.topics import pauses
from twinlog.topics.snapshot import FlowSnapshot


@pytest.fixture
def made(cluster_a: Any, cluster_b: Any, tmp_path: Path, unique_topic: Callable[[str], str]):
    """`made(**settings)` is a fresh topic and a flow that copies it."""

    def make(**settings: str) -> tuple[str, FlowSettings]:
        topic = create_topic(cluster_a, unique_topic("alter"))
        fixed = {"topics": topic, "heartbeats__replication__enabled": "false"}
        path = configure(tmp_path, {"A": cluster_a, "B": cluster_b}, ["A->B"], **fixed, **settings)
        return topic, load(path).flows["A->B"]

    return make


def write(cluster: Any, topic: str, *numbers: int) -> None:
    produce(cluster, topic, [Seen(None, b"%d" % number, 1_000 + number) for number in numbers])


def contents(cluster: Any, topic: str) -> list[int]:
    return [int(it.value) for it in read(cluster, topic, 0)]


def hold(flow: FlowSettings, *topics: str) -> None:
    with open_clusters(flow) as clusters:
        pauses.pause(flow, clusters.target, topics=topics, by="test", reason="a test")


def go_on(flow: FlowSettings, *topics: str) -> None:
    with open_clusters(flow) as clusters:
        pauses.resume(flow, clusters.target, topics=topics, by="test", reason="")


def move(flow: FlowSettings, topic: str, to: str) -> AlterResult:
    with open_clusters(flow) as clusters:
        return alter.run(flow, clusters, AlterRequest(topic, 0, to, "ann", "known bad"))


def test_offsets_left_out_are_a_gap_and_never_copied(cluster_a, cluster_b, made) -> None:
    """Forward, copied on, audited: the gap has its own cause, the audit is equal, and groups learn what is missing."""
    topic, flow = made()
    write(cluster_a, topic, *range(10))
    cycle(flow)
    write(cluster_a, topic, *range(10, 20))
    hold(flow, topic)
    done = move(flow, topic, "15")
    go_on(flow, topic)
    write(cluster_a, topic, *range(20, 25))
    cycle(flow)
    assert [*range(10), *range(15, 25)] == contents(cluster_b, f"A.{topic}")
    with open_clusters(flow) as clusters:
        ledger = read_ledger(flow, clusters.target)
        shown = positions.run(FlowSnapshot(flow, clusters)).partitions
        audited = audit.run(flow, clusters, LocalAuditRunner())
    gaps = [it for it in ledger.gaps if it.topic == topic]
    assert (*done.gaps,) == (*gaps,)
    assert [(10, 14, GapCause.OFFSETS_ALTERED, 5, True)] == [
        (it.first_offset, it.last_offset, it.cause, it.records_estimate, it.copied_past) for it in gaps
    ]
    assert [(10, 15, "ann", "known bad")] == [
        (it.from_offset, it.to_offset, it.by, it.reason) for it in ledger.altered if it.topic == topic
    ]
    assert [(25, 25, 25, 5, "")] == [
        (it.next_offset, it.end, it.map_end, it.never_copied, it.why) for it in shown
    ]
    assert ("equal", 20) == (audited.verdict.value, audited.compared)


def test_nothing_moves_while_the_flow_may_copy(cluster_a, made) -> None:
    """Neither flow nor topic is paused: the offsets stay, and the line says what to do first."""
    topic, flow = made()
    write(cluster_a, topic, 1)
    cycle(flow)
    with pytest.raises(TerminalError) as refused:
        move(flow, topic, "0")
    assert "alter-refused" == refused.value.code
    write(cluster_a, topic, 2)
    with pytest.raises(TerminalError) as running:
        move(flow, topic, "latest")
    assert "not-paused" == running.value.code
