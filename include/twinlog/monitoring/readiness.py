"""Say whether a flow is ready for a failover, by the gate's newest answer in each mode, and how old that is.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from twinlog.clock import seconds_since
from twinlog.formats.ledger.gate import GateOutcome
from twinlog.visible import listed

MODES = ("planned", "source-dead")

NAMED = 2
"""Failed checks that a headline names."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """The gate's newest answer in one mode.

    `ready` is None if it was never asked.  `failed` are the checks that made it say no.  `age_seconds` is None also for
    an answer from the future.  `waived` are the failed checks for which somebody answers.
    """

    mode: str
    ready: bool | None = None
    age_seconds: float | None = None
    failed: tuple[str, ...] = ()
    waived: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """Return the answer."""
        return "NEVER ASKED" if self.ready is None else "READY" if self.ready else "NOT READY"

    @property
    def told(self) -> str:
        """Return the answer with its reason, without its age."""
        waived = f", waived: {listed(self.waived, NAMED)}" if self.waived else ""
        return f"{self.word} ({self.mode})" + (f": {listed(self.failed, NAMED)}" if self.failed else waived)


def readiness(outcomes: Iterable[GateOutcome], now_ms: int) -> tuple[Readiness, ...]:
    """Return one answer for each mode."""
    by_mode = {it.mode: it for it in outcomes}
    return tuple(
        Readiness(mode, found.ready, seconds_since(found.at_ms, now_ms), found.failed, found.waived)
        if (found := by_mode.get(mode)) is not None
        else Readiness(mode)
        for mode in MODES
    )
