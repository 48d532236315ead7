"""Count the unproved records of a copy by reason.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from twinlog.formats.ledger.audit import Unproved

NOT_AUDITED: Final = "not-audited"
"""The reason of most unproved records: no audit has reached them yet."""

GONE: Final = frozenset({Unproved.SOURCE_RETENTION, Unproved.TARGET_RETENTION, Unproved.COMPACTED})
"""Reasons that mean that a side no longer holds the record: it cannot be compared."""

UNMAPPED: Final = frozenset({Unproved.NO_MAP, Unproved.MAP_LOST})
"""Reasons that mean that the offset map does not know the record."""


@dataclass(frozen=True, slots=True)
class UnprovedCount:
    """The number of records that are not proved for one reason: a value of Unproved, or `not-audited`."""

    reason: str
    records: int


def counted(reasons: Mapping[str, int]) -> tuple[UnprovedCount, ...]:
    """Return the reasons that apply to at least one record, in order."""
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
