"""Define a mistake in the keys of transforms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in the value of `key`; one that is not `fatal` has no effect on what is copied."""

    key: str
    message: str
    hint: str = ""
    fatal: bool = True
