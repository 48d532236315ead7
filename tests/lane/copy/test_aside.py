"""Routed records of a lane against fakes: whatever is refused or lost, each is there once, in order."""

from __future__ import annotations

import re

import pytest
from fakes import LOSE, TOPIC_ID, FakeTarget
from hypothesis import given, settings
from hypothesis import strategies as st
from test_copy_lane import FAULTS, MOVES, NOWHERE, STATE, encoded, progress, source_of
from test_cutter import Log, logs

from batches import Rec, encode
from twinlog.batches.record import key_value_headers, record_rest
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.copy_lane import LaneCopy
from twinlog.lane.spec import LaneReport, LaneSpec, RangeSpec, RoutedTopic
from twinlog.transforms.chain import Chain
from twinlog.transforms.routes import Partitioner, Route
from twinlog.transforms.rules import Rule

ROUTE = Route("alerts", Partitioner.KEY)
CHAIN = Chain(rules=(Rule("r", (".*",), route=ROUTE, route_key="(?s).{2,}"),))
PARTITIONS = 3


def is_routed(record: Rec) -> bool:
    """Say whether the rule routes a record."""
    return (
        record.key is not None
        and re.fullmatch("(?s).{2,}", str(record.key, "utf-8", "surrogateescape")) is not None
    )


def target_with_topics() -> FakeTarget:
    """A target with the copy, the routed topic and the state topics."""
    return FakeTarget(["A.t", "alerts", "offsets", "map", "ledger", "aside"])


def lane_of(
    target: FakeTarget, writer: tuple[int, int], partitions: list[Log], starts: dict[int, int], **more: int
) -> LaneCopy:
    """A lane that copies partitions from their starts, by way of the rule."""
    ranges = tuple(
        RangeSpec(
            "t",
            TOPIC_ID,
            "A.t",
            n,
            starts.get(n, 0),
            log.end,
            more.get("copy_limit", 1 << 20),
            chain=CHAIN,
            routed=(RoutedTopic("alerts", PARTITIONS, more.get("limit", 1 << 20)),),
        )
        for n, log in enumerate(partitions)
        if starts.get(n, 0) < log.end
    )
    spec = LaneSpec(
        "A->B",
        0,
        "lane",
        *writer,
        NOWHERE,
        NOWHERE,
        STATE,
        ranges,
        transaction_bytes=more.get("bytes_", 500),
    )
    return LaneCopy(spec, source_of(partitions, more.get("block", 300)), target)  # type: ignore[arg-type]


def copy(target: FakeTarget, partitions: list[Log], starts: dict[int, int], **more: int) -> LaneReport:
    """Fence, and copy."""
    return lane_of(target, target.init(), partitions, starts, **more).run()


def agree(target: FakeTarget, partitions: list[Log]) -> None:
    """Each visible record is once in its copy, or once in its place in the routed topic, in order."""
    for number, log in enumerate(partitions):
        stays = [(offset, it) for offset, it in log.visible if not is_routed(it)]
        assert encoded(stays) == [rest for _, rest in target.committed(("A.t", number))]
    found: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
    for place in range(PARTITIONS):
        for _, rest in target.committed(("alerts", place)):
            key, value, headers = key_value_headers(memoryview(rest))
            told = dict(headers[-5:])
            assert (b"A", b"t", TOPIC_ID.encode()) == tuple(
                told[f"twinlog.{it}"] for it in ("source", "topic", "topic.id")
            )
            origin = int(told["twinlog.partition"] or b""), int(told["twinlog.offset"] or b"")
            assert place == ROUTE.place(key, origin[0]) % PARTITIONS
            found.setdefault((origin[0], place), []).append((
                origin[1],
                bytes(record_rest(key, value, headers[:-5])),
            ))
    for number, log in enumerate(partitions):
        there = [it for (source, _), some in found.items() if source == number for it in some]
        routed = [(offset, it) for offset, it in log.visible if is_routed(it)]
        assert [*zip((offset for offset, _ in routed), encoded(routed), strict=True)] == sorted(there)
    assert all(some == sorted(some) for some in found.values()), "the order of the source partition"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(logs(), min_size=1, max_size=3),
    st.integers(1, 2000),
    FAULTS,
    st.lists(st.sampled_from([LOSE, None]), max_size=6),
)
def test_after_any_number_of_doubts_nothing_is_lost_or_doubled(
    partitions: list[Log], bytes_: int, produce_faults: list[object], commit_faults: list[object]
) -> None:
    """Law: a lane that stops in doubt is followed by one behind another fence, from committed progress on."""
    target = target_with_topics()
    target.faults["produce"], target.faults["end_txn"] = produce_faults, commit_faults
    for _ in range(30):
        starts = {number: last + 1 for number, last in progress(target).items()}
        report = copy(target, partitions, starts, bytes_=bytes_)
        if report.state == "done":
            break
        assert report.state == "fence-again"
    agree(target, partitions)


