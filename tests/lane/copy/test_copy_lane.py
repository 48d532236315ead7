"""A lane's whole copy against fakes: whatever is refused, lost or cut, what is committed is right."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import LOSE, TOPIC_ID, Appended, FakeSource, FakeTarget
from hypothesis import given
from hypothesis import strategies as st
from test_cutter import Log, logs, with_gaps
from test_legacy import Set, sets

from batches import Rec, encode
from twinlog.batches.header import BatchHeader
from twinlog.batches.record import Record, key_and_value, key_value_headers, record_rest
from twinlog.config.security.connection import ConnectionSettings
from twinlog.formats.lane_counts import (
    NO_COUNTS,
    UNKNOWN,
    LaneCounts,
    newest_of_lanes,
    parse_lane_counts,
)
from twinlog.formats.map.offset_map import decode_map_key, decode_segment
from twinlog.formats.mm2.connect_offset import parse_copy_end, parse_offset_value
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy import copy_transaction, range_state, state_records
from twinlog.lane.copy.copy_lane import LaneCopy
from twinlog.lane.spec import (
    NO_END,
    FenceMark,
    Follow,
    LaneOutcome,
    LaneReport,
    LaneSpec,
    RangeSpec,
    StateTopics,
)
from twinlog.offsets.offset_map import OffsetMap
from twinlog.protocol.brokers import TopicMetadata
from twinlog.protocol.errors import Code
from twinlog.protocol.leader_epochs import EpochEnd, ReadUpTo

STATE = StateTopics("offsets", 4, "map", 4, "ledger", "MirrorSourceConnector", "A", "aside")
NOWHERE = ConnectionSettings("X", ())


FETCH = {"version": 11}


@pytest.fixture(scope="module", params=[11, 13], autouse=True)
def fetch_version(request: pytest.FixtureRequest) -> None:
    """Everything holds with leaders that are asked by name, and with those that are asked by id in a session."""
    FETCH["version"] = request.param


def source_of(partitions: Iterable[Log], block_bytes: int = 1 << 20) -> FakeSource:
    """A source with one topic `t`, one partition per log."""
    numbered = list(enumerate(partitions))
    source = FakeSource(
        {("t", n): list(log.batches) for n, log in numbered},
        block_bytes=block_bytes,
        fetch_version=FETCH["version"],
    )
    source.aborted = {("t", n): list(log.aborted) for n, log in numbered}
    return source


def copy(
    source: FakeSource,
    target: FakeTarget,
    starts: dict[int, int],
    ends: dict[int, int],
    *,
    bytes_: int = 1 << 20,
    quarantine: bool = False,
    limit: int = 1_048_588,
    fetch_bytes: int = 1 << 24,
    tiers: int = 2,
) -> LaneReport:
    """Fence (as the driver does) and copy every partition from its start."""
    producer, epoch = target.init()
    source.reconnect()
    known = copy_ends(target)
    ranges = tuple(
        RangeSpec(
            "t", TOPIC_ID, "A.t", n, starts[n], end, limit, copy_end=known.get(n), rpo_seconds=n % tiers
        )
        for n, end in ends.items()
        if starts[n] < end
    )
    spec = LaneSpec(
        "A->B",
        0,
        "lane",
        producer,
        epoch,
        NOWHERE,
        NOWHERE,
        STATE,
        ranges,
        quarantine_poison=quarantine,
        transaction_bytes=bytes_,
        fetch_bytes=fetch_bytes,
        fence_ms=epoch,
    )
    return LaneCopy(spec, source, target).run()  # type: ignore[arg-type]


def doubts(source: FakeSource, target: FakeTarget, log: Log, bytes_: int) -> Iterator[LaneReport]:
    """Copy a partition as a driver does, lane after lane until one is done; yield each that stopped in doubt."""
    for _ in range(30):
        start = progress(target).get(0, -1) + 1
        report = copy(source, target, {0: start}, {0: log.end}, bytes_=bytes_)
        if report.state == "done":
            return
        assert report.state == "fence-again"
        yield report


def progress(target: FakeTarget) -> dict[int, int]:
    """Committed progress by partition, as the fence would read it."""
    found = {}
    for number in range(4):
        for _, rest in target.committed(("offsets", number)):
            key, value = key_and_value(Record(0, 0, memoryview(rest)))
            partition = int(str(key).split('"partition":')[1].split(",")[0])
            found[partition] = parse_offset_value(value) or 0
    return found


def copy_ends(target: FakeTarget) -> dict[int, int | None]:
    """Where committed progress says that the copies end, by partition."""
    found = {}
    for number in range(4):
        for _, rest in target.committed(("offsets", number)):
            key, _, headers = key_value_headers(memoryview(rest))
            partition = int(str(key).split('"partition":')[1].split(",")[0])
            found[partition] = parse_copy_end(headers)
    return found


def lane_counts(target: FakeTarget) -> dict[int, LaneCounts]:
    """Return what committed progress tells of the lane that stored it, by partition."""
    found = {}
    for number in range(4):
        for _, rest in target.committed(("offsets", number)):
            key, _, headers = key_value_headers(memoryview(rest))
            told = parse_lane_counts(headers)
            assert told is not None
            found[int(str(key).split('"partition":')[1].split(",")[0])] = told
    return found


def offset_map(target: FakeTarget, partition: int) -> OffsetMap:
    """The committed map of one source partition."""
    pieces = []
    for number in range(4):
        for _, rest in target.committed(("map", number)):
            key, value = key_and_value(Record(0, 0, memoryview(rest)))
            map_key = decode_map_key(key or b"")
            if map_key.partition == partition:
                pieces.append(decode_segment(map_key, value or b""))
    return OffsetMap.of(pieces)


def encoded(records: Iterable[tuple[int, Rec]]) -> list[bytes]:
    """What the records look like in a log."""
    return [bytes(record_rest(item.key, item.value, item.headers)) for _, item in records]


def codecs_of(log: Log) -> dict[int, int]:
    """The codec of each record, by upstream offset, where it lies in a batch."""
    headers = [BatchHeader.read(raw) for raw in log.batches if raw[16] == 2]
    return {offset: it.codec for it in headers for offset in range(it.base_offset, it.next_offset)}


def agree(target: FakeTarget, partition: int, log: Log) -> None:
    """Records with their times and codecs, order, progress and map all say the same."""
    committed = target.committed(("A.t", partition))
    assert [rest for _, rest in committed] == encoded(log.visible)
    stamps, codecs = target.stamps(("A.t", partition)), codecs_of(log)
    for (offset, record), (downstream, _) in zip(log.visible, committed, strict=True):
        timestamp, codec = stamps[downstream]
        assert (record.timestamp, codecs.get(offset, codec)) == (timestamp, codec)
    assert progress(target).get(partition, -1) == log.end - 1
    assert copy_ends(target).get(partition) == (committed[-1][0] + 1 if committed else None)
    known = offset_map(target, partition)
    assert (known.first_upstream, known.end_upstream) == (0, log.end)
    if log.visible:
        known.check()
        translated = [known.translate(offset) for offset, _ in log.visible]
        assert [item.offset for item in translated if item] == [offset for offset, _ in committed]


@given(
    st.lists(logs(), min_size=1, max_size=3), st.integers(1, 2000), st.integers(1, 2000), st.integers(1, 2000)
)
def test_records_progress_and_map_agree(
    partitions: list[Log], bytes_: int, block: int, fetch_bytes: int
) -> None:
    """Whatever the logs, the size of transactions and of fetches, and which partitions a fetch leaves for later."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    source = source_of(partitions, block)
    report = copy(
        source,
        target,
        dict.fromkeys(range(3), 0),
        {n: log.end for n, log in enumerate(partitions)},
        bytes_=bytes_,
        fetch_bytes=fetch_bytes,
    )
    assert report.state == "done"
    for number, log in enumerate(partitions):
        agree(target, number, log)
    counts = lane_counts(target)
    assert {it.partition: (it.records, it.bytes) for it in report.ranges} == {
        partition: (it.partition_records, it.partition_bytes) for partition, it in counts.items()
    }
    newest = newest_of_lanes(counts.values()).get(0, NO_COUNTS)
    copied = sum(it.records for it in report.ranges), sum(it.bytes for it in report.ranges)
    assert (*copied, report.transactions, 0) == (newest.records, newest.bytes, newest.commits, newest.behind)


