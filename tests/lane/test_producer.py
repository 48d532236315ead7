"""The lane's states, and what it does when the target's answers are bad or do not come."""

from __future__ import annotations

import pytest
from fakes import DIE, LOSE, Appended, FakeTarget

from batches import Rec, encode
from twinlog.batches.header import BatchHeader
from twinlog.batches.outgoing import Outgoing, Stretches
from twinlog.errors import ClusterUnreachable, FencedError, TransientError
from twinlog.lane.producer import Lane
from twinlog.lane.transaction import TRANSITIONS, LaneState, Writer
from twinlog.protocol import wire
from twinlog.protocol.errors import TABLE, Code, ErrorAction, Request

TP = ("A.t", 0)
RESENT = {code for code, what in TABLE[Request.PRODUCE].items() if what is ErrorAction.RESEND}
MAY_BE_WRITTEN = sorted(RESENT - {Code.NOT_ENOUGH_REPLICAS})
"""Codes behind which a batch may be in the log; NOT_ENOUGH_REPLICAS says that it is not."""


def outgoing(count: int = 3, first: int = 0) -> Outgoing:
    """A batch of `count` records from upstream offset `first`."""
    buffer = memoryview(encode([Rec(b"%d" % (first + n)) for n in range(count)]))
    header = BatchHeader.read(buffer)
    return Outgoing(buffer, header, Stretches(first, [0, 0, count]))


def a_lane() -> tuple[FakeTarget, Lane]:
    """A target and a lane that owns producer 7."""
    target = FakeTarget(["A.t"])
    return target, Lane(target, Writer("twinlog-A->B-0", *target.init()))  # type: ignore[arg-type]


def transaction(lane: Lane, *batches: Outgoing) -> None:
    """Add, send, wait."""
    lane.add([TP])
    for batch in batches:
        lane.send({TP: [batch]})
    lane.drain()


def test_sequences_go_on_over_commits_and_aborts() -> None:
    """Nothing is taken for a duplicate: every committed record is there, no aborted one is."""
    target, lane = a_lane()
    for number, commit in enumerate([True, False, True, False, False, True]):
        transaction(lane, outgoing(2, number * 10))
        (lane.commit if commit else lane.abort)()
    assert len(target.committed(TP)) == 3 * 2
    assert lane.sequences.next[TP] == 6 * 2


@pytest.mark.parametrize(
    ("question", "fault", "look_ups"),
    [
        *((question, None, 1) for question in ("add", "end_txn")),
        *((question, Code.NOT_COORDINATOR, 2) for question in ("add", "end_txn")),
        *((question, Code.CONCURRENT_TRANSACTIONS, 1) for question in ("add", "end_txn")),
        ("add", LOSE, 2),
        ("add", DIE, 2),
    ],
)
def test_the_coordinator_is_looked_up_once_and_again_when_it_has_moved(
    question: str, fault: object, look_ups: int
) -> None:
    """Not for each question: that would be two round trips more a transaction."""
    target, lane = a_lane()
    for number in range(3):
        if number == 1 and fault is not None:
            target.faults[question] = [fault]
        transaction(lane, outgoing(2, number * 10))
        lane.commit()
    assert (len(target.committed(TP)), target.look_ups) == (3 * 2, look_ups)


@pytest.mark.parametrize("fault", [LOSE, DIE])
@pytest.mark.parametrize("commit", [True, False])
def test_behind_an_end_that_was_not_answered_nothing_begins(fault: object, commit: bool) -> None:
    """The first question may wait in a broker still: it would end the next transaction, whatever that is worth."""
    target, lane = a_lane()
    transaction(lane, outgoing())
    target.faults["end_txn"] = [fault]
    (lane.commit if commit else lane.abort)()
    assert (LaneState.IDLE, 3 if commit else 0) == (lane.transaction.state, len(target.committed(TP)))
    with pytest.raises(TransientError, match="an end that was not answered"):
        lane.add([TP])


def test_a_batch_refused_for_too_few_replicas_was_not_written() -> None:
    """However often it is refused, its sequence is known: nothing is guessed, and nothing aborted for it later."""
    target, lane = a_lane()
    target.faults["produce"] = [Code.NOT_ENOUGH_REPLICAS] * 40
    for _ in range(40):
        transaction(lane, outgoing(2))
        assert [(TP, True)] == [(it.partition, it.resend) for it in lane.take_refused()]
        lane.abort()
    transaction(lane, outgoing(2))
    assert [] == lane.take_refused()
    lane.commit()
    assert (2, 2) == (len(target.committed(TP)), lane.sequences.next[TP])


