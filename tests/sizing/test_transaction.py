"""A transaction costs more with more bytes and more partitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.sizing.costs import MEASURED, LaneModel
from twinlog.sizing.load import Load, Rules

LANES = st.builds(
    lambda partitions, lanes, rate, batch: LaneModel(
        Load(partitions=partitions, mb_per_second=rate, batch_bytes=batch),
        min(lanes, partitions),
        MEASURED,
        Rules(),
    ),
    st.integers(1, 20_000),
    st.integers(1, 64),
    st.floats(0.01, 2_000),
    st.integers(500, 1 << 20),
)


@given(LANES, st.floats(1, 1e9))
def test_a_transaction_touches_at_most_its_partitions_and_batches(lane, size):
    """No more than the lane has, and no more than there are batches."""
    touched = lane.touched(size)
    assert 0 <= touched <= lane.partitions * 1.000001
    assert touched <= size / lane.load.batch_bytes * 1.000001


@given(LANES, st.floats(1, 1e9), st.floats(1, 4))
def test_more_bytes_take_longer(lane, size, times):
    """By the clock, of the CPU, and for the brokers."""
    few, many = lane.touched(size), lane.touched(size * times)
    assert lane.seconds(size, few) <= lane.seconds(size * times, many)
    assert lane.cpu_seconds(size, few) <= lane.cpu_seconds(size * times, many)
    assert lane.marker_seconds(few) <= lane.marker_seconds(many)


def test_markers_are_those_of_the_copies_and_of_the_state():
    """One partition touches two of the state, very many touch all 41."""
    lane = LaneModel(Load(partitions=10_000, mb_per_second=1), 1, MEASURED, Rules())
    assert [2.95, 1041.0] == pytest.approx([lane.markers(1), lane.markers(1000)], rel=0.01)


@given(LANES)
def test_the_lane_with_most_partitions_counts(lane):
    """It has at least its share of partitions and bytes, and less than one partition more."""
    share = lane.load.partitions / lane.lanes
    assert share <= lane.partitions < share + 1
    assert lane.bytes_per_second >= lane.load.bytes_per_second / lane.lanes * 0.999999