@pytest.mark.parametrize("tiers", [1, 2])
def test_only_tiers_make_an_order_of_a_cycle(tiers: int) -> None:
    """Without them brokers take partitions in turn, and no request leaves one out."""
    if FETCH["version"] < 13:
        pytest.skip("without a fetch session nothing is forgotten")
    records = [Rec(b"%d" % n, b"x" * 100) for n in range(12)]
    batches = tuple(bytes(encode([it], base_offset=n)) for n, it in enumerate(records))
    log = Log(batches, tuple(enumerate(records)), (), 12)
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    source = source_of([log] * 4, block_bytes=200)
    report = copy(
        source, target, dict.fromkeys(range(4), 0), dict.fromkeys(range(4), 12), fetch_bytes=400, tiers=tiers
    )
    assert ("done", tiers == 1) == (report.state, source.left_out == 0)
    for number in range(4):
        agree(target, number, log)


def test_a_copy_that_is_shorter_than_progress_says_is_not_written_to() -> None:
    """It lost records since the driver looked: the next ones would lie where they lay."""
    records = [Rec(b"%d" % n) for n in range(4)]
    log = Log((bytes(encode(records, base_offset=0)),), tuple(enumerate(records)), (), 4)
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    assert copy(source_of([log]), target, {0: 0}, {0: 2}).state == "done"
    assert {0: 2} == copy_ends(target)
    lost = target.logs["A.t", 0].copy()
    target.logs["A.t", 0].clear()
    report = copy(source_of([log]), target, {0: 2}, {0: 4})
    assert ("fence-again", []) == (report.state, target.logs["A.t", 0])
    assert "A.t-0 ends before offset 2, up to which it was copied" in report.error
    target.logs["A.t", 0].extend(lost)
    assert copy(source_of([log]), target, {0: 2}, {0: 4}).state == "done"
    agree(target, 0, log)


@given(st.lists(logs(), max_size=2), st.integers(1, 60), st.integers(1, 9000))
def test_a_transaction_may_say_more_than_a_message_holds(
    partitions: list[Log], runs: int, bytes_: int
) -> None:
    """Maps of thousands of stretches, ledger entries of thousands of partitions: as many messages as it takes."""
    every_second = tuple((2 * n, Rec(b"x")) for n in range(300))
    sparse = Log((bytes(with_gaps(list(every_second), 0, 599)),), every_second, (), 600)
    logs = [*partitions, sparse, sparse]
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    target.max_message_bytes = dict.fromkeys(["offsets", "map", "ledger"], 400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_state, "LARGEST_PIECE_RUNS", runs)
        patch.setattr(state_records, "BATCH_BYTES", 300)
        ends = {n: log.end for n, log in enumerate(logs)}
        report = copy(source_of(logs), target, dict.fromkeys(ends, 0), ends, bytes_=bytes_)
    assert report.state == "done"
    for number, log in enumerate(logs):
        agree(target, number, log)


