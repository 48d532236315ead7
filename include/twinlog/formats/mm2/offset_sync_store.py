"""Translate a committed offset as MM2 does: by at most 64 remembered syncs a partition (OffsetSyncStore).

Used to read syncs that MM2 wrote, where our exact map does not reach.  The same input gives MM2's answer, offset for
offset.  A translation is never too far ahead, and may be far too early.

The slots S[0..63] of a partition, with u(s) the upstream offset of a sync.  "Distinct" is a matter of identity: two
syncs with equal content are two syncs.

    A    S[0] is the newest sync
    B    u(S[i]) <= u(S[j]) + 2^j - 2^i         for i < j, S[i] and S[j] distinct: later slots may be older
    C    u(S[i]) >= u(S[j]) + 2^max(i-2, 0)     for i < j, S[i] and S[j] distinct: neighbours stand apart
    D    S[63] is the oldest sync that may be used

Arithmetic is Java's: 64 bits, signed, wrapping; a bound that wrapped around holds for B and not for C.
Source of the rule: org.apache.kafka.connect.mirror.OffsetSyncStore, Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twinlog.formats.mm2.records import OffsetSync
from twinlog.kafka_types import TopicPartition

SLOTS = 64
_SIGN = 1 << 63


@dataclass(frozen=True, slots=True)
class PartitionSyncs:
    """The slots of one partition; immutable: a new sync makes new slots."""

    slots: tuple[OffsetSync, ...]

    @classmethod
    def first(cls, sync: OffsetSync) -> PartitionSyncs:
        """Begin, or begin again, with one sync, which takes every slot."""
        return cls((sync,) * SLOTS)

    def then(self, newest: OffsetSync) -> PartitionSyncs:
        """Take the next sync; if its upstream offset went back, forget all earlier syncs."""
        if newest.upstream_offset < self.slots[0].upstream_offset:
            return PartitionSyncs.first(newest)
        return PartitionSyncs(_shifted(self.slots, newest))

    def translate(self, upstream: int) -> int | None:
        """Translate by the newest sync at or before `upstream`; add one if the group is behind the sync's record.

        None if the offset is too old: MM2 answers -1.
        """
        picked = next((slot for slot in self.slots if slot.upstream_offset <= upstream), None)
        return None if picked is None else picked.downstream_offset + int(upstream > picked.upstream_offset)


@dataclass(frozen=True, slots=True)
class OffsetSyncStore:
    """The syncs of all partitions of a flow, by (source topic, partition)."""

    partitions: Mapping[TopicPartition, PartitionSyncs]

    @classmethod
    def of(cls, syncs: Iterable[OffsetSync]) -> OffsetSyncStore:
        """Take the records of an offset-syncs topic in their order."""
        known: dict[TopicPartition, PartitionSyncs] = {}
        for sync in syncs:
            slots = known.get(sync.topic_partition)
            known[sync.topic_partition] = PartitionSyncs.first(sync) if slots is None else slots.then(sync)
        return cls(known)

    def translate(self, topic: str, partition: int, upstream: int) -> int | None:
        """Translate a committed upstream offset as MM2 would, None if it has no answer; `topic` is the source's."""
        slots = self.partitions.get(TopicPartition(topic, partition))
        return None if slots is None else slots.translate(upstream)


def recent(earlier: OffsetSync, later: OffsetSync, i: int, j: int) -> bool:
    """Say whether invariant B holds for `earlier` at slot i and `later` at slot j."""
    bound = _wrapped(later.upstream_offset + (1 << j) - (1 << i))
    return earlier is later or bound < 0 or earlier.upstream_offset <= bound


def apart(earlier: OffsetSync, later: OffsetSync, i: int) -> bool:
    """Say whether invariant C holds for `earlier` at slot i and `later` at any slot behind it."""
    bound = _wrapped(later.upstream_offset + (1 << max(i - 2, 0)))
    return earlier is later or 0 <= bound <= earlier.upstream_offset


def _shifted(old: tuple[OffsetSync, ...], newest: OffsetSync) -> tuple[OffsetSync, ...]:
    """Put `newest` in front; restore B slot by slot with the old syncs that keep C, and keep the tail if possible."""
    slots = list(old)
    slots[0] = replacement = newest
    at = 0
    for current in range(1, SLOTS):
        previous = current - 1
        while True:
            value = old[at]
            is_recent = recent(slots[previous], value, previous, current)
            apart_from_previous = apart(slots[previous], value, previous)
            apart_from_next = current + 1 == SLOTS or apart(value, slots[current + 1], current)
            duplicate = at + 1 < SLOTS and value is old[at + 1]
            promoted = is_recent and apart_from_previous and apart_from_next
            if promoted:
                replacement = value
            skip = duplicate or not apart_from_previous
            at += promoted or skip
            if at >= current or not skip:
                break
        if recent(slots[previous], slots[current], previous, current):
            break
        slots[current] = replacement
    return tuple(slots)


def _wrapped(number: int) -> int:
    """Wrap as Java's long does."""
    return (number + _SIGN) % (2 * _SIGN) - _SIGN
