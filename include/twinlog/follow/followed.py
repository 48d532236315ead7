"""A flow that is followed over a runner: what stays the same from its first lane generation to its last."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.copy import LaneRunner
from twinlog.follow.report import RunState


@dataclass(frozen=True, slots=True)
class Followed:
    """One flow, and what it is followed with.

    - Setting `stop` ends it.
    - `on_refresh` gets lines for people.
    - `run_state` is kept up to date for reports on the run.
    - `sharers` are the flows, this one with them, that share the runner's slots.
    """

    flow: FlowSettings
    clusters: Clusters
    runner: LaneRunner
    stop: threading.Event
    on_refresh: Callable[[str], None]
    run_state: RunState
    sharers: int = 1

    def tell(self, line: str) -> None:
        """Tell people something about the flow."""
        self.on_refresh(f"{self.flow.name}: {line}")

    @property
    def most_lanes(self) -> int:
        """How many lanes may be open: those that are configured, at most the flow's share of the slots.

        That limit holds also if twinlog.lanes says more: a lane keeps its slot.  Raises TransientError if the runner
        does not tell its slots.
        """
        share = max(1, self.runner.slots // self.sharers)
        return min(self.flow.copy.lanes or share, share)
