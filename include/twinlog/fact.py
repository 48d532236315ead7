"""A fact that could not be had, and sums that keep that doubt.

An unknown fact is no number: nothing adds it up, compares it or takes it for 0, and a check that asks for it fails and
says why.  None is something else: there is nothing to ask about, as the age of heartbeats in a flow that copies none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stand for a fact that could not be had; `why` is what a person reads in its place."""

    why: str


Count = int | Unknown
"""A number of records, an offset or a size, or why nobody knows it."""

NOT_ASKED = Unknown("it was not asked")


def known(value: T | None, why: str) -> T | Unknown:
    """Return the value; if there is none, the fact is unknown for the reason `why`."""
    return Unknown(why) if value is None else value


def if_known(value: T | Unknown) -> T | None:
    """Return the value for a document, in which an unknown one is null."""
    return None if isinstance(value, Unknown) else value


@dataclass(frozen=True, slots=True)
class Total:
    """A sum: at least `least`, and no more if there is no `doubt`, which says what could not be counted."""

    least: int = 0
    doubt: str = ""

    @property
    def fact(self) -> Count:
        """Return the sum, unknown if there may be more."""
        return Unknown(self.doubt) if self.doubt else self.least

    @property
    def shown(self) -> int | None:
        """Return what may be shown as a number: what was counted, but no 0 of what was not looked at."""
        return self.least if self.least or not self.doubt else None

    def told(self, what: str) -> str:
        """Say how many records `what` is true of, and what is not known."""
        least = "at least " if self.doubt else ""
        return "; ".join(filter(None, [f"{least}{self.least:,} records {what}", self.doubt]))


def greatest(ages: Iterable[float | None], within: float) -> float | None:
    """Return the greatest of some ages (seconds), rounded to ms, 0 of none; None if one of them is unknown.

    If an age is over `within`, it is returned even if others are unknown: that limit is broken already.
    """
    every = list(ages)
    known = max((age for age in every if age is not None), default=0.0)
    return None if None in every and known <= within else round(known, 3)


def total(counts: Iterable[Count | Total], doubt: str = "") -> Total:
    """Add up; the first count that is unknown, or in part, says what the doubt is, if none is given."""
    least = 0
    for count in counts:
        if isinstance(count, Total):
            least, doubt = least + count.least, doubt or count.doubt
        elif isinstance(count, Unknown):
            doubt = doubt or count.why or "a part of it is not known"
        else:
            least += count
    return Total(least, doubt)
