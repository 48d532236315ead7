"""The questions to a translation, and its answers: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

LARGEST = (1 << 63) - 1
"""The largest possible offset: Kafka's are signed 64-bit integers."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The next offset that a reader reads in a partition; `topic` is the name on the side the offset is from.

    `group` names the reader, if it is known.
    """

    topic: str
    partition: int
    offset: int
    group: str = ""


class Basis(StrEnum):
    """The basis of an answer: the exact map, MM2's offset-syncs (never exact), or nothing."""

    MAP = "map"
    OFFSET_SYNCS = "offset-syncs"
    NONE = "none"


class Reason(StrEnum):
    """Why there is no answer, or what is noteworthy about one."""

    NONE = ""
    NEGATIVE = "negative"
    UNKNOWN_TOPIC = "unknown-topic"
    UNKNOWN_PARTITION = "unknown-partition"
    RECREATED = "recreated"
    BEYOND_END = "beyond-end"
    MISSING_THERE = "missing-there"
    BEFORE_BEGINNING = "before-beginning"
    NOT_COPIED_YET = "not-copied-yet"
    NOT_MAPPED = "not-mapped"
    MAP_UNREADABLE = "map-unreadable"
    WAY_BACK_UNKNOWN = "way-back-unknown"


NO_COPY = frozenset({Reason.UNKNOWN_TOPIC, Reason.UNKNOWN_PARTITION, Reason.RECREATED, Reason.NOT_COPIED_YET})
"""Reasons for which no offset of a partition can be translated, whatever its number."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Where to go on at the other side.

    `topic` is the name on the target, `source_topic` the name on the source.  Offsets are the next ones to read; one
    of them is None if there is no answer.  `exact` says that the answer is the first record not yet read.  `ahead`
    says that the reader was beyond the copy and goes on at its end.  An answer that is not exact is early rather than
    late; with the reason WAY_BACK_UNKNOWN, that holds only for the records of this flow.  `again` is how many records
    may be read again at most, None if unknown.  `missing` is how many unread records at most are not on the other
    side, although the reader's own side may have them; no such answer is exact.  `reason` and `message` say why there
    is no answer, or what else is noteworthy.
    """

    group: str
    topic: str
    source_topic: str
    partition: int
    upstream_offset: int | None
    downstream_offset: int | None
    exact: bool = False
    ahead: bool = False
    again: int | None = None
    missing: int = 0
    basis: Basis = Basis.NONE
    reason: Reason = Reason.NONE
    message: str = ""

    @property
    def answered(self) -> bool:
        """Say whether both sides are known."""
        return self.upstream_offset is not None and self.downstream_offset is not None
