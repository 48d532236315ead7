"""Scheduled cycles, simulated: they settle, or get longer and longer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.sizing.costs import MEASURED
from twinlog.sizing.cycles import cycle, slots_needed
from twinlog.sizing.load import Load, Rules

RULES = Rules()
FLOWS = st.builds(
    Load,
    partitions=st.integers(1, 20_000),
    mb_per_second=st.floats(0.01, 2_000),
    batch_bytes=st.integers(1_000, 1 << 20),
    every_seconds=st.sampled_from([10, 60, 300]),
)


@given(FLOWS, st.floats(1, 4))
def test_more_bytes_never_need_fewer_slots(load, times):
    """As long as a number of slots is enough."""
    busier = Load(
        partitions=load.partitions,
        mb_per_second=load.mb_per_second * times,
        batch_bytes=load.batch_bytes,
        every_seconds=load.every_seconds,
    )
    before, after = slots_needed(load, MEASURED, RULES), slots_needed(busier, MEASURED, RULES)
    if cycle(busier, after, MEASURED, RULES).on_time:
        assert before <= after


@given(FLOWS)
def test_the_slots_that_are_needed_are_enough_and_one_less_is_not(load):
    """If any number is."""
    slots = slots_needed(load, MEASURED, RULES)
    if cycle(load, load.partitions, MEASURED, RULES).on_time:
        assert cycle(load, slots, MEASURED, RULES).on_time
        assert slots == 1 or not cycle(load, slots - 1, MEASURED, RULES).on_time


def test_a_lane_that_is_too_slow_never_settles():
    """1 GB/s through one partition: each cycle has more to copy than the one before."""
    seen = cycle(Load(partitions=1, mb_per_second=1_000), 1, MEASURED, RULES)
    assert (False, False) == (seen.on_time, seen.keeps_up)


def test_a_cycle_that_is_late_may_still_keep_up():
    """100,000 partitions take longer than the minute between two cycles, but not longer each time."""
    seen = cycle(Load(partitions=100_000, mb_per_second=1), 4, MEASURED, RULES)
    assert (False, True) == (seen.on_time, seen.keeps_up)


def test_lanes_follow_the_bytes():
    """One for each 256 MiB, at most as many as slots (decision 16)."""
    load = Load(partitions=100, mb_per_second=20)
    assert [1, 5, 3] == [
        cycle(load.times(times), most, MEASURED, RULES).lanes for times, most in ((0.1, 64), (1, 64), (1, 3))
    ]


def test_a_gigabyte_takes_as_long_as_was_measured():
    """2,035 MB of 256 KB batches took one lane 3.1 s (results.json): within a quarter."""
    load = Load(partitions=4, mb_per_second=203.5, batch_bytes=262_144, every_seconds=10, brokers=1)
    assert 3.1 == pytest.approx(cycle(load, 1, MEASURED, RULES).copy_seconds, rel=0.25)
