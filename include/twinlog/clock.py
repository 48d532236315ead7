"""Wall-clock time as Kafka writes it: milliseconds since the epoch."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the time by this machine's clock."""
    return int(time.time() * 1000)


def seconds_since(at_ms: int, now_ms: int) -> float:
    """Return how long before `now_ms` a time lies; 0 for one that another machine's clock has ahead of it."""
    return max(0, now_ms - at_ms) / 1000
