"""A fact that could not be had.

It is no number: nothing adds it up, compares it or takes it for 0, and a check that asks for it fails and says why.
None is something else: there is nothing to ask about, as the age of heartbeats in a flow that copies none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stand for a fact that could not be had; `why` is what a person reads in its place."""

    why: str


def known(value: T | None, why: str) -> T | Unknown:
    """Return the value; if there is none, the fact is unknown for the reason `why`."""
    return Unknown(why) if value is None else value
