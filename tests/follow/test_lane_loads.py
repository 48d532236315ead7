"""When open lanes are dealt anew."""

from dataclasses import replace

import pytest

from twinlog.follow.lanes import LaneLoad, OpenLoads, another_assignment_helps
from twinlog.kafka_types import TopicPartition
from twinlog.lane.spec import NO_END, RangeSpec

RANGE = RangeSpec("t", "id", "A.t", 0, start=10, end=NO_END)

LATE = LaneLoad(behind_before=500, copied=100, behind=600, largest=300)
IDLE = LaneLoad(behind_before=0, copied=100, behind=5, largest=5)


@pytest.mark.parametrize(
    ("loads", "free", "helps"),
    [
        ([LATE, IDLE], 0, True),
        ([LATE], 1, True),
        ([LATE, LATE], 0, False),
        ([IDLE, IDLE], 1, False),
        ([replace(LATE, behind_before=90), IDLE], 1, False),
        ([replace(LATE, behind=90), IDLE], 1, False),
        ([replace(LATE, largest=595), IDLE], 1, False),
        ([], 2, False),
    ],
    ids=[
        "one idles",
        "a free slot",
        "all are late",
        "none is late",
        "only now",
        "no longer",
        "one partition",
        "none",
    ],
)
def test_only_an_overload_that_persists_and_can_be_shared(
    loads: list[LaneLoad], free: int, helps: bool
) -> None:
    """A new window costs a fence and a Spark job: not for a burst, nor for what one lane keeps in any case."""
    assert helps is another_assignment_helps(loads, free)


def test_loads_are_counted_from_look_to_look() -> None:
    """Copied since the last look, behind at both; progress from before the window counts as its start."""
    open_loads = OpenLoads([[RANGE, replace(RANGE, partition=1)], [replace(RANGE, partition=2)]])
    ends = {TopicPartition("t", n): 100 for n in range(3)}
    first = open_loads.look({("t", 0): 29, ("t", 1): 5}, ends)
    assert first == (LaneLoad(0, 20, 70 + 90, 90), LaneLoad(0, 0, 90, 90))
    second = open_loads.look({("t", 0): 99, ("t", 1): 59, ("t", 2): 99}, ends)
    assert second == (LaneLoad(160, 70 + 50, 40, 40), LaneLoad(90, 90, 0, 0))
    assert open_loads.copied() == 90 + 50 + 90