@given(logs(), st.integers(150, 4000), st.integers(1, 9000))
def test_a_target_that_takes_less_than_it_told_gets_smaller_batches(
    log: Log, limit: int, bytes_: int
) -> None:
    """Only a record that does not fit by itself is at fault; all before it are copied, in order."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    target.max_message_bytes = {"A.t": limit}
    report = copy(source_of([log]), target, {0: 0}, {0: log.end}, bytes_=bytes_)
    assert report.state in {"done", "failed"}
    (copied,) = report.ranges
    alone = next((at for at, rec in log.visible if at >= copied.next_upstream), None)
    if report.state == "failed":
        assert ("poison-record", copied.next_upstream) == (copied.error_code, alone)
    before = [(at, rec) for at, rec in log.visible if at < copied.next_upstream]
    assert encoded(before) == [rest for _, rest in target.committed(("A.t", 0))]


def test_a_transaction_is_full_of_stretches_before_it_is_full_of_bytes() -> None:
    """Each is a run of the map, held in memory until the commit."""
    visible = tuple((2 * n, Rec(b"x")) for n in range(300))
    batches = [
        bytes(with_gaps([(it - first, rec) for it, rec in visible[first // 2 :][:100]], first, 199))
        for first in (0, 200, 400)
    ]
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    source = source_of([Log(tuple(batches), visible, (), 600)], block_bytes=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copy_transaction, "_FULL_STRETCHES", 150)
        report = copy(source, target, {0: 0}, {0: 600})
    assert (report.state, report.transactions, report.ranges[0].records) == ("done", 2, 300)


@pytest.mark.parametrize(
    ("times", "latency"), [((4_000, 1_000), 1_000), ((1_000, 1_500), 3_500), ((-1,), None)]
)
def test_latency_is_the_age_of_the_newest_record_at_the_commit(
    times: tuple[int, ...], latency: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records without a timestamp have no age."""
    monkeypatch.setattr(copy_transaction.clock, "now_ms", lambda: 5_000)
    records = [Rec(b"x", timestamp=it) for it in times]
    batches = tuple(bytes(encode([it], base_offset=n)) for n, it in enumerate(records))
    source = source_of([Log(batches, tuple(enumerate(records)), (), len(records))])
    report = copy(source, FakeTarget(["A.t", "offsets", "map", "ledger", "aside"]), {0: 0}, {0: len(records)})
    assert [(len(records), latency)] == [(it.records, it.latency_ms) for it in report.ranges]


CODES = st.sampled_from([
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.REQUEST_TIMED_OUT,
    Code.KAFKA_STORAGE_ERROR,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
])
ALIKE = CODES | st.builds(Appended, CODES)
MOVES = st.none() | ALIKE | st.dictionaries(st.sampled_from([("A.t", n) for n in range(3)]), ALIKE)
"""What may be answered to a request: the same for all of its partitions, or for some, where others are written."""


@given(sets(), logs(), st.integers(1, 2000), st.integers(1, 600))
def test_old_messages_in_front_of_batches(old: Set, new: Log, bytes_: int, block: int) -> None:
    """A partition written since before Kafka 0.11 is copied whole, wherever fetches and transactions end."""
    moved = tuple(shifted(raw, old.end) for raw in new.batches)
    log = Log(
        (*old.entries, *moved),
        (*old.visible, *((offset + old.end, record) for offset, record in new.visible)),
        tuple((producer, first + old.end) for producer, first in new.aborted),
        new.end + old.end,
    )
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    assert copy(source_of([log], block), target, {0: 0}, {0: log.end}, bytes_=bytes_).state == "done"
    agree(target, 0, log)


def shifted(raw: bytes, by: int) -> bytes:
    """A batch further on in its log."""
    return (int.from_bytes(raw[:8], "big") + by).to_bytes(8, "big") + raw[8:]


@pytest.mark.parametrize("written", range(0, 33, 8))
def test_a_leader_moves_while_many_requests_are_on_the_way(written: int) -> None:
    """However many of them were written nevertheless, the sequence is found."""
    records = [Rec(b"%d" % n * 50_000) for n in range(60)]  # too large to be merged
    batches = [bytes(encode([record], base_offset=n)) for n, record in enumerate(records)]
    log = Log(tuple(batches), tuple(enumerate(records)), (), len(records))
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    moved = Code.NOT_LEADER_OR_FOLLOWER
    target.faults["produce"] = [None] * 5 + [Appended(moved)] * written + [moved] * (32 - written)
    assert copy(source_of([log], 1 << 23), target, {0: 0}, {0: log.end}, bytes_=1 << 23).state == "done"
    agree(target, 0, log)


FAULTS = st.lists(MOVES | st.just(LOSE), max_size=12)


@given(logs(), st.integers(1, 500), FAULTS, st.lists(st.sampled_from([LOSE, None]), max_size=6))
def test_after_any_number_of_doubts_nothing_is_lost_or_doubled(
    log: Log, bytes_: int, produce_faults: list[object], commit_faults: list[object]
) -> None:
    """Each doubt ends the lane; the driver fences, reads progress, and a new lane goes on from there."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    target.faults["produce"] = produce_faults
    target.faults["end_txn"] = commit_faults
    source = source_of([log], 300)
    counted = {}
    for _ in doubts(source, target, log, bytes_):
        target.init()  # as the next fence does: now the last transaction has an end
        counted |= {it.fence_ms: it.partition_records for it in lane_counts(target).values()}
    counted |= {it.fence_ms: it.partition_records for it in lane_counts(target).values()}
    agree(target, 0, log)
    assert len(log.visible) == sum(counted.values()), "dead or alive, lanes count what they committed"


def test_what_is_behind_is_unknown_before_the_source_has_told() -> None:
    """In follow mode a range has no end of its own, and 0 would say that nothing waits; in a cycle it has."""
    target, source = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"]), source_of([])
    ranges = RangeSpec("t", TOPIC_ID, "A.t", 0, 3, NO_END), RangeSpec("t", TOPIC_ID, "A.t", 1, 3, 10)
    for number, expected in ((0, UNKNOWN), (1, 7)):
        spec = LaneSpec("A->B", 0, "lane", 1, 0, NOWHERE, NOWHERE, STATE, (ranges[number],))
        lane = LaneCopy(spec, source, target)  # type: ignore[arg-type]
        assert expected == lane.transaction.counts((), 0).behind


@given(st.lists(logs(), min_size=1, max_size=3), st.integers(1, 500), st.lists(MOVES, max_size=12))
def test_moved_leaders_cost_no_fence(partitions: list[Log], bytes_: int, faults: list[object]) -> None:
    """Whether the batches of a refused request are in the log or not: one lane, one epoch, nothing lost or doubled."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    target.faults["produce"] = faults
    source = source_of(partitions, 300)
    ends = {n: log.end for n, log in enumerate(partitions)}
    report = copy(source, target, dict.fromkeys(ends, 0), ends, bytes_=bytes_)
    assert report.state == "done"
    for number, log in enumerate(partitions):
        agree(target, number, log)


