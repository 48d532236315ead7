"""Ledger records about topics as they live: lives, where copies begin, gaps, pauses, deletions, rebuilds.

Offsets are upstream unless they say otherwise, times are epoch ms.  `topic_id` is the source topic's life, base64
as Kafka prints it: offsets of two lives of a topic are different offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar

from twinlog.formats.ledger.entry import LedgerEntry


class GapCause(StrEnum):
    """Why upstream offsets can no longer be copied."""

    RETENTION = "retention"
    DELETE_RECORDS = "delete-records"
    TRUNCATION = "truncation"
    RECREATED = "recreated"
    QUARANTINE = "quarantine"


class IncarnationReason(StrEnum):
    """Why a life is the one that is copied now."""

    FIRST_SEEN = "first-seen"
    APPEND = "append"
    NEW_INCARNATION = "new-incarnation"
    REBUILD = "rebuild"


class RebuildPhase(StrEnum):
    """How far a rebuild has come; each step can be repeated."""

    DELETING = "deleting"
    COPYING = "copying"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Incarnation(LedgerEntry):
    """One life of a source topic: `topic_id` was first seen at `since_ms` and goes to `remote_topic`.

    The one with the highest `number` is copied now, and stored progress is its progress.  `remote_topic_id` is the
    life of the copy it goes into, "" where an older release wrote the record; `source_cluster_id` the cluster it
    was seen on.
    """

    KIND: ClassVar[str] = "incarnation"
    IDENTITY: ClassVar[tuple[str, ...]] = ("topic", "topic_id")
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
    """Where the copy of each partition of a life begins, by partition number as text.

    Noted when a topic is copied for the first time.  Nothing was promised about what lies before: the source had
    deleted it (`log_starts` is then the same), or `consumer.auto.offset.reset=latest` leaves it out.  A partition
    that is not listed was added later, and begins at its first record.  `into_empty`: the copy held no record then, so
    that nothing from before `log_starts` is in it, as MM2 may have left in one that is taken over.
    """

    KIND: ClassVar[str] = "beginning"
    IDENTITY: ClassVar[tuple[str, ...]] = ("topic", "topic_id")
    topic: str
    topic_id: str
    offsets: Mapping[str, int]
    log_starts: Mapping[str, int]
    at_ms: int
    into_empty: bool = False


@dataclass(frozen=True, slots=True)
class LeaderEpoch(LedgerEntry):
    """The source's leader epoch of the last copied batch at or after upstream offset `since_offset` (KIP-101).

    Where progress ends in a hole, of the batch behind the hole.  What the source's log says about this epoch tells
    whether it still holds what was copied from it.
    """

    KIND: ClassVar[str] = "leader-epoch"
    IDENTITY: ClassVar[tuple[str, ...]] = ("topic", "topic_id", "partition")
    topic: str
    topic_id: str
    partition: int
    epoch: int
    since_offset: int


@dataclass(frozen=True, slots=True)
class Gap(LedgerEntry):
    """Upstream offsets first_offset..last_offset (both lost) that can no longer be copied.

    `records_estimate` is at most how many records they held.  The lost records lie between `first_ms` (timestamp of
    the last record copied before them) and `last_ms` (of the first one left behind them), where these are known.
    With `copied_past` the copy goes on behind the gap (`twinlog.on.gap=record-and-continue`); without it the
    partition is stopped in front of it.  `grown_ms` is when it was last found to be longer than before, None when it
    never was.

    Cause `truncation` is the other way round: the source acknowledged these offsets, they were copied, and the
    source has lost them; the copy still holds them.  Cause `recreated`: they ended with the topic's life.
    """

    KIND: ClassVar[str] = "gap"
    IDENTITY: ClassVar[tuple[str, ...]] = ("topic", "topic_id", "partition", "first_offset")
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


@dataclass(frozen=True, slots=True)
class GapAcknowledged(LedgerEntry):
    """`by` answers for going on without the records of a gap, or a quarantined one, for `reason`.

    The gap is the one that begins at `first_offset`; what of it lies behind `last_offset` is not acknowledged.
    """

    KIND: ClassVar[str] = "gap-acknowledged"
    IDENTITY: ClassVar[tuple[str, ...]] = ("topic", "topic_id", "partition", "first_offset")
    topic: str
    topic_id: str
    partition: int
    first_offset: int
    last_offset: int
    reason: str
    by: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class TopicPause(LedgerEntry):
    """The source topic is not copied since `since_ms`; `by` whom and for what `reason`.  Forgotten by a resume."""

    KIND: ClassVar[str] = "topic-pause"
    IDENTITY: ClassVar[tuple[str, ...]] = ("topic",)
    topic: str
    since_ms: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeletedTopic(LedgerEntry):
    """The source topic was first found to be gone at `first_seen_ms`; its copy is an orphan.

    Forgotten when the topic is there again, and when all that is known of it is (`twinlog forget`,
    `twinlog.on.deleted.both`).  `copy_gone_ms` is when the copy was first missed as well, 0 while it is there, or
    nobody looked.
    """

    KIND: ClassVar[str] = "deleted-topic"
    IDENTITY: ClassVar[tuple[str, ...]] = ("topic",)
    topic: str
    topic_id: str
    remote_topic: str
    first_seen_ms: int
    copy_gone_ms: int = 0


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """Where a group of the target stood on one partition of a copy that is rebuilt.

    `upstream` is the exact upstream offset it would have read next, None where the map could not tell: then
    nothing is committed for it.  `downstream` is what it had committed on the old copy.
    """

    group: str
    partition: int
    downstream: int
    upstream: int | None
    restored: bool = False

    @property
    def awaited(self) -> bool:
        """Whether it is still to be committed on the new copy."""
        return self.upstream is not None and not self.restored


@dataclass(frozen=True, slots=True)
class Rebuild(LedgerEntry):
    """The copy of a topic is deleted and made anew; only the newest rebuild of a topic is kept.

    While `phase` is deleting nothing is copied into it.  `old_remote_topic_id` is the life of the copy that goes,
    "" when it was gone already.  `configs` are the topic's own settings on the target, set again on the new one.
    `request` names what asked for it, so that asking again does not rebuild again; `joined` are requests that found
    it under way and went on with it.
    """

    KIND: ClassVar[str] = "rebuild"
    IDENTITY: ClassVar[tuple[str, ...]] = ("topic",)
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
        """Whether it was made for this request ("": none) among others."""
        return bool(request) and request in {self.request, *self.joined}

    def joined_by(self, request: str) -> Rebuild:
        """Return it with a request that goes on with it noted."""
        if not request or self.asked_by(request):
            return self
        return replace(self, joined=(*self.joined, request))
