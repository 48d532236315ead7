"""A person moves a copy: all of it behind the fence, in one write, with a name; or nothing (also positions.py)."""

from __future__ import annotations

from typing import Any

import pytest

from twinlog.errors import TerminalError, UsageError
from twinlog.facts.gaps import GapState, read_gaps
from twinlog.formats.ledger.records import HANDOVER, FlowPhase, FlowState, GapCause
from twinlog.formats.ledger.topics import (
    Beginning,
    Incarnation,
    LeaderEpoch,
    TopicPause,
)
from twinlog.groups.maps import never_copied
from twinlog.kafka_types import SourceIncarnation
from twinlog.lifecycle import alter, positions
from twinlog.lifecycle.alter import AlterRequest, AlterResult
from twinlog.state.ledger import read_ledger, write_ledger
from twinlog.state.progress import read_maps, read_progress
from twinlog.topics.snapshot import FlowSnapshot

PAUSE = TopicPause("orders", 1, "me", "why")


@pytest.fixture(autouse=True)
def topic_id(flow, source, with_internal, orders, copied, fenced) -> str:
    """Two of the five records of `orders` are copied; it is paused."""
    copied(orders, 0, 2)
    topic_id = source.topics["orders"].topic_id
    life = Incarnation(
        "orders", topic_id, 1, "A.orders", with_internal.topics["A.orders"].topic_id, "cluster-A"
    )
    begins = Beginning("orders", topic_id, {"0": 0}, {"0": 0}, 1, into_empty=True)
    write_ledger(flow, with_internal, [life, begins, LeaderEpoch("orders", topic_id, 0, 3, 0), PAUSE])
    return topic_id


@pytest.fixture
def move(flow, clusters):
    def run(to: str, *, topic: str = "orders", partition: int = 0, reason: str = "known bad") -> AlterResult:
        return alter.run(flow, clusters, AlterRequest(topic, partition, to, "ann", reason))

    return run


def state(flow: Any, target: Any, orders: Any) -> tuple[Any, ...]:
    return target.latest(flow.ledger_topic), read_progress(flow, target).get(orders)


def test_a_move_forward_is_a_gap_of_the_map_and_of_the_ledger(
    flow, clusters, target, orders, topic_id, move
) -> None:
    """Progress, map, gap, and who did it; groups, gate and status read these."""
    done = move("latest")
    ledger = read_ledger(flow, target)
    life = SourceIncarnation("orders", topic_id, 0)
    assert 4 == read_progress(flow, target)[orders]
    assert 5 == read_maps(flow, target)[life].end_upstream
    assert done.gaps == ledger.gaps
    assert [(2, 4, GapCause.OFFSETS_ALTERED, True)] == [
        (it.first_offset, it.last_offset, it.cause, it.copied_past) for it in ledger.gaps
    ]
    assert [GapState.OPEN] == [it.state for it in read_gaps(flow, target, ledger, 1, clusters.source)]
    assert [(0, 0), (2, 5)] == list(never_copied(ledger)[life])
    assert [(2, 5, "ann", "known bad", "run")] == [
        (it.from_offset, it.to_offset, it.by, it.reason, it.run_id) for it in ledger.altered
    ]
    assert () == ledger.leader_epochs


def test_what_cannot_be_is_refused_and_changes_nothing(flow, target, orders, move) -> None:
    """One line each, and a code."""
    before = state(flow, target, orders)
    for code, wrong in (
        ("alter-refused", {"to": "1"}),
        ("alter-refused", {"to": "6"}),
        ("usage", {"to": "soon"}),
        ("usage", {"to": "5", "topic": "other"}),
        ("usage", {"to": "5", "partition": 1}),
        ("usage", {"to": "5", "partition": -1}),
        ("usage", {"to": "5", "reason": " "}),
    ):
        with pytest.raises(TerminalError) as error:
            move(**wrong)
        assert (code, before) == (error.value.code, state(flow, target, orders))


def test_a_flow_that_may_copy_or_that_is_out_of_service_keeps_its_offsets(flow, target, orders, move) -> None:
    """Paused by a person is held; handed over to MirrorMaker 2, or promoted, is somebody else's."""
    for phase, by, code in (
        (FlowPhase.PAUSED, "ann", ""),
        (FlowPhase.ACTIVE, "ann", "not-paused"),
        (FlowPhase.PAUSED, HANDOVER, "phase"),
        (FlowPhase.FAILING_OVER, "ann", "phase"),
        (FlowPhase.PROMOTED, "ann", "phase"),
    ):
        target.append(orders._replace(topic=flow.ledger_topic), key=PAUSE.key(), value=None)
        write_ledger(flow, target, [FlowState(phase, 1, by, "why")])
        if not code:
            assert move("2").changed is False
            continue
        with pytest.raises(TerminalError) as error:
            move("5")
        assert (code, 1) == (error.value.code, read_progress(flow, target)[orders])


def test_what_was_planned_is_planned_again_behind_the_fence(
    flow, target, orders, copied, fenced, move
) -> None:
    """A lane copied on until the fence: what it copied is not left out, and not a gap."""
    fenced.append(lambda: copied(orders, 2, 4))
    done = move("latest")
    assert [(4, 4)] == [(it.first_offset, it.last_offset) for it in done.gaps]
    assert [(4, 5)] == [(it.from_offset, it.to_offset) for it in read_ledger(flow, target).altered]


def test_a_pause_that_ended_before_the_fence_is_no_pause(flow, target, orders, fenced, move) -> None:
    """Somebody resumed the topic in between."""
    at = orders._replace(topic=flow.ledger_topic)
    fenced.append(lambda: target.append(at, key=PAUSE.key(), value=None))
    with pytest.raises(TerminalError) as error:
        move("5")
    assert ("not-paused", 1) == (error.value.code, read_progress(flow, target)[orders])


def test_a_preview_changes_nothing_and_says_what_it_would_do(flow, clusters, target, orders) -> None:
    """Also for a flow that is not paused: the line says what to do first."""
    target.append(orders._replace(topic=flow.ledger_topic), key=PAUSE.key(), value=None)
    before = state(flow, target, orders)
    seen = alter.preview(flow, clusters, AlterRequest("orders", 0, "latest", "ann", ""))
    assert (False, "pause it first: twinlog pause --topic orders --reason ...") == (seen.changed, seen.before)
    assert "orders-0: never copied are upstream offsets 2 to 4, at most 3 records" == seen.move.told
    assert before == state(flow, target, orders)


def test_where_copies_stand_is_shown_with_the_reason_why_they_do(flow, clusters, orders, move) -> None:
    """Next offset, log, map, what is never copied, and the pause."""
    move("4")
    shown = positions.run(FlowSnapshot(flow, clusters))
    assert [(4, 0, 5, 5 - 4, 4, 2, "paused by me: why")] == [
        (it.next_offset, it.log_start, it.end, it.lag, it.map_end, it.never_copied, it.why)
        for it in shown.partitions
    ]
    assert [(2, 4)] == [(it.from_offset, it.to_offset) for it in shown.altered]


def test_a_reason_is_asked_for_before_any_cluster(flow) -> None:
    """Nothing is opened for a call that cannot be."""
    with pytest.raises(UsageError):
        alter.run(flow, None, AlterRequest("orders", 0, "5", "ann", ""))  # type: ignore[arg-type]
