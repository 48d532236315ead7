"""What is not proved of a copy, counted by the reason.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from twinlog.formats.ledger.audit import Unproved

NOT_AUDITED: Final = "not-audited"
"""Why most records are not proved: no audit has come to them yet."""

GONE: Final = frozenset({Unproved.SOURCE_RETENTION, Unproved.TARGET_RETENTION, Unproved.COMPACTED})
"""Reasons that say that a side no longer holds the record: there is nothing to compare it with."""

UNMAPPED: Final = frozenset({Unproved.NO_MAP, Unproved.MAP_LOST})
"""Reasons that say that the offset map does not know the record."""


@dataclass(frozen=True, slots=True)
class UnprovedCount:
    """So many records are not proved, for this reason: a value of Unproved, or `not-audited`."""

    reason: str
    records: int


def counted(reasons: Mapping[str, int]) -> tuple[UnprovedCount, ...]:
    """Name the reasons that hold for some record, in order."""
    return tuple(UnprovedCount(reason, count) for reason, count in sorted(reasons.items()) if count > 0)


def added(parts: Iterable[Iterable[UnprovedCount]]) -> tuple[UnprovedCount, ...]:
    """Add up the counts of many partitions."""
    sums: Counter[str] = Counter()
    for counts in parts:
        for one in counts:
            sums[one.reason] += one.records
    return counted(sums)


def told(counts: Iterable[UnprovedCount]) -> str:
    """Say how many records are not proved, and why: `5 source-retention, 2 not-audited`; "" for none."""
    return ", ".join(f"{one.records:,} {one.reason}" for one in counts)
