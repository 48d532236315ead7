"""A lane that knows where its batches will lie: right when it is alone, and harmless when it is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fakes import TOPIC_ID, Entry, FakeSource, FakeTarget
from hypothesis import given
from hypothesis import strategies as st
from test_copy_lane import NOWHERE, STATE, agree, copy, source_of
from test_cutter import Log, logs
from test_producer import TP, a_lane, outgoing

from batches import Rec, encode
from twinlog.batches.header import BatchHeader
from twinlog.lane.copy.copy_lane import LaneCopy
from twinlog.lane.spec import NO_END, LaneSpec, RangeSpec
from twinlog.protocol.errors import Code

TOPICS = ["A.t", "offsets", "map", "ledger", "aside"]
STRANGER = -1
"""The producer id of records that are not the lane's."""


class Crowded(FakeTarget):
    """A target whose topic another producer writes to, too: before those of our requests for which it is so drawn."""

    def __init__(self, strangers: Iterator[bool]) -> None:
        super().__init__(TOPICS)
        self._strangers = strangers

    def _produce(self, api: int, body: memoryview) -> bytes | None:
        if next(self._strangers, False):
            batch = bytes(encode([Rec(b"not ours")], producer_id=STRANGER))
            header = BatchHeader.read(batch)
            self.logs["A.t", 0].append(Entry(self._end(("A.t", 0)), header, batch, "committed"))
        return super()._produce(api, body)

    def committed(self, partition: tuple[str, int]) -> list[tuple[int, bytes]]:
        theirs = {it.base for it in self.logs[partition] if it.header.producer_id == STRANGER}
        return [item for item in super().committed(partition) if item[0] not in theirs]


@given(st.lists(st.tuples(st.lists(st.integers(1, 5), max_size=4), st.booleans()), min_size=1, max_size=6))
def test_what_is_foreseen_comes_true(transactions: list[tuple[list[int], bool]]) -> None:
    """Over commits and aborts, from the second answer on, whatever is on its way."""
    _, lane = a_lane()
    known = False
    for sizes, commit in transactions:
        lane.add([TP])
        for size in sizes:
            lane.send({TP: [outgoing(size)]})
        predicted = lane.predicted()
        lane.drain()
        written = [(it.partition, it.base_offset) for it in lane.take_written()]
        assert (predicted is not None) == (known or not sizes)
        assert predicted is None or written == [(it.partition, it.base_offset) for it in predicted]
        known = known or bool(sizes)
        (lane.commit if commit else lane.abort)()


def test_nothing_is_foreseen_behind_a_refused_batch() -> None:
    """It may have been written or not."""
    target, lane = a_lane()
    for fault in (None, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
        lane.add([TP])
        target.faults["produce"] = [fault]
        lane.send({TP: [outgoing()]})
        lane.drain()
        lane.take_refused()
        lane.abort()
    lane.add([TP])
    lane.send({TP: [outgoing()]})
    assert lane.predicted() is None


@given(logs(), st.lists(st.booleans(), max_size=30), st.integers(1, 2000))
def test_a_stranger_in_the_copy_changes_neither_records_nor_map(
    log: Log, strangers: list[bool], size: int
) -> None:
    """What was predicted wrongly is given up before it is committed, and waited for from then on."""
    target = Crowded(iter(strangers))
    report = copy(source_of([log], 500), target, {0: 0}, {0: log.end}, bytes_=size)
    assert report.state == "done"
    agree(target, 0, log)


def test_one_wrong_foresight_is_enough() -> None:
    """Then a lane waits for every answer: a stranger who stays would end each transaction."""
    log = [bytes(encode([Rec(bytes([n]))] * 30, base_offset=30 * n)) for n in range(20)]
    target = Crowded(iter([True] * 100))
    report = copy(source_of([Log(log, [], [], 600)], 1), target, {0: 0}, {0: 600}, bytes_=1)
    decided = {it.state for it in target.logs["A.t", 0] if not it.header.control}
    aborted = [it for it in target.logs["A.t", 0] if it.state == "aborted" and not it.header.control]
    assert (report.state, report.transactions, len(aborted)) == ("done", 20, 1)
    assert decided == {"committed", "aborted"}


def followed(target: FakeTarget, source: FakeSource) -> LaneCopy:
    """A lane that follows partition 0 from its start; its beats are up to the test."""
    producer, epoch = target.init()
    ranges = (RangeSpec("t", TOPIC_ID, "A.t", 0, 0, NO_END),)
    spec = LaneSpec("A->B", 0, "lane", producer, epoch, NOWHERE, NOWHERE, STATE, ranges)
    return LaneCopy(spec, source, target)  # type: ignore[arg-type]


def beat(lane: LaneCopy, source: FakeSource, number: int | None) -> None:
    """One beat, with a batch of ten records if it has a number."""
    if number is not None:
        source.logs["t", 0].append(bytes(encode([Rec(bytes([number]))] * 10, base_offset=10 * number)))
    lane.ask()
    for answer in lane.answers():
        lane.take(answer, ahead=False)
    lane.transaction.commit()


@pytest.mark.parametrize(
    ("beats", "ahead"),
    [([0], False), ([0, 1], True), ([0, None, 1], False), ([0, 1, None], False), ([0, 1, 2], True)],
)
def test_a_transaction_is_opened_ahead_while_records_stream(beats: list[int | None], ahead: bool) -> None:
    """After two beats in a row that moved a partition, not for what comes now and then."""
    target, source = FakeTarget(TOPICS), FakeSource({("t", 0): []})
    lane = followed(target, source)
    for number in beats:
        beat(lane, source, number)
    before = target.calls.count("add")
    lane.transaction.open_ahead()
    assert ahead == (target.calls.count("add") > before)


def test_a_beat_in_a_transaction_opened_ahead_asks_for_nothing_more() -> None:
    """Its partitions, and those of its progress and map, are in it already."""
    target, source = FakeTarget(TOPICS), FakeSource({("t", 0): []})
    lane = followed(target, source)
    beat(lane, source, 0)
    beat(lane, source, 1)
    lane.transaction.open_ahead()
    del target.calls[:]
    beat(lane, source, 2)
    assert (["produce", "produce", "end_txn"], 30) == (target.calls, len(target.committed(("A.t", 0))))


def test_a_transaction_opened_for_nothing_is_ended() -> None:
    """Left open it would time out, and the coordinator would fence the lane."""
    target, source = FakeTarget(TOPICS), FakeSource({("t", 0): []})
    lane = followed(target, source)
    beat(lane, source, 0)
    beat(lane, source, 1)
    lane.transaction.open_ahead()
    beat(lane, source, None)
    assert (set(), "end_txn") == (target.producers[7].open, target.calls[-1])
    beat(lane, source, 2)
    assert 30 == len(target.committed(("A.t", 0)))


def test_what_is_foreseen_of_many_partitions_comes_true_in_whatever_order_it_is_told() -> None:
    """Brokers answer for the partitions of a request in the order of a hash map."""
    numbers = range(4)
    logs = [
        Log([bytes(encode([Rec(bytes([n]))] * 10, base_offset=10 * n)) for n in range(20)], [], [], 200)
        for _ in numbers
    ]
    target = FakeTarget(TOPICS)
    report = copy(
        source_of(logs, 1), target, dict.fromkeys(numbers, 0), dict.fromkeys(numbers, 200), bytes_=1
    )
    states = {it.state for number in numbers for it in target.logs["A.t", number] if not it.header.control}
    assert ("done", {"committed"}) == (report.state, states)
    assert report.transactions > 5
