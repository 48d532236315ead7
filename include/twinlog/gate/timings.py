"""Measure how long those parts of a failover take that the gate performs as well."""

from __future__ import annotations

import time

from twinlog.gate.answer import Timing


class Stopwatch:
    """A stopwatch for consecutive steps."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self.laps: tuple[Timing, ...] = ()

    def lap(self, part: str) -> None:
        """Note the time since the last lap under the name of the part that ended now."""
        now = time.monotonic()
        self.laps += (Timing(part, round(now - self._since, 3)),)
        self._since = now
