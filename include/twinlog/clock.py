"""Read wall-clock time as Kafka writes it: milliseconds since the epoch."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the time by this machine's clock, in milliseconds since the epoch."""
    return int(time.time() * 1000)


def seconds_since(at_ms: int, now_ms: int) -> float:
    """Return the seconds from `at_ms` to `now_ms`; 0 if `at_ms` is later, by the fast clock of another machine."""
    return max(0, now_ms - at_ms) / 1000
