"""Pausing and resuming, on a ledger in memory."""

from __future__ import annotations

import pytest

from twinlog.errors import TerminalError, UsageError
from twinlog.formats.ledger.records import HANDOVER, FlowPhase, FlowState
from twinlog.lifecycle import sync_topics
from twinlog.state.ledger import read_ledger, write_ledger
from twinlog.steps import discover
from twinlog.topics import pauses


def test_a_paused_topic_is_left_out_and_the_others_go_on(flow, clusters, orders, with_internal) -> None:
    """Until it is resumed; pausing twice changes nothing."""
    done = [pauses.pause(flow, with_internal, topics=["orders"], by="jo", reason="load") for _ in range(2)]
    assert [True, False] == [it.changed for it in done]
    assert ((), "paused by jo: load") == (
        discover.run(flow, clusters).ready_topics,
        discover.run(flow, clusters).topics[0].paused,
    )
    pauses.resume(flow, with_internal, topics=["orders"], by="jo", reason="")
    assert ["orders"] == [it.topic for it in discover.run(flow, clusters).ready_topics]


def test_a_paused_flow_changes_nothing(flow, clusters, source, with_internal) -> None:
    """No topic is created, and the reason is said."""
    pauses.pause(flow, with_internal, by="jo", reason="brokers move")
    source.add_topic("new")
    result = sync_topics.run(flow, clusters)
    assert ((), True) == (result.changes, "paused by jo: brokers move" in result.notes[0])
    assert "A.new" not in with_internal.topics
    assert pauses.resume(flow, with_internal, by="jo", reason="").changed
    assert ["A.new"] == [it.name for it in sync_topics.run(flow, clusters).changes]


def test_what_cannot_be_paused_is_refused_in_one_line(flow, target, with_internal) -> None:
    """Without a reason; a topic that is not paused; a flow that was promoted."""
    with pytest.raises(UsageError, match="needs a reason"):
        pauses.pause(flow, target, by="jo", reason=" ")
    with pytest.raises(UsageError, match="users is not paused"):
        pauses.resume(flow, target, topics=["users"], by="jo", reason="")
    write_ledger(flow, target, [FlowState(FlowPhase.PROMOTED, 1, "jo", "disaster")])
    with pytest.raises(TerminalError, match="promoted by jo: disaster") as caught:
        pauses.resume(flow, target, by="jo", reason="")
    assert "phase" == caught.value.code


def test_a_flow_that_was_handed_over_is_taken_over_and_not_resumed(flow, target, with_internal) -> None:
    """MirrorMaker 2 copies it now: a second copier would copy its records again."""
    handed_over = FlowState(
        FlowPhase.PAUSED, 1, HANDOVER, "handed over; `twinlog migrate takeover` takes it back"
    )
    write_ledger(flow, target, [handed_over])
    with pytest.raises(TerminalError, match="`twinlog migrate takeover` takes it back") as caught:
        pauses.resume(flow, target, by="jo", reason="I mean it")
    assert "phase" == caught.value.code
    assert handed_over == read_ledger(flow, target).flow_state, "nothing was written"


def test_before_the_first_cycle_there_is_nothing_to_pause(flow, target) -> None:
    """The ledger is made by the first cycle."""
    with pytest.raises(TerminalError, match="no ledger") as caught:
        pauses.pause(flow, target, by="jo", reason="load")
    assert "no-ledger" == caught.value.code


@pytest.mark.parametrize(
    ("phase", "way"),
    [
        (FlowPhase.PAUSED, "`twinlog resume` first"),
        (FlowPhase.PROMOTED, "`twinlog recovery status` says what can be done"),
        (FlowPhase.FAILING_BACK, "`twinlog recovery status` says what can be done"),
    ],
)
def test_what_lets_a_flow_go_on(phase: FlowPhase, way: str) -> None:
    """`resume` refuses a flow that was failed over, so nothing sends a person there."""
    assert way == pauses.how_to_go_on(phase)