def test_a_partition_that_stays_without_a_leader_is_left_to_the_next_cycle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its neighbours in the lane do not wait for it for ever."""
    monkeypatch.setattr("twinlog.lane.copy.copy_transaction._NO_LEADER_SECONDS", 0.05)
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    target.leaderless.add(("A.t", 0))
    log = Log((bytes(encode([Rec(b"a"), Rec(b"b")])),), ((0, Rec(b"a")), (1, Rec(b"b"))), (), 2)
    report = copy(source_of([log, log]), target, {0: 0, 1: 0}, {0: 2, 1: 2})
    assert [(item.partition, item.error_code, item.records) for item in report.ranges] == [
        (0, "no-leader", 0),
        (1, "", 2),
    ]
    agree(target, 1, log)


PAIR = Log((bytes(encode([Rec(b"a"), Rec(b"b")])),), ((0, Rec(b"a")), (1, Rec(b"b"))), (), 2)


class LedAfterCommits(FakeTarget):
    """A partition has no leader before so many transactions were committed."""

    def __init__(self, partition: TopicPartition, commits: int) -> None:
        super().__init__(["A.t", "offsets", "map", "ledger", "aside"])
        self.leaderless.add(partition)
        self.left = commits

    def _decide(self, producer_id: int, state: str) -> None:
        super()._decide(producer_id, state)
        self.left -= state == "committed"
        if self.left <= 0:
            self.leaderless.clear()


def test_the_others_commit_while_one_has_no_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is set aside and tried again, and is complete in the same lane."""
    monkeypatch.setattr(copy_transaction, "_NO_LEADER_SECONDS", 5.0)
    monkeypatch.setattr(copy_transaction, "_ASIDE_SECONDS", 0.0)
    monkeypatch.setattr(copy_transaction, "_AGAIN_SECONDS", (0.01, 0.02))
    target = LedAfterCommits(TopicPartition("A.t", 0), 1)
    began = time.monotonic()
    assert copy(source_of([PAIR, PAIR]), target, {0: 0, 1: 0}, {0: 2, 1: 2}).state == "done"
    assert time.monotonic() - began < 5.0
    for number in (0, 1):
        agree(target, number, PAIR)


def test_one_set_aside_for_too_long_is_tried_and_so_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may always be left in follow mode, and it must not go unsaid."""
    target = FakeTarget([])
    zero, one = (SimpleNamespace(target=TopicPartition("A.t", number), committed=0) for number in (0, 1))
    lane: Any = SimpleNamespace(brokers=target)
    spec: Any = SimpleNamespace(quarantine_poison=False)
    ranges: Any = {it.target: it for it in (zero, one)}
    transaction = copy_transaction.CopyTransaction(spec, lane, ranges, list, lambda: (0, None))
    target.topics["A.t"] = 2
    target.leaderless.add(zero.target)
    monkeypatch.setattr(copy_transaction, "_AGAIN_SECONDS", (0.0, 0.0))
    transaction._leaderless_since[zero.target] = time.monotonic()
    transaction._set_aside(zero.target)
    both: Any = [zero, one]
    assert [one] == transaction.choose(both)
    assert [zero] == transaction.choose(both[:1]), "nothing else to do"
    monkeypatch.setattr(copy_transaction, "_NO_LEADER_SECONDS", -1.0)
    assert both == transaction.choose(both)


@given(st.lists(logs(), min_size=2, max_size=3), st.integers(1, 500), st.lists(st.integers(0, 8), max_size=4))
def test_what_is_set_aside_is_neither_lost_nor_doubled(
    partitions: list[Log], bytes_: int, gone_after: list[int]
) -> None:
    """Its leader goes away in the middle of transactions, and its records are sent again in another one."""
    target = Forsaken(["A.t", "offsets", "map", "ledger", "aside"], ("A.t", 0), gone_after)
    source = source_of(partitions, 300)
    ends = {number: log.end for number, log in enumerate(partitions)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(copy_transaction, "_ASIDE_SECONDS", -1.0)
        patched.setattr(copy_transaction, "_AGAIN_SECONDS", (0.0, 0.002))
        for _ in range(30):
            reached = progress(target)
            starts = {number: reached.get(number, -1) + 1 for number in ends}
            if copy(source, target, starts, ends, bytes_=bytes_).state == "done":
                break
            target.mend()
    target.mend()
    for number, log in enumerate(partitions):
        agree(target, number, log)


@given(logs(), st.integers(1, 500), st.lists(st.integers(0, 8), max_size=4))
def test_no_batch_left_open_by_a_leader_that_went_away_comes_to_count(
    log: Log, bytes_: int, gone_after: list[int]
) -> None:
    """The target leaves out markers meanwhile: the lane stops before it writes behind what is open."""
    target = Forsaken(["A.t", "offsets", "map", "ledger", "aside"], ("A.t", 0), gone_after)
    source = source_of([log], 300)
    for _ in doubts(source, target, log, bytes_):
        target.mend()
    target.mend()  # as the next cycle does
    agree(target, 0, log)


class Forsaken(FakeTarget):
    """The leader of a partition goes away after some batches, for three looks, and again after some more."""

    def __init__(self, topics: Iterable[str], partition: TopicPartition, gone_after: list[int]) -> None:
        super().__init__(topics)
        self._partition, self._gone_after, self._looks = partition, gone_after, 0

    def _append(self, item: TopicPartition, batch: bytes) -> tuple[int, int, list[int]]:
        answer = super()._append(item, batch)
        if item == self._partition and self._gone_after:
            self._gone_after[0] -= 1
            if self._gone_after[0] < 0:
                self._gone_after.pop(0)
                self.leaderless.add(item)
                self._looks = 3
        return answer

    def leader(self, topic: str, partition: int, seconds: float = 0.0) -> int:
        if (topic, partition) == self._partition:
            self._looked()
        return super().leader(topic, partition)

    def metadata(self, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        self._looked()
        return super().metadata(topics)

    def _looked(self) -> None:
        self._looks -= 1
        if self._looks < 0:
            self.leaderless.clear()

    def mend(self) -> None:
        """What the driver does behind its fence."""
        self.leaderless.clear()
        for entry in self.logs[self._partition]:
            if entry.state == "open":
                entry.state = entry.owed


def test_one_partition_of_a_request_is_refused_while_another_is_written() -> None:
    """All of the transaction is sent again, in the same lane, and nothing of it is there twice."""
    log = Log((bytes(encode([Rec(b"a"), Rec(b"b")])),), ((0, Rec(b"a")), (1, Rec(b"b"))), (), 2)
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    target.faults["produce"] = [{("A.t", 0): Code.NOT_LEADER_OR_FOLLOWER}]
    assert copy(source_of([log, log]), target, {0: 0, 1: 0}, {0: 2, 1: 2}).state == "done"
    states = [[it.state for it in target.logs["A.t", n] if not it.header.control] for n in (0, 1)]
    assert [["committed"], ["aborted", "committed"]] == states
    for number in (0, 1):
        agree(target, number, log)


def test_records_before_a_poison_are_not_held_up_by_an_abort() -> None:
    """It was met in what is taken back, and will be met again."""
    records = [Rec(b"a"), Rec(b"b"), Rec(bytes(2000))]
    log = Log((bytes(encode(records)),), tuple(enumerate(records)), (), 3)
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    target.faults["produce"] = [Code.NOT_LEADER_OR_FOLLOWER]
    (copied,) = copy(source_of([log]), target, {0: 0}, {0: 3}, limit=1000).ranges
    assert ("poison-record", 2, 2) == (copied.error_code, copied.next_upstream, copied.records)


@pytest.mark.parametrize("topic", ["offsets", "map"])
def test_a_state_topic_that_refuses_is_named_and_nothing_is_committed(topic: str) -> None:
    """It is nobody's range: the lane ends, and the driver looks."""
    log = Log((bytes(encode([Rec(b"a")])),), ((0, Rec(b"a")),), (), 1)
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    target.refuse = {(topic, number): lambda _: [0] for number in range(4)}
    report = copy(source_of([log]), target, {0: 0}, {0: 1})
    assert ("fence-again", 0, []) == (
        report.state,
        report.ranges[0].next_upstream,
        target.committed(("A.t", 0)),
    )
    assert f"state topic {topic}-" in report.error


