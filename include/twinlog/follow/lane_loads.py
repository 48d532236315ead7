"""How open lanes come along from one look to the next, and whether they should be dealt anew.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from twinlog.cluster.values import TopicPartition
from twinlog.copying.packing import place_of
from twinlog.lane.spec import RangeSpec

IDLE_SHARE: Final = 0.1
"""Of what a lane copies between two looks: so little is not worth a new window."""


@dataclass(frozen=True, slots=True)
class LaneLoad:
    """One lane between two looks, in upstream offsets: behind at the first one, copied since, and behind by now.

    `largest` is how far it is behind in one partition, the one that is furthest: that stays with one lane in any case.
    """

    behind_before: int
    copied: int
    behind: int
    largest: int

    @property
    def overloaded(self) -> bool:
        """Whether it was, and is, further behind than it comes between two looks, with something to give away."""
        persists = min(self.behind_before, self.behind) > self.copied
        return persists and self.behind - self.largest > self.copied * IDLE_SHARE

    @property
    def idle(self) -> bool:
        """Whether it could take more."""
        return self.behind <= self.copied * IDLE_SHARE


def another_assignment_helps(loads: Sequence[LaneLoad], free: int) -> bool:
    """Whether a lane is overloaded while another is idle, or while `free` more could be opened."""
    return any(it.overloaded for it in loads) and (free > 0 or any(it.idle for it in loads))


@dataclass(slots=True)
class OpenLoads:
    """The lanes of one window, as of the newest look.

    `reached` is the next upstream offset of each partition, `behind` how far each lane was behind; a window that was
    just opened counts as behind in nothing, so one look alone tells of no overload.
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
        """Take in how far the flow has come (last copied upstream offsets) and where its partitions end."""
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
        """Upstream offsets since the window was opened."""
        return sum(self.reached[place_of(it)] - it.start for it in self._ranges())

    def _ranges(self) -> Iterable[RangeSpec]:
        return (it for ranges in self.lanes for it in ranges)
