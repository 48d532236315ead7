"""What was played, and whether it held: the last line of a run."""

from __future__ import annotations

from collections import Counter

PLAYED: Counter[str] = Counter()
"""Schedules of this session that held, by fault."""


def summary(failed: int) -> str:
    """Say how many schedules held.  Nothing is said of lost or doubled records if any schedule failed."""
    held = ", ".join(f"{fault} {count}" for fault, count in sorted(PLAYED.items()))
    if failed:
        return f"chaos: {PLAYED.total()} schedules held, {failed} tests failed ({held})"
    return f"chaos: {PLAYED.total()} schedules, 0 records lost, 0 doubled ({held})"