@pytest.mark.parametrize(
    ("found", "records", "code"), [("new", 0, "copy-recreated"), ("old", 1, ""), ("", 1, "")]
)
def test_a_copy_that_was_made_anew_is_not_written_to(found: str, records: int, code: str) -> None:
    """It was settled for another; where the target tells no ids nothing is known of it."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    target.topic_ids = {"A.t": found}
    source = FakeSource({("t", 0): [bytes(encode([Rec(b"a")]))]}, fetch_version=FETCH["version"])
    ranges = (RangeSpec("t", TOPIC_ID, "A.t", 0, 0, 1, remote_topic_id="old"),)
    spec = LaneSpec("A->B", 0, "lane", *target.init(), NOWHERE, NOWHERE, STATE, ranges)
    (copied,) = LaneCopy(spec, source, target).run().ranges  # type: ignore[arg-type]
    assert (code, records, records) == (
        copied.error_code,
        copied.records,
        len(target.committed(("A.t", 0))),
    )


def test_more_refused_batches_than_may_be_on_their_way() -> None:
    """A batch that is sent after the first refusal was read would take the refused one's sequence, and use it up."""
    visible = tuple((n, Rec(b"good" if n < 2 else b"bad")) for n in range(12))
    batches = [bytes(with_gaps([(0, rec)], n, 0, codec=1 + n % 2)) for n, rec in visible]
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    bad = encoded([visible[-1]])[0]
    target.refuse["A.t", 0] = lambda records: [n for n, r in enumerate(records) if bytes(r.rest) == bad]
    source = source_of([Log(tuple(batches), visible, (), 12)])
    report = copy(source, target, {0: 0}, {0: 12}, quarantine=True)
    assert (report.state, report.ranges[0].quarantined) == ("done", tuple(range(2, 12)))


@given(logs(), st.integers(1, 500))
def test_quarantine_copies_everything_but_the_refused_records(log: Log, bytes_: int) -> None:
    """The target refuses some records by index; they are left out, told, and in the ledger."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    bad = {rest for number, rest in enumerate(encoded(log.visible)) if number % 3 == 1}
    target.refuse["A.t", 0] = lambda records: [n for n, r in enumerate(records) if bytes(r.rest) in bad]
    report = copy(source_of([log], 300), target, {0: 0}, {0: log.end}, bytes_=bytes_, quarantine=True)
    good = [rest for rest in encoded(log.visible) if rest not in bad]
    assert report.state == "done"
    assert [rest for _, rest in target.committed(("A.t", 0))] == good
    quarantined = [
        offset for (offset, _), rest in zip(log.visible, encoded(log.visible), strict=True) if rest in bad
    ]
    assert sorted(offset for item in report.ranges for offset in item.quarantined) == quarantined
    noted = [rest for _, rest in target.committed(("ledger", 0)) if b'"quarantine"' in rest]
    assert len(noted) == len(quarantined)
    aside = [key_value_headers(memoryview(rest)) for _, rest in target.committed(("aside", 0))]
    origins = [int(dict(headers)["twinlog.offset"] or b"") for _, _, headers in aside]
    written = [bytes(record_rest(key, value, headers[:-6])) for key, value, headers in aside]
    refused = [rest for rest in encoded(log.visible) if rest in bad]
    assert (sorted(origins), sorted(written)) == (quarantined, sorted(refused))


def test_a_record_that_cannot_be_written_aside_ends_its_partition() -> None:
    """Its key alone is too large: what lies before it is copied, its neighbour is copied whole."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    target.refuse["A.t", 0] = lambda records: [n for n, r in enumerate(records) if len(r.rest) > 1_048_588]
    records = [Rec(b"a"), Rec(b"b", bytes(1_048_588)), Rec(b"c")]
    log = Log((bytes(encode(records)),), tuple(enumerate(records)), (), 3)
    small = Log((bytes(encode([Rec()])),), ((0, Rec()),), (), 1)
    source = source_of([log, small], 1 << 22)
    report = copy(source, target, {0: 0, 1: 0}, {0: 3, 1: 1}, quarantine=True, limit=1 << 22)
    assert [(item.error_code, item.next_upstream) for item in report.ranges] == [
        ("poison-record", 1),
        ("", 1),
    ]
    assert "key and headers alone" in report.ranges[0].error
    agree(target, 1, small)


