"""How long ago something was, by clocks of machines that differ.  Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from twinlog import clock

CLOCKS_APART_MS = 60_000
"""What lies in the future by no more than this is from now: its clock is ahead of ours."""


def seconds_since(at_ms: int | None, now_ms: int) -> float | None:
    """Seconds from a time to now, both epoch ms; None when there is no such time, or it has yet to come."""
    if at_ms is None or at_ms > now_ms + CLOCKS_APART_MS:
        return None
    return clock.seconds_since(at_ms, now_ms)


def greatest(ages: Iterable[float | None], within: float) -> float | None:
    """Return the greatest of some ages (seconds), 0 of none; None if one of them is not known.

    An age over `within` is told whatever else is not known: that promise is broken already.
    """
    every = list(ages)
    known = max((age for age in every if age is not None), default=0.0)
    return None if None in every and known <= within else known


def iso(milliseconds: int) -> str:
    """Write an epoch time as ISO 8601 in UTC."""
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).isoformat(timespec="seconds")
