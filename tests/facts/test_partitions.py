"""The numbers of a partition row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.facts import partition
from twinlog.facts.partition import MapSummary, PartitionFacts, covered, lag
from twinlog.kafka_types import ReadRecord
from twinlog.offsets.segments import Extent, MapSegment, SegmentTable

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda it: (it[0], it[0] + it[1])))


def summarize(extents):
    """Add up extents, each of which is a segment of its own."""
    segments = [MapSegment(it.upstream, it.upstream_end, (it,)) for it in extents]
    return partition.summarize(SegmentTable.of(segments))


@given(INTERVALS)
def test_covered_counts_each_number_once(intervals):
    """The same as counting one by one."""
    assert len({number for start, end in intervals for number in range(start, end)}) == covered(intervals)


def test_an_empty_map_says_nothing():
    """No runs, no ends."""
    assert MapSummary() == summarize([])


def test_a_sound_map_knows_as_many_records_as_offsets_on_either_side():
    """Holes on either side do not matter."""
    assert MapSummary(5, 5, 5, 12, 9) == summarize([Extent(0, 1, 2), Extent(9, 6, 3)])


def test_repeated_pieces_count_once():
    """Joined pieces may stand beside those they replace."""
    assert summarize([Extent(0, 0, 10)]) == summarize([Extent(0, 0, 4), Extent(0, 0, 10), Extent(4, 4, 6)])


def test_a_record_copied_twice_shows():
    """The same upstream offsets at two downstream places."""
    twice = summarize([Extent(0, 0, 5), Extent(3, 5, 2)])
    assert (7, 5, 7) == (twice.records, twice.upstream_offsets, twice.downstream_offsets)


def test_two_records_in_one_place_show():
    """Two upstream offsets cannot be one downstream offset."""
    clash = summarize([Extent(0, 0, 5), Extent(5, 4, 2)])
    assert (7, 7, 6) == (clash.records, clash.upstream_offsets, clash.downstream_offsets)


def test_lag_counts_from_the_first_readable_record():
    """Markers and aborted records before it, or alone, are no lag; beyond the end it is negative."""
    first = ReadRecord(12, 0, None, None)
    assert [8, 0, -2] == [lag(20, 10, first), lag(20, 19, None), lag(20, 22, None)]


@pytest.mark.parametrize(
    ("lag", "unread", "least", "known"),
    [(9, 0, 9, True), (9, 4, 5, False), (9, 9, 0, False), (9, 20, 0, False), (0, 20, 0, True)],
)
def test_what_may_have_a_copy_that_nobody_has_read_is_not_called_missing(
    lag: int, unread: int, least: int, known: bool
):
    """As many as the copy has unread offsets; the others are missing at least, and the doubt is no 0."""
    row = PartitionFacts("orders", "A.orders", 0, lag_records=lag, unread=unread)
    assert (least, known) == (row.missing.least, not row.missing.doubt)
    assert known == (row.missing_records == lag)