@given(logs(), logs())
def test_a_refused_partition_does_not_stop_its_neighbour(first: Log, second: Log) -> None:
    """Under `fail` the partition ends before the refused record, the other one is copied whole."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    target.refuse["A.t", 0] = lambda records: [0]
    report = copy(source_of([first, second]), target, {0: 0, 1: 0}, {0: first.end, 1: second.end})
    assert target.committed(("A.t", 0)) == []
    agree(target, 1, second)
    errors = {item.partition: item.error_code for item in report.ranges}
    assert errors == {0: "poison-record" if first.visible else "", 1: ""}


def test_a_gap_ends_its_range_and_names_the_offsets() -> None:
    """The source says that the offset is gone, and where its log begins."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    source = FakeSource({("t", 0): []}, fetch_version=FETCH["version"])
    source.errors["t", 0] = [Code.OFFSET_OUT_OF_RANGE]
    source.log_start = 8
    report = copy(source, target, {0: 5}, {0: 10})
    assert (report.state, report.ranges[0].error_code) == ("failed", "gap")
    assert "upstream offsets 5 to 7 were deleted" in report.ranges[0].error


def test_a_log_that_ends_before_the_range_is_truncation() -> None:
    """Offsets beyond the end are not offsets deleted at the beginning."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    source = FakeSource({("t", 0): []}, fetch_version=FETCH["version"])
    source.errors["t", 0] = [Code.OFFSET_OUT_OF_RANGE]
    assert copy(source, target, {0: 5}, {0: 10}).ranges[0].error_code == "truncation"


@given(st.lists(logs(), min_size=1, max_size=3), st.integers(1, 2000), st.integers(0, 12))
def test_a_source_that_dies_takes_nothing_with_it(partitions: list[Log], bytes_: int, requests: int) -> None:
    """What it gave is committed, progress says no more than that, and the next copy goes on from there."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    source = source_of(partitions, 300)
    source.requests_left = requests
    ends = {n: log.end for n, log in enumerate(partitions)}
    first = copy(source, target, dict.fromkeys(ends, 0), ends, bytes_=bytes_)
    assert {item.error_code for item in first.ranges} <= {"", "source-lost"}
    source.requests_left = None
    starts = {n: progress(target).get(n, -1) + 1 for n in ends}
    assert copy(source, target, starts, ends).state == "done"
    for number, log in enumerate(partitions):
        agree(target, number, log)


@given(st.lists(logs(), min_size=1, max_size=3), st.integers(1, 2000), st.sets(st.integers(0, 8)))
def test_a_lost_connection_is_made_again_and_nothing_else_changes(
    partitions: list[Log], bytes_: int, cut_at: set[int]
) -> None:
    """A lost fetch is asked again: every range comes to its end in the same lane."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    source = source_of(partitions, 300)
    source.cut_at = cut_at
    ends = {n: log.end for n, log in enumerate(partitions)}
    assert copy(source, target, dict.fromkeys(ends, 0), ends, bytes_=bytes_).state == "done"
    for number, log in enumerate(partitions):
        agree(target, number, log)


def test_a_partition_that_nobody_leads_for_long_is_left_to_the_next_cycle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other brokers answer, so the cluster is there: its range alone ends, as one that is tried again."""
    monkeypatch.setattr("twinlog.protocol.fetch_backoff.LOST_SECONDS", 0.1)
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    source = FakeSource({("t", 0): []}, fetch_version=FETCH["version"])
    source.elected = -1
    report = copy(source, target, {0: 5}, {0: 10})
    assert (report.state, report.ranges[0].error_code) == ("failed", "source-lost")
    assert "t-0: no leader for 0 s: nobody is elected" == report.ranges[0].error


@given(logs(), st.integers(1, 500))
def test_nothing_of_a_topic_made_anew_is_committed(log: Log, bytes_: int) -> None:
    """Leaders asked by id do not read it; with others the topic's id is asked for before each commit."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    source = source_of([log], 300)
    source.topic_id = "AAAAAAAAAAAAAAAAAAAAAg"
    report = copy(source, target, {0: 0}, {0: log.end}, bytes_=bytes_)
    assert [item.error_code for item in report.ranges] == ["recreated" if log.end else ""] * len(
        report.ranges
    )
    assert (target.committed(("A.t", 0)), progress(target)) == ([], {})


FOLLOW = Follow(0.5, 30.0, FenceMark("run", 0, 0))


@pytest.mark.parametrize("follow", [None, FOLLOW])
def test_a_partition_that_is_only_refused_ends_and_disturbs_nobody(
    follow: Follow | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its leader answers, and never serves it: it is asked for ever less, its neighbour as always."""
    monkeypatch.setattr("twinlog.protocol.fetch_backoff.LOST_SECONDS", 0.3)
    monkeypatch.setattr("twinlog.protocol.fetch_backoff._LONGEST_PAUSE_SECONDS", 0.1)
    log = [bytes(encode([Rec(b"x")], base_offset=n)) for n in range(12)]
    refusing = Refusing({("t", 0): log, ("t", 1): log}, block_bytes=1, fetch_version=FETCH["version"])
    refusing.errors["t", 1] = [Code.KAFKA_STORAGE_ERROR] * 1000
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    end = 12 if follow is None else NO_END
    ranges = tuple(RangeSpec("t", TOPIC_ID, "A.t", number, 0, end) for number in (0, 1))
    spec = LaneSpec("A->B", 0, "lane", *target.init(), NOWHERE, NOWHERE, STATE, ranges, follow=follow)
    copied, refused = LaneCopy(spec, refusing, target).run().ranges  # type: ignore[arg-type]
    assert (12, "") == (copied.next_upstream, copied.error_code)
    assert (0, "source-lost") == (refused.next_upstream, refused.error_code)
    assert "t-1: nothing but errors for 0 s: the source answered 56 KAFKA_STORAGE_ERROR" == refused.error
    asked_for_it = 1000 - len(refusing.errors["t", 1])
    assert (True, {("t", 1)}) == (3 < asked_for_it < 30, set(refusing.forgotten))


