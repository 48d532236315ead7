"""Say how quick a contender was: records per second of CPU time or of the clock, from the rows of its copies."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

Row = dict[str, Any]


def rate(copies: Sequence[Row], contender: str, kind: str, key: str, of: str = "records") -> float:
    """Return the median of records (or `of` another count) per second of `key`, `cpu_s` or `wall_s`; 0 if none."""
    rates = [row[of] / row[key] for row in copies if (row["contender"], row["kind"]) == (contender, kind)]
    return median(rates) if rates else 0.0


def number(value: float) -> str:
    """Return a cell of a table: a dash if nothing was measured."""
    return f"{value:,.0f}" if value else "-"
