"""What an audit looks at and what it answers: plain frozen values.

Offsets called upstream are on the source, downstream on the target; ends are exclusive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twinlog.formats.ledger.audit import DifferenceKind, UnprovedSpan
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.spans import Spans

LISTED = 100
"""Differences of one partition that are shown; all are counted."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is compared: upstream [start, end) with downstream [downstream_start, downstream_end).

    Every record of either range must have its counterpart by `offset_map`, which is exact there.  `quarantined`
    upstream offsets were left out on purpose.  `compacted` says that either side may have dropped records for
    which there is a later one of the same key.  `beyond` are downstream offsets of copies whose source records are
    known to be gone: only what stands between them is looked at.  `lost` are upstream stretches that were copied and of
    which the map was lost: a record in them that has no counterpart is missing.

    In a topic that others write to as well: `echoes` are upstream offsets that the flow the other way wrote, which are
    not copied; `others` are downstream offsets that other flows wrote; `shared` says that the target's own producers
    write there, so that every record the map does not know is somebody else's.
    """

    offset_map: OffsetMap
    start: int
    end: int
    downstream_start: int
    downstream_end: int
    quarantined: frozenset[int] = frozenset()
    compacted: bool = False
    echoes: Spans = field(default_factory=Spans)
    others: Spans = field(default_factory=Spans)
    shared: bool = False
    beyond: Spans = field(default_factory=Spans)
    lost: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The beginning of a record's fields as people read them: text where it is text, hex where it is not."""

    key: str | None
    value: str | None
    headers: tuple[tuple[str, str | None], ...]
    timestamp: int


@dataclass(frozen=True, slots=True)
class Difference:
    """One record that is not equal.

    `kind` is the first field that differs, `fields` are all of them.  `upstream_offset` is None for an extra
    record that no source record belongs to; `downstream_offset` of a missing record is where the map says that
    its copy stands, None when it says nothing.
    """

    kind: DifferenceKind
    upstream_offset: int | None
    downstream_offset: int | None
    message: str
    fields: tuple[str, ...] = ()
    source: Excerpt | None = None
    target: Excerpt | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of a scope.

    `records` are the copied records of the scope that were looked at; `equal_bytes` of them are equal as whole
    batches, `equal_records` one by one, and `superseded` are gone on one side by compaction, rightly.
    `differences` holds the first of them in order, `counts` all of them by kind.  `others` counts records on the
    target that others wrote to a shared topic; they are none of `records`.
    """

    records: int = 0
    equal_bytes: int = 0
    equal_records: int = 0
    superseded: int = 0
    unproved: tuple[UnprovedSpan, ...] = ()
    differences: tuple[Difference, ...] = ()
    counts: Mapping[DifferenceKind, int] = field(default_factory=dict)
    others: int = 0

    @property
    def equal(self) -> bool:
        """Whether no difference was found; what could not be proved is in `unproved`."""
        return not self.counts

    @property
    def difference_count(self) -> int:
        """All differences, listed or not."""
        return sum(self.counts.values())