def test_an_error_that_passes_costs_a_pause_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer without one begins the count anew."""
    monkeypatch.setattr("twinlog.protocol.fetch_backoff.LOST_SECONDS", 0.2)
    log = [bytes(encode([Rec(b"x")], base_offset=n)) for n in range(40)]
    source = FakeSource({("t", 0): log}, block_bytes=1, fetch_version=FETCH["version"])
    source.errors["t", 0] = [Code.NOT_LEADER_OR_FOLLOWER, 0] * 40
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    began = time.monotonic()
    report = copy(source, target, {0: 0}, {0: 40})
    assert (True, "done", 40) == (
        time.monotonic() - began > 0.2,
        report.state,
        len(target.committed(("A.t", 0))),
    )


class Refusing(FakeSource):
    """Notes whose leaders are forgotten."""

    forgotten: tuple[TopicPartition, ...] = ()

    def forget_leader(self, topic: str, partition: int) -> None:
        self.forgotten += ((topic, partition),)
        super().forget_leader(topic, partition)


def test_a_source_that_gives_nothing_ends_its_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """The range's end says there is more, the answers say there is not: after a while the cycle goes on."""
    monkeypatch.setattr("twinlog.lane.copy.loops.STALL_SECONDS", 0.1)
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    report = copy(FakeSource({("t", 0): []}, fetch_version=FETCH["version"]), target, {0: 5}, {0: 10})
    assert (report.state, report.ranges[0].error_code) == ("failed", "stalled")


def test_a_leader_that_forgot_the_session_is_told_everything_again() -> None:
    """Sessions are evicted for newer ones, and die with the broker (KIP-227)."""
    log = [bytes(encode([Rec(bytes([n]))] * 30, base_offset=30 * n)) for n in range(6)]
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    source = FakeSource({("t", 0): log}, block_bytes=1, fetch_version=FETCH["version"])
    source.forgets_session_at = 3
    report = copy(source, target, {0: 0}, {0: 180})
    assert (report.state, len(target.committed(("A.t", 0)))) == ("done", 180)


def lane_copy(batches: list[bytes], end: int, limit: int = 1_048_588, **changes: object) -> LaneCopy:
    """A lane's copy of partition 0 of a topic with these batches, over fakes."""
    source = FakeSource({("t", 0): batches}, block_bytes=1 << 20, fetch_version=FETCH["version"])
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    ranges = (RangeSpec("t", TOPIC_ID, "A.t", 0, 0, end, limit),)
    spec = LaneSpec("A->B", 0, "lane", *target.init(), NOWHERE, NOWHERE, STATE, ranges, **changes)  # type: ignore[arg-type]
    return LaneCopy(spec, source, target)  # type: ignore[arg-type]