@pytest.mark.parametrize("code", MAY_BE_WRITTEN, ids=lambda code: code.name)
def test_a_batch_that_was_written_and_refused_all_the_same_is_sent_again(code: Code) -> None:
    """At a sequence behind it: at its own it would be taken for a duplicate, and be lost without a word."""
    target, lane = a_lane()
    transaction(lane, outgoing(2))
    lane.commit()
    target.faults["produce"] = [Appended(code)]
    transaction(lane, outgoing(2, 10))
    assert [(TP, True)] == [(it.partition, it.resend) for it in lane.take_refused()]
    lane.abort()
    transaction(lane, outgoing(2, 10))
    assert [] == lane.take_refused()
    lane.commit()
    assert (4, 6) == (len(target.committed(TP)), lane.sequences.next[TP])


def test_one_election_is_waited_for_and_not_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction is open meanwhile: with each partition its own patience, its time-out would come first."""
    target, lane = a_lane()
    partitions = [("A.t", number) for number in range(4)]
    asked: list[int] = []

    def nobody(topic: str, partition: int, seconds: float) -> int:
        asked.append(partition)
        raise ClusterUnreachable(f"{topic}-{partition} has no leader")

    lane.add(partitions)
    monkeypatch.setattr(target, "leader", nobody)
    monkeypatch.setattr(target, "known_leader", lambda *_: -1, raising=False)
    lane.send({partition: [outgoing()] for partition in partitions})
    refused = [(it.partition, it.code, it.resend) for it in lane.take_refused()]
    assert [(partition, Code.LEADER_NOT_AVAILABLE, True) for partition in partitions] == refused
    assert [0] == asked


def test_a_commit_whose_answer_is_lost_is_repeated_until_it_is_answered() -> None:
    """The outcome was decided the first time: committed, once."""
    target, lane = a_lane()
    target.faults["end_txn"] = [LOSE, LOSE]
    transaction(lane, outgoing())
    lane.commit()
    assert (lane.transaction.state, len(target.committed(TP))) == (LaneState.IDLE, 3)
    assert target.calls.count("end_txn") == 3


@pytest.mark.parametrize(
    ("partitions", "writes"), [(1, [16, 16, 8]), (100, [5] * 4), (600, [1] * 4)], ids=["one", "100", "600"]
)
def test_requests_are_handed_over_together(partitions: int, writes: list[int]) -> None:
    """A write's at once; on the way are the last two writes' at most, and 1,024 batches."""
    target = FakeTarget(["A.t"], partitions)
    lane = Lane(target, Writer("twinlog-A->B-0", *target.init()))  # type: ignore[arg-type]
    batches = range(sum(writes))
    queues = {("A.t", number): [outgoing(2, 2 * n) for n in batches] for number in range(partitions)}
    lane.add(list(queues))
    lane.send(queues)
    connection = target.node(1, "produce")
    assert writes == connection.writes
    assert connection.in_flight <= min(sum(writes[-2:]), max(1, 1024 // partitions))
    lane.drain()
    lane.commit()
    for partition in queues:
        found = [rest for _, rest in target.committed(partition)]
        assert len(found) == 2 * len(batches) == len(set(found))


def test_settling_asks_until_the_markers_are_written() -> None:
    """The coordinator is busy with them for a while; a fence by somebody else changes nothing of the commit."""
    target, lane = a_lane()
    lane.await_markers()
    transaction(lane, outgoing())
    lane.commit()
    target.faults["end_txn"] = [Code.CONCURRENT_TRANSACTIONS, Code.CONCURRENT_TRANSACTIONS, None]
    lane.await_markers()
    assert (target.calls.count("end_txn"), len(target.committed(TP))) == (1 + 3, 3)
    target.faults["end_txn"] = [Code.PRODUCER_FENCED]
    lane.await_markers()
    assert len(target.committed(TP)) == 3


def test_an_abort_is_settled_as_an_abort() -> None:
    """Nobody is asked to commit what was aborted: it is aborted once more, until its markers are written."""
    target, lane = a_lane()
    transaction(lane, outgoing())
    lane.abort()
    lane.await_markers()
    assert (target.calls.count("end_txn"), target.committed(TP)) == (2, [])


def test_a_commit_that_never_arrived_is_sent_again() -> None:
    """The broker died before it did anything."""
    target, lane = a_lane()
    target.faults["end_txn"] = [DIE]
    transaction(lane, outgoing())
    lane.commit()
    assert len(target.committed(TP)) == 3


def test_a_commit_after_a_fence_is_an_error_and_commits_nothing() -> None:
    """Somebody else initialised our transactional id while our records were on their way."""
    target, lane = a_lane()
    transaction(lane, outgoing())
    target.init()
    with pytest.raises(FencedError):
        lane.commit()
    assert (lane.transaction.state, target.committed(TP)) == (LaneState.STOPPED, [])


def test_nothing_is_produced_until_the_partition_was_added() -> None:
    """51 CONCURRENT_TRANSACTIONS: the last marker is being written; a produce now would join the old transaction."""
    target, lane = a_lane()
    target.faults["add"] = [Code.CONCURRENT_TRANSACTIONS, Code.NOT_COORDINATOR, LOSE]
    transaction(lane, outgoing())
    lane.commit()
    assert target.calls == ["add", "add", "add", "add", "produce", "end_txn"]


def test_a_lost_produce_answer_stops_the_lane() -> None:
    """Whether the records are there is unknown: only a new fence may go on."""
    target, lane = a_lane()
    target.faults["produce"] = [LOSE]
    lane.add([TP])
    lane.send({TP: [outgoing()]})
    with pytest.raises(TransientError, match="stopped") as caught:
        lane.drain()
    assert (caught.value.code, lane.transaction.state) == ("fence-again", LaneState.STOPPED)
    with pytest.raises(TransientError):
        lane.commit()


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([], "no answer for A.t-0"),
        ([wire.Produced("A.t", 1, 0, 0, (), "")], "an answer for A.t-1, which was not asked for"),
    ],
    ids=["one too few", "another one"],
)
def test_answers_are_matched_by_partition(monkeypatch, answers: list[wire.Produced], why: str) -> None:
    """A batch that no answer is about counts as indeterminate: a broker leaves out a partition that it got twice."""
    _, lane = a_lane()
    monkeypatch.setattr(wire, "produce_response", lambda payload: answers)
    lane.add([TP])
    lane.send({TP: [outgoing()]})
    with pytest.raises(TransientError, match=why):
        lane.drain()
    assert LaneState.STOPPED is lane.transaction.state


def test_a_second_lane_with_the_same_epoch_is_found_out() -> None:
    """Its first batch has the first one's sequence, is dropped as a duplicate, and answered with an old offset."""
    target, first = a_lane()
    transaction(first, outgoing())
    first.commit()
    second = Lane(target, first.writer)  # type: ignore[arg-type]
    second.begin([TP])
    second.add([TP])
    second.send({TP: [outgoing(3, 50)]})
    with pytest.raises(TransientError, match="duplicate"):
        second.drain()
    assert len(target.committed(TP)) == 3


