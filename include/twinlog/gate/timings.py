"""How long the parts of a failover take that the gate performs as well."""

from __future__ import annotations

import time

from twinlog.gate.answer import Rehearsed


class Stopwatch:
    """Times consecutive steps."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self.laps: tuple[Rehearsed, ...] = ()

    def lap(self, part: str) -> None:
        """Note what ended now."""
        now = time.monotonic()
        self.laps += (Rehearsed(part, round(now - self._since, 3)),)
        self._since = now
