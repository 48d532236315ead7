"""Which records tell a recreated topic without an id, and what they say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.prints import Fingerprint
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.topics.same_log import Witness, same_record, witnesses

HELD = MapSegment(10, 60, (Extent(10, 70, 5), Extent(30, 80, 4)))
"""Upstream 10 to 14 lie at 70, upstream 30 to 33 at 80."""


class TestWitnesses:
    @pytest.mark.parametrize(
        ("log_start", "expected"),
        [
            (0, ((10, 70), (33, 83))),
            (12, ((12, 72), (33, 83))),
            (20, ((30, 80), (33, 83))),
            (33, ((33, 83),)),
            (34, ()),
        ],
    )
    def test_the_oldest_and_the_newest_that_are_left(
        self, log_start: int, expected: tuple[tuple[int, int], ...]
    ) -> None:
        """The oldest is at or behind the log's start; where it is the newest, it counts once."""
        found = witnesses(OffsetMap.of([HELD]), 3, log_start)
        assert tuple(Witness(3, *pair) for pair in expected) == found

    @given(st.integers(0, 40))
    def test_each_is_a_copied_record(self, log_start: int) -> None:
        """The map agrees about both offsets."""
        known = OffsetMap.of([HELD])
        for it in witnesses(known, 0, log_start):
            there = known.translate(it.upstream)
            assert there is not None
            assert (it.downstream, True) == (there.offset, there.exact)

    def test_an_empty_map_has_none(self) -> None:
        """Nothing was copied, so nothing can be skipped."""
        assert () == witnesses(OffsetMap.of([]), 0, 0)


def record(timestamp: int, content: bytes) -> Fingerprint:
    return Fingerprint(7, timestamp, content, None)


class TestSameRecord:
    @pytest.mark.parametrize(
        ("theirs", "changed", "expected"),
        [
            (record(5, b"x"), False, True),
            (record(5, b"y"), False, False),
            (record(4, b"x"), False, False),
            (record(9, b"y"), False, False),
            (record(9, b"x"), False, None),
            (record(5, b"y"), True, None),
            (record(9, b"y"), True, None),
            (None, False, None),
        ],
    )
    def test_by_time_and_content(
        self, theirs: Fingerprint | None, changed: bool, expected: bool | None
    ) -> None:
        """A later time of the copy may be LogAppendTime's; an earlier one is another record's."""
        assert expected is same_record(record(5, b"x"), theirs, changed=changed)

    def test_a_record_that_is_gone_says_nothing(self) -> None:
        """Compaction and retention take records away."""
        assert same_record(None, record(5, b"x"), changed=False) is None
