"""Encode what a lane has committed since its fence: a header of each progress record, which Connect ignores.

    twinlog.lane    the fields of LaneCounts in their order, as decimal numbers with blanks between them

It is committed with the data, so it counts neither more nor less, also for a lane that dies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

LANE: Final = "twinlog.lane"
"""Name of the header."""

UNKNOWN: Final = -1


class LaneCounts(NamedTuple):
    """Count what a lane has committed since the fence that the ledger has of `fence_ms`, as of `at_ms` (both epoch ms).

    - `commits` and `retries` are transactions committed, and refused; `throttled_ms` is for how long quotas held it up.
    - `behind` are upstream offsets of its partitions still to be copied, at most a second old, UNKNOWN before its
      source has told where all of them end.
    - `records` and `bytes` are of the lane, `partition_records` and `partition_bytes` of the record's own partition.
    """

    fence_ms: int
    lane: int
    at_ms: int
    commits: int
    retries: int
    throttled_ms: int
    behind: int
    records: int
    bytes: int
    partition_records: int
    partition_bytes: int

    @property
    def behind_if_known(self) -> int | None:
        """Return `behind`, None if it is UNKNOWN."""
        return None if self.behind == UNKNOWN else self.behind


NO_COUNTS: Final = LaneCounts(*[0] * len(LaneCounts._fields))
"""The counts of a lane that has committed nothing."""

_FORMAT: Final = b" ".join([b"%d"] * len(LaneCounts._fields))


def lane_header(counts: LaneCounts) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers of a progress record that tells the counts."""
    return ((LANE, _FORMAT % counts),)


def parse_lane_counts(headers: Iterable[tuple[str, bytes | None]]) -> LaneCounts | None:
    """Read the counts; None if no header tells them, or one tells something else: they are only shown."""
    for name, content in headers:
        if name == LANE:
            try:
                return LaneCounts(*map(int, (content or b"").split(b" ")))
            except (ValueError, TypeError):
                return None
    return None


def newest_of_lanes(counts: Iterable[LaneCounts]) -> Mapping[int, LaneCounts]:
    """Return, of counts since one fence, those that each lane has told last."""
    return {it.lane: it for it in sorted(counts, key=lambda it: it.commits)}
