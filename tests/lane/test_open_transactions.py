"""A target that leaves out the markers of partitions without a leader: nothing is added to them before that is seen."""

from __future__ import annotations

import pytest
from fakes import LOSE, Appended, FakeTarget
from test_producer import TP, a_lane, outgoing, transaction

from twinlog.copying.mend.copies import rewrite_markers
from twinlog.copying.mend.outcomes import Outcome
from twinlog.errors import TransientError
from twinlog.lane import transaction as transaction_module
from twinlog.lane.in_flight import Refused
from twinlog.lane.producer import Lane
from twinlog.lane.transaction import LaneState
from twinlog.protocol.errors import Code

OTHER = ("A.t", 1)
UNLED = [Refused(TP, Code.LEADER_NOT_AVAILABLE, "it cannot be written to", resend=True)]


def refused_and_given_up(target: FakeTarget, lane: Lane, *, led: bool = True) -> None:
    """A batch is written, the next meets a leader that has moved or gone: the transaction is aborted."""
    transaction(lane, outgoing())
    target.faults["produce"] = [Appended(Code.NOT_LEADER_OR_FOLLOWER)]
    lane.send({TP: [outgoing(2, 10)]})
    lane.drain()
    assert [True] == [it.resend for it in lane.take_refused()]
    if not led:
        target.leaderless.add(TP)
    lane.abort()


def lacks_an_end(lane: Lane) -> None:
    """The lane stops before anything comes to lie behind what is open; only a fence helps."""
    with pytest.raises(
        TransientError, match=r"A\.t-0 lacks the end of a transaction that began at"
    ) as caught:
        lane.add([OTHER, TP])
    assert ("fence-again", LaneState.STOPPED) == (caught.value.code, lane.transaction.state)


def test_a_partition_without_a_leader_waits_and_is_then_looked_at() -> None:
    """An aborted batch that was left open would be committed with the next transaction."""
    target, lane = a_lane()
    refused_and_given_up(target, lane, led=False)
    assert UNLED == lane.add([TP])
    assert [] == lane.add([OTHER])
    lane.abort()
    target.leaderless.clear()
    lacks_an_end(lane)


def test_a_leader_that_moved_with_its_markers_goes_on() -> None:
    """No fence: what was doubted is seen once, and written to again."""
    target, lane = a_lane()
    refused_and_given_up(target, lane)
    transaction(lane, outgoing(1, 20))
    lane.commit()
    assert 1 == len(target.committed(TP))


def test_a_commit_whose_answer_was_lost_may_lack_markers() -> None:
    """A committed batch that was left open would be lost with the next abort: the lane stops before it."""
    target, lane = a_lane()
    transaction(lane, outgoing())
    target.faults["end_txn"] = [LOSE]
    target.leaderless.add(TP)
    lane.commit()
    target.leaderless.clear()
    with pytest.raises(TransientError, match="an end that was not answered"):
        lane.add([TP])


def test_a_closed_connection_is_a_sign() -> None:
    """Its broker was away when the markers were written, and is there again."""
    target, lane = a_lane()
    transaction(lane, outgoing())
    target.leaderless.add(TP)
    lane.commit()
    target.leaderless.clear()
    target.closes_connections = True
    lacks_an_end(lane)


@pytest.mark.parametrize("sign", [LOSE, Code.NOT_COORDINATOR, Code.CONCURRENT_TRANSACTIONS])
def test_an_unusual_beginning_is_a_sign(sign: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator died, moved, or was busy for long with the markers of the transaction before."""
    monkeypatch.setattr(transaction_module, "_UNUSUAL_SECONDS", 0.0)
    target, lane = a_lane()
    transaction(lane, outgoing())
    target.leaderless.add(TP)
    lane.commit()
    target.leaderless.clear()
    target.faults["add"] = [sign]
    lacks_an_end(lane)


def test_what_is_out_of_reach_is_not_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a leader, which does not answer."""
    target, lane = a_lane()
    refused_and_given_up(target, lane)

    def unsettled(*_: object, **__: object) -> None:
        raise TransientError("offsets cannot be listed")

    monkeypatch.setattr(target, "offsets", unsettled)
    assert UNLED == lane.add([TP])


def test_a_topic_that_has_gone_is_left_to_the_coordinator() -> None:
    """It says so; and one that is there all the same is a doubt."""
    target, lane = a_lane()
    refused_and_given_up(target, lane)
    del target.topics["A.t"]
    assert [Code.UNKNOWN_TOPIC_OR_PARTITION] == [it.code for it in lane.add([TP])]
    metadata = target.metadata(["A.t"])
    target.topics["A.t"] = 4
    target.metadata = lambda _: metadata  # type: ignore[method-assign]
    with pytest.raises(TransientError, match=r"A\.t was gone and is there again"):
        lane.add([TP])


def test_without_a_sign_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look before each transaction would double its questions."""
    target, lane = a_lane()
    monkeypatch.setattr(target, "offsets", None)
    for number in range(3):
        transaction(lane, outgoing(2, number * 10))
        lane.commit()
    assert 6 == len(target.committed(TP))


def test_a_log_that_became_shorter_is_not_written_to() -> None:
    """A leader without the last records was elected: what is written next would lie where they lay."""
    target, lane = a_lane()
    transaction(lane, outgoing())
    lane.commit()
    refused_and_given_up(target, lane)
    del target.logs[TP][1:]
    with pytest.raises(TransientError, match=r"A\.t-0 ended at offset \d+, and ends at \d+ now") as caught:
        lane.add([OTHER, TP])
    assert ("fence-again", LaneState.STOPPED) == (caught.value.code, lane.transaction.state)


@pytest.mark.parametrize("verdict", [Outcome.COMMITTED, Outcome.ABORTED])
def test_an_end_written_again_that_may_come_once_more_ends_the_epoch(verdict: Outcome) -> None:
    """Done late, it would end what a lane has written next: only a fence helps."""
    target, lane = a_lane()
    transaction(lane, outgoing())
    target.faults["end_txn"] = [LOSE]
    with pytest.raises(TransientError, match="was not answered at first") as caught:
        rewrite_markers(target, [lane.writer], {(TP, lane.writer.producer_id): verdict})  # type: ignore[arg-type]
    assert "fence-again" == caught.value.code


def test_an_end_written_again_and_answered_leaves_the_epoch_to_the_lanes() -> None:
    """Nothing is at large."""
    target, lane = a_lane()
    transaction(lane, outgoing())
    rewrite_markers(target, [lane.writer], {(TP, lane.writer.producer_id): Outcome.COMMITTED})  # type: ignore[arg-type]
    assert [0, 1, 2] == [at for at, _ in target.committed(TP)]
