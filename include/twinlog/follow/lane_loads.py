"""Measure how open lanes progress between topic refreshes, and say whether to assign ranges anew. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from twinlog.cluster.values import TopicPartition
from twinlog.copying.packing import place_of
from twinlog.lane.spec import RangeSpec

IDLE_SHARE: Final = 0.1
"""Share of what a lane copies between two refreshes that is too little to be worth a new lane generation."""


@dataclass(frozen=True, slots=True)
class LaneLoad:
    """One lane between two refreshes, in upstream offsets: its backlog at the first, copied since, backlog now.

    `largest` is the backlog of the one partition with the largest: that stays with one lane in any case.
    """

    behind_before: int
    copied: int
    behind: int
    largest: int

    @property
    def overloaded(self) -> bool:
        """Whether its backlog stays larger than what it copies between two refreshes, and it has a part to give."""
        persists = min(self.behind_before, self.behind) > self.copied
        return persists and self.behind - self.largest > self.copied * IDLE_SHARE

    @property
    def idle(self) -> bool:
        """Whether it could take more."""
        return self.behind <= self.copied * IDLE_SHARE


def another_assignment_helps(loads: Sequence[LaneLoad], free: int) -> bool:
    """Say whether a lane is overloaded while another is idle, or while `free` more lanes could be opened."""
    return any(it.overloaded for it in loads) and (free > 0 or any(it.idle for it in loads))


@dataclass(slots=True)
class OpenLoads:
    """The lanes of one lane generation, as of the newest topic refresh.

    `reached` is the next upstream offset of each partition, `behind` each lane's backlog. A lane generation that was
    just opened counts as having no backlog, so one refresh alone never shows an overload.
    """

    lanes: Sequence[Sequence[RangeSpec]]
    reached: dict[TopicPartition, int] = field(init=False)
    behind: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.reached = {place_of(it): it.start for it in self._ranges()}
        self.behind = [0] * len(self.lanes)

    def look(
        self, progress: Mapping[tuple[str, int], int], ends: Mapping[TopicPartition, int]
    ) -> tuple[LaneLoad, ...]:
        """Take in the flow's progress (last copied upstream offsets) and where its partitions end."""
        before = self.reached
        self.reached = {place: max(start, progress.get(place, -1) + 1) for place, start in before.items()}
        loads = []
        for number, ranges in enumerate(self.lanes):
            places = [place_of(it) for it in ranges]
            behind = [max(0, ends.get(it, 0) - self.reached[it]) for it in places]
            copied = sum(self.reached[it] - before[it] for it in places)
            loads.append(LaneLoad(self.behind[number], copied, sum(behind), max(behind, default=0)))
        self.behind = [it.behind for it in loads]
        return tuple(loads)

    def copied(self) -> int:
        """Return the upstream offsets copied since the lane generation was opened."""
        return sum(self.reached[place_of(it)] - it.start for it in self._ranges())

    def _ranges(self) -> Iterable[RangeSpec]:
        return (it for ranges in self.lanes for it in ranges)