@settings(max_examples=30, deadline=None)
@given(st.lists(logs(), min_size=1, max_size=2), st.lists(MOVES, max_size=12))
def test_moved_leaders_cost_no_fence(partitions: list[Log], faults: list[object]) -> None:
    """Law: one lane, one epoch; what was routed in an aborted transaction is routed again, once."""
    target = target_with_topics()
    target.faults["produce"] = faults
    report = copy(target, partitions, {})
    assert report.state == "done"
    agree(target, partitions)
    routed = sum(is_routed(it) for log in partitions for _, it in log.visible)
    assert routed == sum(it.routed for it in report.ranges)
    assert all(it.records + it.routed + it.skipped == it.next_upstream for it in report.ranges)


def log_of(*records: Rec) -> Log:
    """A partition with one batch for each record."""
    batches = tuple(bytes(encode([record], base_offset=n)) for n, record in enumerate(records))
    return Log(batches, tuple(enumerate(records)), (), len(records))


def test_a_topic_that_refuses_what_is_routed_ends_the_ranges_that_route_there() -> None:
    """In front of the first record routed to the refusing partition; what comes before is copied, a neighbour whole."""
    target = target_with_topics()
    key = next(b"k%d" % n for n in range(99) if ROUTE.place(b"k%d" % n, 0) % PARTITIONS == 1)
    other = next(b"k%d" % n for n in range(99) if ROUTE.place(b"k%d" % n, 0) % PARTITIONS == 2)
    target.refuse[TopicPartition("alerts", 1)] = lambda records: [0]
    first = log_of(Rec(b"a"), Rec(b"b", other), Rec(b"c", key), Rec(b"d"))
    second = log_of(Rec(b"a"), Rec(b"b", other))
    report = copy(target, [first, second], {}, bytes_=1 << 20)
    assert [("route-refused", 2, 1), ("", 2, 1)] == [
        (it.error_code, it.next_upstream, it.routed) for it in report.ranges
    ]
    assert (
        "t-0 at upstream offset 2: alerts refused what is routed to it from there on"
        in report.ranges[0].error
    )
    assert [1, 1] == [len(target.committed(("A.t", number))) for number in (0, 1)]
    assert 2 == len(target.committed(("alerts", 2)))


def test_a_record_too_large_where_it_is_routed_ends_its_partition() -> None:
    """It is no quarantine's: nobody would know which topic misses it."""
    target = target_with_topics()
    report = copy(target, [log_of(Rec(b"a"), Rec(bytes(900), b"key"), Rec(b"c"))], {}, limit=500)
    (it,) = report.ranges
    assert ("poison-record", 1, 0) == (it.error_code, it.next_upstream, it.routed)
    assert re.search(r"t-0 at upstream offset 1: .*max.message.bytes=500 there \(alerts\)", it.error)
    assert [] == [it for n in range(PARTITIONS) for it in target.committed(("alerts", n))]


def test_a_routed_topic_without_a_leader_is_left_to_the_next_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions that route nothing there go on."""
    monkeypatch.setattr("twinlog.lane.copy.copy_transaction._NO_LEADER_SECONDS", 0.05)
    target = target_with_topics()
    key = next(b"k%d" % n for n in range(99) if ROUTE.place(b"k%d" % n, 0) % PARTITIONS == 1)
    target.leaderless.add(TopicPartition("alerts", 1))
    report = copy(
        target, [log_of(Rec(b"a"), Rec(b"b", key)), log_of(Rec(b"a"), Rec(b"b"))], {}, bytes_=1 << 20
    )
    assert [("no-leader", 0), ("", 2)] == [(it.error_code, it.next_upstream) for it in report.ranges]


def test_a_routed_topic_that_is_gone_is_named() -> None:
    """It is no state topic: its partition ends, the lane does not."""
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    target.topics["alerts"] = 0
    report = copy(target, [log_of(Rec(b"a"), Rec(b"b", b"key"))], {}, bytes_=1 << 20)
    (it,) = report.ranges
    assert ("failed", "route-refused") == (report.state, it.error_code)


def test_nothing_behind_a_poisonous_record_is_routed() -> None:
    """It was read with those before it, and will be read again when the poison is gone."""
    target = target_with_topics()
    records = [Rec(b"a"), Rec(b"b", b"key"), Rec(bytes(4000)), Rec(b"d", b"key")]
    log = Log((bytes(encode(records)),), tuple(enumerate(records)), (), 4)
    report = copy(target, [log], {}, copy_limit=1000, block=1 << 20, bytes_=1 << 20)
    (it,) = report.ranges
    assert ("poison-record", 2, 1, 1) == (it.error_code, it.next_upstream, it.records, it.routed)
    assert 1 == sum(len(target.committed(("alerts", n))) for n in range(PARTITIONS))


def test_a_second_process_with_the_same_epoch_does_not_take_dropped_records_for_written() -> None:
    """Its batches are dropped as duplicates, and answered with offsets from before its beginning."""
    target, log = target_with_topics(), log_of(Rec(b"a", b"key"), Rec(b"b", b"key"))
    writer = target.init()
    assert "done" == lane_of(target, writer, [log], {}).run().state
    assert "fence-again" == lane_of(target, writer, [log], {}).run().state
    assert 2 == sum(len(target.committed(("alerts", n))) for n in range(PARTITIONS))
