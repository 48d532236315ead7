"""A lane's share of the flow's `twinlog.bytes.per.second`: how long to wait before more may be sent.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

BURST_SECONDS = 0.25
"""How much may be sent at once after a pause, in seconds of the rate."""


@dataclass(slots=True)
class Throttle:
    """A bucket that fills at `rate` bytes a second and may be overdrawn: whoever overdraws waits.

    Invariant: over any stretch of t seconds at most `rate * (t + BURST_SECONDS)` bytes are let through, plus the
    one portion that overdrew it.
    """

    rate: float
    now: float
    balance: float = 0.0

    def spend(self, sent: int, now: float) -> float:
        """Take note of `sent` bytes at `now` (monotonic seconds); return for how many seconds to wait."""
        self.balance = min(self.balance + (now - self.now) * self.rate, self.rate * BURST_SECONDS) - sent
        self.now = now
        return max(0.0, -self.balance / self.rate)
