"""Follow mode, simulated: what keeps up does so in the simulation too, and more never needs less."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlog.sizing.costs import MEASURED, LaneModel
from twinlog.sizing.following import brokers_busy, follow, lanes_needed
from twinlog.sizing.load import Load, Rules

RULES = Rules()
FLOWS = st.builds(
    Load,
    partitions=st.integers(1, 20_000),
    mb_per_second=st.floats(0.01, 2_000),
    batch_bytes=st.integers(1_000, 1 << 20),
)


def needed(load: Load) -> int:
    return lanes_needed(load, MEASURED, RULES)


@given(FLOWS, st.floats(1, 4), st.integers(1, 8))
def test_more_never_needs_fewer_lanes(load, times, smaller):
    """More bytes in smaller batches.  Not more partitions: ten may be dealt over four lanes more evenly than nine."""
    rate = load.mb_per_second * times
    batch = max(500, load.batch_bytes // smaller)
    assert needed(load) <= needed(Load(partitions=load.partitions, mb_per_second=rate, batch_bytes=batch))


@settings(max_examples=40, deadline=None)
@given(FLOWS)
def test_the_lanes_that_are_needed_keep_up(load):
    """If the brokers can write the markers, no simulated lane falls behind, and none commits late."""
    lane = LaneModel(load, needed(load), MEASURED, RULES)
    if lane.busy(RULES.backlog_seconds) > 0.8 or brokers_busy(lane) > 0.5:
        return
    seen = follow(lane)
    assert seen.keeps_up
    slowest = max(RULES.backlog_seconds, 1.5 * load.batch_bytes / lane.bytes_per_second)
    assert seen.interval_seconds <= slowest


@settings(max_examples=40, deadline=None)
@given(FLOWS)
def test_what_arrives_is_copied(load):
    """Touched partitions are between one a transaction and the batches that arrive."""
    seen = follow(LaneModel(load, needed(load), MEASURED, RULES))
    assert seen.touched_per_second >= seen.transactions_per_second * 0.999
    if seen.keeps_up:
        batches = load.bytes_per_second / load.batch_bytes
        assert seen.touched_per_second <= max(batches, seen.transactions_per_second) * 1.2


def test_half_of_the_lanes_fall_behind():
    """The simulation says so by itself: what waits grows with each transaction."""
    load = Load(partitions=10_000, mb_per_second=1_000)
    seen = follow(LaneModel(load, needed(load) // 4, MEASURED, RULES))
    assert not seen.keeps_up
    assert seen.lane_busy == pytest.approx(1.0, abs=0.1)


def test_lanes_wait_for_slow_brokers():
    """One broker for the markers of 10,000 partitions: it is busy all the time, and commits are late."""
    many, one = (
        follow(LaneModel(Load(partitions=10_000, mb_per_second=1_000, brokers=brokers), 32, MEASURED, RULES))
        for brokers in (30, 1)
    )
    assert one.brokers_busy > 0.9
    assert many.brokers_busy < 0.3
    assert one.interval_seconds > many.interval_seconds


def test_nothing_to_copy_costs_nothing():
    """A flow without records has no transactions."""
    seen = follow(LaneModel(Load(partitions=10, mb_per_second=0), 1, MEASURED, RULES))
    assert (0.0, 0.0, True) == (seen.transactions_per_second, seen.cpu_cores, seen.keeps_up)
