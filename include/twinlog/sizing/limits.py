"""Say what bounds a flow, how much of each bound it uses, and which setting moves it.  Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MOST_TIMES: Final = 1024.0
"""Loads up to so many times the one in question are tried."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound: `used` is the share of it that the flow takes, above 1 if it is exceeded; `knob` moves it."""

    name: str
    used: float
    knob: str


@dataclass(frozen=True, slots=True)
class Break:
    """Tell what breaks first as the flow grows: at how many times its partitions and MB/s.

    `times` None: not at 1,024 times.  `days`: when that is, if partitions are added every day; None if they are not.
    """

    name: str
    knob: str
    times: float | None
    days: float | None


def worst(limits: tuple[Limit, ...]) -> Limit:
    """Return the bound of which most is used."""
    return max(limits, key=lambda it: it.used)


def first_break(limits_at: Callable[[float], tuple[Limit, ...]], growth_per_day: float) -> Break:
    """Search the load at which the first bound is exceeded; `limits_at` says what is used at so many times the load.

    `growth_per_day` is the share of the load that is added each day.
    """
    high = 1.0
    while worst(limits_at(high)).used <= 1:
        high *= 2
        if high > MOST_TIMES:
            nearest = worst(limits_at(MOST_TIMES))
            return Break(nearest.name, nearest.knob, None, None)
    low = 0.0 if high == 1 else high / 2
    while high - low > max(0.01, high / 100):
        middle = (low + high) / 2
        if worst(limits_at(middle)).used > 1:
            high = middle
        else:
            low = middle
    first = worst(limits_at(high))
    days = max(0.0, high - 1) / growth_per_day if growth_per_day else math.inf
    return Break(first.name, first.knob, round(high, 2), days if math.isfinite(days) else None)