def test_a_refused_batch_is_told_and_its_sequence_is_used_again() -> None:
    """After the abort the next batch takes its place, without a hole in the sequences."""
    target, lane = a_lane()
    target.refuse[TP] = lambda records: [1]
    transaction(lane, outgoing(3))
    (refused,) = lane.take_refused()
    assert (refused.code, refused.record_errors) == (Code.INVALID_TIMESTAMP, ((1, "too bad"),))
    lane.abort()
    del target.refuse[TP]
    transaction(lane, outgoing(2))
    lane.commit()
    assert len(target.committed(TP)) == 2


def test_a_topic_that_the_coordinator_has_not_heard_of_yet_is_added_again() -> None:
    """It was created just now: its range goes on."""
    target, lane = a_lane()
    target.faults["add"] = [Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert [] == lane.add([TP])
    assert {TP} == target.producers[7].open


def test_a_missing_topic_refuses_the_add_and_nothing_was_added() -> None:
    """The caller gives up that partition and adds the others again."""
    target, lane = a_lane()
    refused = lane.add([TP, ("A.gone", 0)])
    assert [item.partition for item in refused] == [("A.gone", 0)]
    assert (lane.transaction.state, target.producers[7].open) == (LaneState.IDLE, set())


@pytest.mark.parametrize("state", list(LaneState))
@pytest.mark.parametrize("event", ["added", "commit-sent", "abort-sent", "answered", "answer-lost"])
def test_an_event_that_is_not_in_the_table_stops_the_lane(state: LaneState, event: str) -> None:
    """The table is the whole truth about what may follow what."""
    _, lane = a_lane()
    lane.transaction.state = state
    if (state, event) in TRANSITIONS:
        lane.transaction.move(event)
        assert lane.transaction.state == TRANSITIONS[state, event]
    else:
        with pytest.raises(TransientError):
            lane.transaction.move(event)
        assert lane.transaction.state is LaneState.STOPPED


def test_without_a_producer_id_nothing_is_written() -> None:
    """Brokers take the id -1 of an unheard error, and write outside any transaction."""
    with pytest.raises(ValueError, match="writes outside any transaction"):
        Writer("twinlog-A->B-0", -1, 0)
