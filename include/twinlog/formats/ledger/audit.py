"""Define the ledger records of an audit: its findings and the proved part of a partition.

Upstream offsets are on the source, downstream offsets on the target; ends are exclusive.  No record's content is kept
here, only its offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.kafka_types import OfIncarnation

KEPT_DIFFERENCES = 50
"""The most differences that a ledger record names; `difference_count` counts all of them."""

KEPT_SPANS = 100
"""The most unproved spans that a ledger record names; further spans are joined into the last one."""


class DifferenceKind(StrEnum):
    """Name how a record of the copy differs from its source."""

    MISSING = "missing"
    EXTRA = "extra"
    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"
    ORDER = "order"


class Unproved(StrEnum):
    """Name why copied records could not be compared."""

    SOURCE_RETENTION = "source-retention"
    TARGET_RETENTION = "target-retention"
    DELETED_EARLY = "deleted-early"
    COMPACTED = "compacted"
    NO_MAP = "no-map"
    MAP_LOST = "map-lost"
    RECREATED = "recreated"
    UNREADABLE = "unreadable"
    DISPLACED = "displaced"
    UNFINISHED = "unfinished"
    OTHER_CHAIN = "other-chain"


@dataclass(frozen=True, slots=True)
class UnprovedSpan:
    """Upstream offsets [start, end) with `records` copied records of which nothing could be proved, and why."""

    start: int
    end: int
    records: int
    reason: Unproved


@dataclass(frozen=True, slots=True)
class FoundDifference:
    """One record that is not equal.

    `upstream_offset` is None for an extra record.  `downstream_offset` is None for a missing record that was never
    copied; for another missing record it is the offset at which the map places its copy.
    """

    kind: DifferenceKind
    upstream_offset: int | None
    downstream_offset: int | None


@dataclass(frozen=True, slots=True)
class PartitionAudit(OfIncarnation, LedgerEntry):
    """The findings of audits about upstream offsets [start, end) of one partition; newest for its topic's incarnation.

    The next incremental audit continues at `end` upstream and `downstream_end` downstream, as long as
    `remote_topic_id` is the copy's.  `records` counts records that were compared or could not be.  Of these,
    `equal_bytes` were proved equal as whole batches, `equal_records` one by one.  `at_ms` is when `end` was reached.
    """

    KIND = "audit"
    IDENTITY = ("topic", "topic_id", "partition")
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
        """Return the number of records proved equal."""
        return self.equal_bytes + self.equal_records
