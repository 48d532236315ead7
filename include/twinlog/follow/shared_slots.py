"""Share a runner's slots between the flows that one process follows: a part of them each, or in turn.

A lane that is followed keeps its slot.  With as many slots as flows or more, each flow has its share of them for as
long as it is followed.  With fewer, a flow opens its one lane when it is its turn, and gives the slot back at the next
topic refresh if another flow waits.  A flow that waits holds nothing: it fences, and asks Spark for a task, when it has
its turn.

    two slots, three flows: the flow that has waited longest is next
    A A A A C C C C B B B B
    B B B B A A A A C C C C
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field

from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.rounds import LaneRunner

ATTENTION_SECONDS = 0.5
"""How often a flow that waits for its turn checks whether it has been told to stop."""


@dataclass(slots=True)
class SharedSlots:
    """The slots of one runner, shared by so many `flows` (thread-safe).

    - `known` is their number as any of the flows has counted last, 0 before.
    - `waiting` are the flows without a turn, the first come first; `open` is the number of those that have one.
    """

    flows: int = 1
    known: int = 0
    waiting: deque[object] = field(default_factory=deque)
    open: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def count(self, runner: LaneRunner) -> None:
        """Count the slots.  Raises TransientError if the runner does not tell.

        Spark Connect may wait for a slot to tell, so a flow that follows beside others asks when it has its turn.
        """
        slots = runner.slots
        with self.changed:
            self.known = slots
            self.changed.notify_all()

    def most_lanes(self, flow: FlowSettings, runner: LaneRunner) -> int:
        """Return how many lanes of a flow may be open: those that are configured, at most its share of the slots.

        That limit holds also if twinlog.lanes says more: a lane keeps its slot.  Raises as `count`.
        """
        self.count(runner)
        return self.lanes_of(flow)

    def lanes_of(self, flow: FlowSettings) -> int:
        """Return the same by the slots as they were counted last."""
        return min(flow.copy.lanes or self.share, self.share)

    @property
    def share(self) -> int:
        """Return how many lanes of one flow may be open."""
        return max(1, self.known // self.flows)

    def are_wanted(self, lanes: int) -> bool:
        """Say whether a flow with so many open `lanes` has to give slots back: it has too many, or another waits."""
        with self.changed:
            return lanes > self.share or bool(self.waiting)

    def take(self, stop: threading.Event, end: float) -> bool:
        """Wait for a turn; return whether it came before `stop` was set, and before `end` (monotonic seconds)."""
        ticket = object()
        with self.changed:
            self.waiting.append(ticket)
            try:
                while self.waiting[0] is not ticket or self.open >= max(1, self.known):
                    if stop.is_set() or time.monotonic() >= end:
                        return False
                    self.changed.wait(ATTENTION_SECONDS)
                self.open += 1
                return True
            finally:
                self.waiting.remove(ticket)
                self.changed.notify_all()

    def give(self) -> None:
        """End a turn."""
        with self.changed:
            self.open -= 1
            self.changed.notify_all()
