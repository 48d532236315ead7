"""A lane without transactions: whatever is refused or appended twice, nothing is lost and the map tells the truth."""

from __future__ import annotations

import pytest
from fakes import TOPIC_ID, FakeTarget
from hypothesis import given, settings
from hypothesis import strategies as st
from test_copy_lane import MOVES, NOWHERE, STATE, encoded, progress, source_of
from test_cutter import Log, logs
from test_predicted import TOPICS, Crowded

from twinlog.batches.record import Record, key_and_value
from twinlog.formats.map.offset_map import decode_map_key, decode_segment
from twinlog.lane.copy import range_state
from twinlog.lane.copy.copy_lane import LaneCopy
from twinlog.lane.spec import LaneReport, LaneSpec, RangeSpec
from twinlog.offsets.offset_map import OffsetMap


def copy(partitions: list[Log], target: FakeTarget, bytes_: int) -> LaneReport:
    """Copy every partition from its start."""
    source = source_of(partitions, 300)
    ranges = tuple(
        RangeSpec("t", TOPIC_ID, "A.t", number, 0, log.end)
        for number, log in enumerate(partitions)
        if log.end
    )
    spec = LaneSpec(
        "A->B",
        0,
        "",
        *target.init(),
        NOWHERE,
        NOWHERE,
        STATE,
        ranges,
        transaction_bytes=bytes_,
        exactly_once=False,
    )
    return LaneCopy(spec, source, target).run()  # type: ignore[arg-type]


def latest_map(target: FakeTarget, partition: int) -> OffsetMap:
    """The map of one source partition: of each key what was written last."""
    latest: dict[bytes | None, bytes | None] = {}
    for number in range(4):
        for _, rest in target.committed(("map", number)):
            key, value = key_and_value(Record(0, 0, memoryview(rest)))
            latest[key] = value
    pieces = [decode_segment(decode_map_key(key or b""), value or b"") for key, value in latest.items()]
    keys = [decode_map_key(key or b"") for key in latest]
    return OffsetMap.of(piece for key, piece in zip(keys, pieces, strict=True) if key.partition == partition)


def whole(target: FakeTarget, partition: int, log: Log) -> None:
    """Every record is there, in order if each one's repetitions are left out, and found by the map; so is the end."""
    copied = target.committed(("A.t", partition))
    rest_of_copy = iter(rest for _, rest in copied)
    assert all(wanted in rest_of_copy for wanted in encoded(log.visible))
    assert log.end - 1 == progress(target).get(partition, -1)
    at = dict(copied)
    known = latest_map(target, partition)
    for (offset, _), wanted in zip(log.visible, encoded(log.visible), strict=True):
        found = known.translate(offset)
        assert found is not None
        assert wanted == at.get(found.offset)


@settings(max_examples=30, deadline=None)
@given(st.lists(logs(), min_size=1, max_size=2), st.integers(1, 500), st.lists(MOVES, max_size=12))
def test_a_refused_batch_is_sent_again_and_nothing_is_lost(
    partitions: list[Log], bytes_: int, faults: list[object]
) -> None:
    """Whether it was written or not."""
    target = FakeTarget(TOPICS)
    target.faults["produce"] = list(faults)
    assert "done" == copy(partitions, target, bytes_).state
    for number, log in enumerate(partitions):
        whole(target, number, log)


@settings(max_examples=30, deadline=None)
@given(logs(), st.integers(1, 500), st.lists(MOVES, max_size=12), st.integers(1, 3))
def test_pieces_of_a_map_that_is_written_again_say_the_same(
    log: Log, bytes_: int, faults: list[object], runs: int
) -> None:
    """A transaction's map is many messages: of one that was given up some may be there."""
    target = FakeTarget(TOPICS)
    target.faults["produce"] = list(faults)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_state, "LARGEST_PIECE_RUNS", runs)
        assert "done" == copy([log], target, bytes_).state
    whole(target, 0, log)


@settings(max_examples=30, deadline=None)
@given(logs(), st.lists(st.booleans(), max_size=30), st.integers(1, 2000))
def test_a_stranger_in_the_copy_is_not_in_the_map(log: Log, strangers: list[bool], bytes_: int) -> None:
    """Where records lie is waited for: there is no transaction to give up when it was predicted wrongly."""
    target = Crowded(iter(strangers))
    assert "done" == copy([log], target, bytes_).state
    whole(target, 0, log)
    assert encoded(log.visible) == [rest for _, rest in target.committed(("A.t", 0))]
