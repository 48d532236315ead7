"""Define the ledger records about topics: incarnations, beginnings, lost ranges, pauses, deletions, rebuilds.

Offsets are upstream unless stated otherwise; times are epoch ms.  `topic_id` is the source topic's incarnation, base64
as Kafka prints it: the same offset in two incarnations of a topic is two different offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.kafka_types import OfIncarnation


class GapCause(StrEnum):
    """Name why upstream offsets can no longer be copied."""

    RETENTION = "retention"
    DELETE_RECORDS = "delete-records"
    TRUNCATION = "truncation"
    RECREATED = "recreated"
    QUARANTINE = "quarantine"
    OFFSETS_ALTERED = "offsets-altered"


LEFT_BY_A_PERSON = frozenset({GapCause.OFFSETS_ALTERED, GapCause.QUARANTINE})
"""Causes of ranges that a person left without copies; the source may hold them."""


class IncarnationReason(StrEnum):
    """Name why an incarnation is the one that is copied now."""

    FIRST_SEEN = "first-seen"
    APPEND = "append"
    NEW_INCARNATION = "new-incarnation"
    REBUILD = "rebuild"


class RebuildPhase(StrEnum):
    """Name how far a rebuild has come; each step can be repeated."""

    DELETING = "deleting"
    COPYING = "copying"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Incarnation(LedgerEntry):
    """One incarnation of a source topic: `topic_id` was first seen at `since_ms` and is copied to `remote_topic`.

    The incarnation with the highest `number` is copied now, and stored progress is its progress.  `remote_topic_id` is
    the incarnation of its copy, "" if an older release wrote the record.  `source_cluster_id` is the cluster on which
    it was seen.
    """

    KIND = "incarnation"
    IDENTITY = ("topic", "topic_id")
    topic: str
    topic_id: str
    since_ms: int
    remote_topic: str
    remote_topic_id: str = ""
    source_cluster_id: str = ""
    number: int = 1
    reason: IncarnationReason = IncarnationReason.FIRST_SEEN


@dataclass(frozen=True, slots=True)
class Beginning(LedgerEntry):
    """The offset at which the copy of each partition of an incarnation begins, by partition number as text.

    Written when a topic is copied for the first time.  Earlier offsets were never promised: the source had deleted
    them (`log_starts` is then the same), or `consumer.auto.offset.reset=latest` leaves them out.  A partition that is
    not listed was added later, and begins at its first record.  `into_empty`: the copy held no record then, so it has
    no record from before `log_starts`; a copy migrated from MM2 may have some.
    """

    KIND = "beginning"
    IDENTITY = ("topic", "topic_id")
    topic: str
    topic_id: str
    offsets: Mapping[str, int]
    log_starts: Mapping[str, int]
    at_ms: int
    into_empty: bool = False


@dataclass(frozen=True, slots=True)
class LeaderEpoch(OfIncarnation, LedgerEntry):
    """The source's leader epoch of the last copied batch at or after upstream offset `since_offset` (KIP-101).

    If progress ends in an offset gap, this is the epoch of the batch behind the gap.  The source's answer about this
    epoch tells whether its log still holds what was copied from it.
    """

    KIND = "leader-epoch"
    IDENTITY = ("topic", "topic_id", "partition")
    topic: str
    topic_id: str
    partition: int
    epoch: int
    since_offset: int


@dataclass(frozen=True, slots=True)
class CopiedThrough(OfIncarnation, LedgerEntry):
    """Records from upstream offset `since_offset` on are copied through the chain of transforms with this print.

    "" is the print of no transforms.  Only the newest is kept: of records before `since_offset` nothing is known but
    that their chain may have been another one.  A partition without this record was always copied without transforms.
    """

    KIND = "copied-through"
    IDENTITY = ("topic", "topic_id", "partition")
    topic: str
    topic_id: str
    partition: int
    print: str
    since_offset: int


@dataclass(frozen=True, slots=True)
class Gap(OfIncarnation, LedgerEntry):
    """A lost range: upstream offsets first_offset..last_offset (both lost) that can no longer be copied.

    `records_estimate` is an upper bound of the records in it.  The lost records lie between `first_ms` (timestamp of
    the last record copied before them) and `last_ms` (timestamp of the first record left behind them), where known.
    With `copied_past` the copy goes on behind the range (`twinlog.on.gap=record-and-continue`); without it the
    partition is stopped in front of it.  `grown_ms` is when the range was last found to be longer than before, None if
    it never was.

    Cause `truncation` means the reverse: the source acknowledged these offsets, they were copied, and the source has
    lost them; the copy still holds them, with `copied_past` from downstream offset `kept_from` to `kept_end`, if that
    is known: the map has forgotten them.  Cause `recreated`: they ended with the topic's incarnation.  Cause
    `offsets-altered`: a person moved the copy on behind them, and the source may still hold them.  Cause `quarantine`:
    a damaged batch, whose bytes a person let be written aside.
    """

    KIND = "gap"
    IDENTITY = ("topic", "topic_id", "partition", "first_offset")
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    cause: GapCause
    at_ms: int
    records_estimate: int
    topic_id: str = ""
    first_ms: int | None = None
    last_ms: int | None = None
    copied_past: bool = False
    grown_ms: int | None = None
    kept_from: int | None = None
    kept_end: int | None = None


@dataclass(frozen=True, slots=True)
class GapAcknowledged(OfIncarnation, LedgerEntry):
    """`by` accepts that the copy goes on without the records of a lost range, or a quarantined one, for `reason`.

    The range is the one that begins at `first_offset`; the part of it behind `last_offset` is not acknowledged.
    """

    KIND = "gap-acknowledged"
    IDENTITY = ("topic", "topic_id", "partition", "first_offset")
    topic: str
    topic_id: str
    partition: int
    first_offset: int
    last_offset: int
    reason: str
    by: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class OffsetsAltered(OfIncarnation, LedgerEntry):
    """A person moved the copy of a partition from upstream offset `from_offset` to `to_offset`, the next to be copied.

    `by` names the person, `reason` is theirs, `run_id` the fence behind which it was written.
    """

    KIND = "offsets-altered"
    IDENTITY = ("topic", "topic_id", "partition", "at_ms")
    topic: str
    topic_id: str
    partition: int
    at_ms: int
    from_offset: int
    to_offset: int
    by: str
    reason: str
    run_id: str


@dataclass(frozen=True, slots=True)
class TopicPause(LedgerEntry):
    """The source topic is not copied since `since_ms`, paused `by` a person for `reason`.  A resume forgets it."""

    KIND = "topic-pause"
    IDENTITY = ("topic",)
    topic: str
    since_ms: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeletedTopic(LedgerEntry):
    """The source topic was first found to be gone at `first_seen_ms`; its copy is an orphan.

    The record is forgotten when the topic exists again, and when everything known of the topic is forgotten (`twinlog
    topics forget`).
    """

    KIND = "deleted-topic"
    IDENTITY = ("topic",)
    topic: str
    topic_id: str
    remote_topic: str
    first_seen_ms: int


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """The position of a group of the target on one partition of a copy that is rebuilt.

    `upstream` is the exact upstream offset that the group would have read next; None if the map could not tell, and
    then nothing is committed for the group.  `downstream` is the offset that it had committed on the old copy.
    """

    group: str
    partition: int
    downstream: int
    upstream: int | None
    restored: bool = False

    @property
    def awaited(self) -> bool:
        """Say whether the position is still to be committed on the new copy."""
        return self.upstream is not None and not self.restored


@dataclass(frozen=True, slots=True)
class Rebuild(LedgerEntry):
    """The copy of a topic is deleted and recreated; only the newest rebuild of a topic is kept.

    While `phase` is deleting, nothing is copied into it.  `old_remote_topic_id` is the incarnation of the old copy, ""
    if it was gone already.  `configs` are the topic's own settings on the target, which are set again on the new copy.
    `request` names the request for the rebuild, so that repeating the request does not rebuild again.  `joined` are
    requests that found the rebuild under way and continued it.
    """

    KIND = "rebuild"
    IDENTITY = ("topic",)
    topic: str
    topic_id: str
    remote_topic: str
    old_remote_topic_id: str
    phase: RebuildPhase
    by: str
    reason: str
    at_ms: int
    configs: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[GroupPosition, ...] = ()
    request: str = ""
    joined: tuple[str, ...] = ()

    def asked_by(self, request: str) -> bool:
        """Say whether the rebuild was made for, or joined by, this request; False for ""."""
        return bool(request) and request in {self.request, *self.joined}

    def joined_by(self, request: str) -> Rebuild:
        """Return the rebuild with a request noted that continues it."""
        if not request or self.asked_by(request):
            return self
        return replace(self, joined=(*self.joined, request))