@pytest.mark.parametrize(("answer", "expected"), [(EpochEnd(5, 20), ""), (EpochEnd(4, 20), "truncation")])
def test_an_older_branch_that_came_back_is_not_copied(
    answer: EpochEnd, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unclean election brought it back: it is longer than the copy, and knows no epoch of what was copied."""
    it = lane_copy([of_epoch(6, encode([Rec(b"x")] * 10, base_offset=10))], 20)
    (copied,) = it._by_source.values()
    copied.sent, copied.epoch = 10, 5
    asked: list[ReadUpTo] = []

    def epoch_ends(_: object, read: dict[TopicPartition, ReadUpTo]) -> dict[TopicPartition, EpochEnd]:
        asked.extend(read.values())
        return dict.fromkeys(read, answer)

    monkeypatch.setattr("twinlog.lane.copy.copy_lane.epoch_ends", epoch_ends)
    report = it.run()
    assert ([ReadUpTo(5, 10)], expected) == (asked, report.ranges[0].error_code)


def of_epoch(epoch: int, batch: bytearray) -> bytes:
    """A batch as the leader of that epoch wrote it."""
    return bytes(batch[:12] + epoch.to_bytes(4, "big") + batch[16:])


@pytest.mark.parametrize("refused_at", [None, 1, 2])
def test_nothing_of_a_history_that_begins_below_what_was_copied_is_committed(
    refused_at: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epoch 3 was copied up to 6, and ends at 4 by its leader now: also after an abort it is asked again."""
    log = [
        of_epoch(3, encode([Rec(b"a")] * 6)),
        of_epoch(4, encode([Rec(b"b")] * 4, base_offset=6)),
    ]
    it = lane_copy(log, 10, transaction_bytes=1)
    it._source.block_bytes = 1  # type: ignore[attr-defined]
    monkeypatch.setattr(
        "twinlog.lane.copy.copy_lane.epoch_ends", lambda _, read: dict.fromkeys(read, EpochEnd(3, 4))
    )
    if refused_at is not None:
        faults = [None] * refused_at + [Code.NOT_LEADER_OR_FOLLOWER]
        it._lane.brokers.faults["produce"] = faults  # type: ignore[attr-defined]
    (copied,) = it.run().ranges
    assert ("truncation", 6, 6) == (copied.error_code, copied.next_upstream, copied.records)
    assert 6 == len(it._lane.brokers.committed(("A.t", 0)))  # type: ignore[attr-defined]


def test_an_abort_takes_back_the_epoch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read under epoch 4 is read again under the truth of epoch 3, which ended below it by now."""
    log = [
        of_epoch(3, encode([Rec(b"a")] * 6)),
        of_epoch(4, encode([Rec(b"b")] * 4, base_offset=6)),
    ]
    it = lane_copy(log, 10, transaction_bytes=1)
    it._source.block_bytes = 1  # type: ignore[attr-defined]
    answers = [EpochEnd(3, 6), EpochEnd(3, 4)]
    monkeypatch.setattr(
        "twinlog.lane.copy.copy_lane.epoch_ends", lambda _, read: dict.fromkeys(read, answers.pop(0))
    )
    # The records of epoch 3, its progress and map, then the records of epoch 4.
    it._lane.brokers.faults["produce"] = [None, None, Code.NOT_LEADER_OR_FOLLOWER]  # type: ignore[attr-defined]
    (copied,) = it.run().ranges
    assert ("truncation", 6, []) == (copied.error_code, copied.next_upstream, answers)


def test_progress_is_committed_also_while_nothing_is_sent() -> None:
    """A long stretch of aborted records is read once, and not again from its beginning after a death."""
    aborted = [
        bytes(encode([Rec(value=b"x" * 50_000)], base_offset=n, transactional=True, producer_id=9))
        for n in range(100)
    ]
    it = lane_copy(aborted, 100, transaction_ms=0)
    it._source.aborted = {("t", 0): [(9, 0)]}
    report = it.run()
    assert (LaneOutcome.DONE, 100, 0) == (
        report.state,
        report.ranges[0].next_upstream,
        report.ranges[0].records,
    )
    assert report.transactions > 1


def test_what_is_set_aside_fills_a_transaction() -> None:
    """It is kept in memory until the commit: no more of it than of what is sent."""
    large = [bytes(encode([Rec(value=bytes(200_000))], base_offset=n)) for n in range(40)]
    it = lane_copy(large, 40, limit=100_000, quarantine_poison=True, transaction_bytes=1 << 20)
    held: list[int] = []
    commit_if_due = it.transaction.commit_if_due

    def look() -> None:
        held.append(it._by_source["t", 0].captured_bytes)
        commit_if_due()

    it.transaction.commit_if_due = look  # type: ignore[method-assign]
    report = it.run()
    assert (LaneOutcome.DONE, tuple(range(40))) == (report.state, report.ranges[0].quarantined)
    assert max(held) < 3 << 20  # a transaction's bytes, and one answer's


def test_a_record_that_is_refused_and_then_compacted_away_is_not_set_aside() -> None:
    """It was named by the target, and is not there any more when it is read again."""
    it = lane_copy([bytes(encode([Rec(b"a"), Rec(b"bad"), Rec(b"c")]))], 3, quarantine_poison=True)

    def refuse(records: list[Record]) -> list[int]:
        bad = [number for number, record in enumerate(records) if b"bad" in bytes(record.rest)]
        if bad:
            it._source.logs["t", 0] = [
                bytes(encode([Rec(b"a")])),
                bytes(encode([Rec(b"c")], base_offset=2)),
            ]
        return bad

    it._lane.brokers.refuse["A.t", 0] = refuse  # type: ignore[attr-defined]
    report = it.run()
    assert (LaneOutcome.DONE, 2, ()) == (report.state, report.ranges[0].records, report.ranges[0].quarantined)


QUOTA = "cluster B takes nothing for 50 s because of its quota producer_byte_rate for this user or client"


@pytest.mark.parametrize(
    ("throttles", "state"), [([50_000], LaneOutcome.REFUSED), ([1, 50_000], LaneOutcome.FENCE_AGAIN)]
)
def test_a_quota_that_outlasts_the_transaction_is_named(
    throttles: list[int], state: LaneOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two batches a later lane may send one alone; a batch alone that cannot pass is for a person to mend."""
    slept: list[float] = []
    monkeypatch.setattr("twinlog.lane.producer.time.sleep", slept.append)
    batches = [encode([Rec(b"x" * 400_000)], base_offset=offset) for offset in range(len(throttles))]
    it = lane_copy(batches, len(batches))
    it._lane.brokers.throttle_ms = [*throttles]  # type: ignore[attr-defined]
    report = it.run()
    assert (state, 0, True) == (report.state, report.transactions, QUOTA in report.error)
    assert (state is LaneOutcome.FENCE_AGAIN) == (30.0 in slept)
    assert "twinlog.transaction.timeout.ms" in report.error


@pytest.mark.parametrize("throttles", [[], [1100]])
def test_what_a_throttling_target_took_is_committed_before_more_is_sent(
    throttles: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """All records arrive, in order; without a throttle in one transaction.  The log and the report say so."""
    caplog.set_level("INFO", "twinlog.lane")
    batches = [encode([Rec(b"%d" % offset * 400_000)], base_offset=offset) for offset in range(6)]
    it = lane_copy(batches, len(batches))
    target: FakeTarget = it._lane.brokers  # type: ignore[assignment]
    target.throttle_ms = [*throttles]
    report = it.run()
    values = [key_and_value(Record(0, 0, memoryview(rest)))[1] for _, rest in target.committed(("A.t", 0))]
    assert (LaneOutcome.DONE, bool(throttles)) == (report.state, report.transactions > 1)
    assert [b"%d" % offset * 400_000 for offset in range(6)] == values
    assert (0, sum(throttles)) == (report.retries, report.throttled_ms)
    told = f"commits={report.transactions} retries=0 throttled_ms={report.throttled_ms} offsets_behind=0"
    begun, ended = caplog.messages
    assert ("A->B lane 0 begins with 1 partitions", True, True) == (
        begun,
        "records=6" in ended,
        told in ended,
    )
