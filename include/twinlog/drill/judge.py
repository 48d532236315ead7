"""Judge the first record that a clone read on the target, by the exact map.  Pure.

The law: the record is right if the group has not read it, and no record that the group has not read lies before it.

    source    ...... read ......| u = committed     unread ......
    target    ...... read ......|    d  first record      the clone's first record r: right if r = d
                                        r < d: read again      r > d: skipped

With unchanged names in both directions the target's log has records of two kinds: copies, known to the map of this
flow, and the target's own, known to the map of the reverse flow once they are on the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Column


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Extents of records that are on both sides: from `here` on the source, from `there` on the target, in order."""

    here: Column
    there: Column
    length: Column

    def here_of(self, there: int) -> int | None:
        """Return the offset on the source of the record at an offset of the target; None if no extent has it."""
        row = int(np.searchsorted(self.there, there, side="right")) - 1
        into = there - int(self.there[row]) if row >= 0 else -1
        return int(self.here[row]) + into if 0 <= into < int(self.length[row]) else None

    def unread_before(self, read_to: int, there: int) -> int:
        """Count records from `read_to` on, on the source, that lie before `there` on the target."""
        until = np.minimum(self.length, there - self.there)
        return _sum(until - np.maximum(0, read_to - self.here))

    def unread_from(self, read_to: int, there: int) -> int:
        """Count records from `read_to` on, on the source, that lie at or after `there` on the target."""
        return _sum(self.length - np.maximum(0, np.maximum(read_to - self.here, there - self.there)))

    def read_from(self, read_to: int, there: int) -> int:
        """Count records before `read_to`, on the source, that lie at or after `there` on the target."""
        until = np.minimum(self.length, read_to - self.here)
        return _sum(until - np.maximum(0, there - self.there))


def _sum(counts: Column) -> int:
    return int(np.maximum(counts, 0).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Tell what the maps know of one partition: of the copies, and of the target's `own` records if they are copied."""

    copies: Pairs | None
    own: Pairs | None = None
    own_end: int = 0

    @classmethod
    def of(cls, forward: OffsetMap | None, reverse: OffsetMap | None) -> Known:
        """Take the map of this flow, and that of the reverse flow; None where there is none."""
        copies = Pairs(forward.upstream, forward.downstream, forward.length) if forward is not None else None
        if reverse is None:
            return cls(copies)
        own = Pairs(reverse.downstream, reverse.upstream, reverse.length)
        return cls(copies, own, reverse.end_upstream)

    @property
    def pairs(self) -> Sequence[Pairs]:
        """All that is known."""
        return [it for it in (self.copies, self.own) if it is not None]

    def here_of(self, there: int) -> int | None:
        """Return the offset on the source of a record of the target; None if it has none there, or none is known."""
        found = (pair.here_of(there) for pair in self.pairs)
        return next((it for it in found if it is not None), None)

    def only_there(self, there: int) -> bool:
        """Say whether a record is the target's own, and not yet on the source: no group there can have read it."""
        return self.own is not None and self.here_of(there) is None and there >= self.own_end

    def to_read(self, read_to: int, there: int) -> int:
        """Count the records known at or after `there` that a group at `read_to` has not read."""
        return sum(pair.unread_from(read_to, there) for pair in self.pairs)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Tell whether a first record is right, which record of the source it is, and what lies before and behind it."""

    right: bool
    upstream: int | None
    again: int | None
    skipped: int | None
    message: str


def judge(
    known: Known, committed: int, read: int, source_next: int | None = None, *, read_there_to: int = 0
) -> Verdict:
    """Judge the record at offset `read` of the target, for a group at `committed` on the source.

    `source_next` is the offset that the group would really read next on the source, if it answered and all records of
    the target come from there.  It decides what the map cannot know: records may have been compacted away since, and
    records that were never copied are in no map.  The target's own records before `read_there_to` were read there, by
    the group's own position, such as while clients worked on the target after a failover.
    """
    upstream = known.here_of(read)
    if upstream is None and not known.only_there(read):
        return Verdict(False, None, None, None, f"no map knows the record at {read}: nothing is proved by it")
    again = sum(pair.read_from(committed, read) for pair in known.pairs)
    if upstream is not None and upstream < committed:
        return Verdict(
            False, upstream, again, 0, f"begins with a record that it has read, and reads {again:,} again"
        )
    skipped = sum(pair.unread_before(committed, read) for pair in known.pairs)
    if known.own is not None:
        skipped -= known.own.unread_before(committed, min(read, read_there_to))
    if source_next is not None and upstream is not None:
        # What the map has before the record, and the source has no more, is not skipped.
        skipped = 0 if source_next >= upstream else max(1, skipped)
    if skipped:
        unread = "" if source_next is None else f", the first at {source_next}"
        return Verdict(
            False, upstream, again, skipped, f"skips {skipped:,} records that it has not read{unread}"
        )
    return Verdict(
        True, upstream, again, 0, f"{again:,} of the records behind it are read again" if again else ""
    )
