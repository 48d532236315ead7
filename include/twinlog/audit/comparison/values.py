"""Define what an audit looks at and what it answers: frozen values.

Offsets called upstream are on the source, downstream on the target; ends are exclusive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twinlog.formats.ledger.audit import DifferenceKind, UnprovedSpan
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.spans import Spans
from twinlog.transforms.chain import NO_CHAIN, Chain

LISTED = 100
"""Differences of one partition that are listed; all are counted."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Tell what is compared: upstream [start, end) with downstream [downstream_start, downstream_end).

    Every record of either range must have its counterpart by `offset_map`, which is exact there.  `quarantined` are
    upstream offsets that were left out on purpose, `left_out` stretches of them.  `compacted` says that either side may
    have dropped records that have a later record with the same key.  `beyond` are downstream offsets of copies whose
    source records are known to be gone: only foreign records between those copies are checked.  `lost` are upstream
    stretches that were copied but whose part of the map was lost: a record in them without counterpart is missing.
    `chain` is what the copy made of each record of `source`.

    In a topic with other writers: `loopback` are upstream offsets of loopback records, which the reverse flow wrote and
    which are not copied.  `others` are downstream offsets that other flows wrote.  `shared` says that the target's own
    producers write there, so every record that the map does not know is a foreign record.
    """

    offset_map: OffsetMap
    start: int
    end: int
    downstream_start: int
    downstream_end: int
    quarantined: frozenset[int] = frozenset()
    left_out: tuple[tuple[int, int], ...] = ()
    compacted: bool = False
    loopback: Spans = field(default_factory=Spans)
    others: Spans = field(default_factory=Spans)
    shared: bool = False
    beyond: Spans = field(default_factory=Spans)
    lost: tuple[tuple[int, int], ...] = ()
    chain: Chain = NO_CHAIN

    def has_no_copy(self, offset: int) -> bool:
        """Say whether an upstream offset was left out on purpose: the ledger tells of it, not the audit."""
        return offset in self.quarantined or any(first <= offset < end for first, end in self.left_out)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The beginning of a record's fields for people to read: as text if printable, else as hex."""

    key: str | None
    value: str | None
    headers: tuple[tuple[str, str | None], ...]
    timestamp: int


@dataclass(frozen=True, slots=True)
class Difference:
    """One record that is not equal.

    `kind` is the first field that differs, `fields` are all of them.  `upstream_offset` is None for an extra record
    without a source record.  `downstream_offset` of a missing record is where the map puts its copy, None if the map
    does not say.
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
    """The result of comparing a scope.

    `records` are the copied records of the scope that were looked at.  Of these `equal_bytes` are equal as whole
    batches and `equal_records` as records; `superseded` are rightly gone on one side by compaction.  `differences`
    holds the first differences in order, `counts` all of them by kind.  `others` counts foreign records on the target
    in a shared topic; they are not part of `records`.
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
        """Say whether no difference was found; what could not be proved is in `unproved`."""
        return not self.counts

    @property
    def difference_count(self) -> int:
        """Count all differences, listed or not."""
        return sum(self.counts.values())
