"""Compute how long ago something was, across machines whose clocks differ.  Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from twinlog import clock

CLOCKS_APART_MS = 60_000
"""Milliseconds that a time may lie in the future and still count as now: its clock is ahead of ours."""


def seconds_since(at_ms: int | None, now_ms: int) -> float | None:
    """Return the seconds from a time to now, both epoch ms; None if there is no such time, or it has yet to come."""
    if at_ms is None or at_ms > now_ms + CLOCKS_APART_MS:
        return None
    return clock.seconds_since(at_ms, now_ms)


def greatest(ages: Iterable[float | None], within: float) -> float | None:
    """Return the greatest of some ages (seconds), 0 of none; None if one of them is unknown.

    If an age is over `within`, it is returned even if others are unknown: that limit is broken already.
    """
    every = list(ages)
    known = max((age for age in every if age is not None), default=0.0)
    return None if None in every and known <= within else known


def iso(milliseconds: int) -> str:
    """Write an epoch time as ISO 8601 in UTC."""
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).isoformat(timespec="seconds")
