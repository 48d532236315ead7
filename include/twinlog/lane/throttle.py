"""Apply a lane's share of the flow's `twinlog.bytes.per.second`: compute the wait before it may send more.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

BURST_SECONDS = 0.25
"""The burst that may be sent at once after a pause, in seconds of the rate."""


@dataclass(slots=True)
class Throttle:
    """A token bucket that fills at `rate` bytes a second; a caller may overdraw it, and then waits.

    Invariant: in any t seconds at most `rate * (t + BURST_SECONDS)` bytes pass, plus the one portion that overdrew it.
    """

    rate: float
    now: float
    balance: float = 0.0

    def spend(self, sent: int, now: float) -> float:
        """Note `sent` bytes at `now` (monotonic seconds); return the seconds to wait."""
        self.balance = min(self.balance + (now - self.now) * self.rate, self.rate * BURST_SECONDS) - sent
        self.now = now
        return max(0.0, -self.balance / self.rate)
