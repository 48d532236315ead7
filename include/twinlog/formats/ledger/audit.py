"""What an audit has proved of a partition, and what it found: ledger records (twinlog.formats.ledger.records).

Offsets called upstream are on the source, downstream on the target; ends are exclusive.  No record's content is kept
here, only where it stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from twinlog.formats.ledger.entry import LedgerEntry

KEPT_DIFFERENCES = 50
"""Differences a ledger record names; `difference_count` counts all of them."""

KEPT_SPANS = 100
"""Unproved spans a ledger record names; more are joined into the last one."""


class DifferenceKind(StrEnum):
    """How a record of the copy differs from its source."""

    MISSING = "missing"
    EXTRA = "extra"
    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"
    ORDER = "order"


class Unproved(StrEnum):
    """Why records that were copied could not be compared."""

    SOURCE_RETENTION = "source-retention"
    TARGET_RETENTION = "target-retention"
    COMPACTED = "compacted"
    NO_MAP = "no-map"
    MAP_LOST = "map-lost"
    RECREATED = "recreated"
    UNREADABLE = "unreadable"
    DISPLACED = "displaced"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class UnprovedSpan:
    """Upstream offsets [start, end) that hold `records` copied records nothing could be proved of, and why."""

    start: int
    end: int
    records: int
    reason: Unproved


@dataclass(frozen=True, slots=True)
class FoundDifference:
    """One record that is not equal.

    `upstream_offset` is None for an extra record, `downstream_offset` for a missing one that was never copied;
    for another missing record it is the place where the map says that its copy stands.
    """

    kind: DifferenceKind
    upstream_offset: int | None
    downstream_offset: int | None


@dataclass(frozen=True, slots=True)
class PartitionAudit(LedgerEntry):
    """What audits have made of upstream offsets [start, end) of one partition; newest for its life of the topic.

    The next incremental audit goes on at `end` upstream and `downstream_end` downstream, as long as
    `remote_topic_id` is the copy's.  `records` counts what was compared or could not be; of these `equal_bytes`
    were proved equal as whole batches, `equal_records` one by one.  `at_ms` is when `end` was reached.
    """

    KIND: ClassVar[str] = "audit"
    IDENTITY: ClassVar[tuple[str, ...]] = ("topic", "topic_id", "partition")
    topic: str
    topic_id: str
    partition: int
    remote_topic: str
    remote_topic_id: str
    start: int
    end: int
    downstream_end: int
    records: int
    equal_bytes: int
    equal_records: int
    unproved: tuple[UnprovedSpan, ...]
    difference_count: int
    differences: tuple[FoundDifference, ...]
    at_ms: int

    @property
    def proved(self) -> int:
        """Records proved equal."""
        return self.equal_bytes + self.equal_records


@dataclass(frozen=True, slots=True)
class SampleAudit(LedgerEntry):
    """The last sample of one partition: `share` of its copied records, chosen by `seed`; newest only.

    Fields as in PartitionAudit.  A sample adds nothing to what PartitionAudit has proved; its differences, and those of
    samples before it, stand until a PartitionAudit of a later time, which has compared these records or took them over.
    """

    KIND: ClassVar[str] = "audit-sample"
    IDENTITY: ClassVar[tuple[str, ...]] = ("topic", "topic_id", "partition")
    topic: str
    topic_id: str
    partition: int
    share: float
    seed: int
    records: int
    equal_bytes: int
    equal_records: int
    difference_count: int
    differences: tuple[FoundDifference, ...]
    at_ms: int
