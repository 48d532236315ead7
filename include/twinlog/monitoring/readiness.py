"""Say whether a flow is ready for a failover, by the gate's newest answer in each mode, and how old that is.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.clock import seconds_since
from twinlog.state.ledger import Ledger
from twinlog.visible import listed

MODES = ("planned", "source-dead")

NAMED = 2
"""Failed checks that a headline names."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """The gate's newest answer in one mode.

    `ready` is None if it was never asked.  `failed` are the checks that made it say no.  `age_seconds` is None also for
    an answer from the future.  `waived` are the failed checks for which somebody answers.  `since` names the run that
    moved clients after the newest answer: that was about another day.
    """

    mode: str
    ready: bool | None = None
    age_seconds: float | None = None
    failed: tuple[str, ...] = ()
    waived: tuple[str, ...] = ()
    since: str = ""

    @property
    def word(self) -> str:
        """Return the answer."""
        if self.ready is not None:
            return "READY" if self.ready else "NOT READY"
        return f"NOT ASKED since {self.since}" if self.since else "NEVER ASKED"

    @property
    def told(self) -> str:
        """Return the answer with its reason, without its age."""
        waived = f", waived: {listed(self.waived, NAMED)}" if self.waived else ""
        return f"{self.word} ({self.mode})" + (f": {listed(self.failed, NAMED)}" if self.failed else waived)


def readiness(ledger: Ledger, now_ms: int) -> tuple[Readiness, ...]:
    """Return one answer for each mode; what was answered before clients moved, there or home, counts no longer."""
    moved_ms, moved = max(
        ((recovery.promoted_ms or 0, recovery.run) for recovery in ledger.recoveries), default=(0, "")
    )
    by_mode = {outcome.mode: outcome for outcome in ledger.outcomes}

    def of(mode: str) -> Readiness:
        found = by_mode.get(mode)
        if found is None:
            return Readiness(mode)
        if found.at_ms <= moved_ms:
            return Readiness(mode, since=moved)
        return Readiness(mode, found.ready, seconds_since(found.at_ms, now_ms), found.failed, found.waived)

    return tuple(map(of, MODES))
