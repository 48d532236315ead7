"""Resolve the records of a compacted topic into its state, by the markers of their transactions.  Pure.

A transactional batch counts if its producer's next marker says COMMIT.  A transaction without a marker is not
committed (`twinlog.logs.log_reader` explains why open transactions are read at all).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from twinlog.batches.markers import is_abort_marker
from twinlog.batches.record import Headers, key_value_headers, read_records
from twinlog.kafka_types import ReadRecord
from twinlog.protocol.legacy import walk_verified


@dataclass(frozen=True, slots=True)
class LogState:
    """The state of a compacted topic.

    `committed`: latest committed value by key, without tombstoned keys.  `overshadowed`: keys whose newest record of
    all was not committed, with their committed value (None if there is none); readers that ignore transactions, as MM2
    does by default, see the wrong value for these.  `undecided`: keys with a record whose transaction has no end in
    the log, with the newest such record.  `headers`: headers of the latest committed values, for keys whose records
    have some.
    """

    committed: Mapping[bytes, bytes]
    overshadowed: Mapping[bytes, bytes | None]
    undecided: Mapping[bytes, UndecidedRecord] = field(default_factory=dict)
    headers: Mapping[bytes, Headers] = field(default_factory=dict)


class UndecidedRecord(NamedTuple):
    """A record whose transaction has no end in the log: its producer, its value (None: a tombstone), its place."""

    producer_id: int
    value: bytes | None
    partition: int
    offset: int = -1


_NOTHING = ReadRecord(-1, -1, None, None)


@dataclass(slots=True)
class Resolver:
    """Resolve one partition: values wait, by producer, until a marker decides them.

    The latest value is the one with the highest offset, not the one committed last, so each key keeps the offset of
    its value.  `newest` holds the offset of each key's newest record of all; without `sees_all` it is not kept, as it
    serves only to find overshadowed keys.  `epoch` is the leader epoch of the last batch, -1 before the first.
    `start` is the log start as it was last seen.
    """

    partition: int
    committed: dict[bytes, ReadRecord] = field(default_factory=dict)
    newest: dict[bytes, int] = field(default_factory=dict)
    undecided: dict[int, list[tuple[bytes, ReadRecord]]] = field(default_factory=dict)
    sees_all: bool = True
    deleted: set[bytes] = field(default_factory=set)
    epoch: int = -1
    start: int = 0

    def forget(self) -> None:
        """Forget everything read so far."""
        self.epoch = -1
        self.committed, self.newest, self.undecided, self.deleted = {}, {}, {}, set()

    def forget_before(self, start: int) -> None:
        """Drop keys whose record lies before the log start: reading from the beginning would not find them."""
        if start > self.start:
            self.start = start
            gone = [key for key, kept in self.committed.items() if kept.offset < start]
            for key in gone:
                del self.committed[key]
            self.newest = {key: offset for key, offset in self.newest.items() if offset >= start}
            self.deleted.difference_update(gone)

    def forget_deleted(self) -> None:
        """Drop keys whose latest record is a tombstone: over weeks a topic has many times more keys than live values.

        Keys with an undecided record stay, as that record may be older than the tombstone; so do keys whose newest
        record was aborted.
        """
        waiting = {key for records in self.undecided.values() for key, _ in records}
        for key in self.deleted - waiting:
            kept = self.committed[key]
            if kept.value is None and self.newest.get(key, kept.offset) > kept.offset:
                continue
            self.deleted.discard(key)
            if kept.value is None:
                del self.committed[key]
                self.newest.pop(key, None)

    def add(self, block: memoryview, position: int) -> int:
        """Take one fetched block; return the position behind it.

        Raises FormatError for damage; then everything taken so far is unreliable, and the caller must `forget` it.
        """
        for header, batch in walk_verified(block):
            if header.last_offset < position:
                continue
            position, self.epoch = header.next_offset, header.leader_epoch
            if header.control:
                self._decide(header.producer_id, commit=not is_abort_marker(header, batch))
                continue
            for record in read_records(header, batch):
                if record.offset < self.start:  # the batch begins before the log start
                    continue
                key, value, headers = key_value_headers(record.rest)
                if key is None:
                    continue
                if self.sees_all:
                    self.newest[key] = record.offset
                kept = ReadRecord(record.offset, record.timestamp, key, value, self.partition, headers)
                if header.transactional:
                    self.undecided.setdefault(header.producer_id, []).append((key, kept))
                else:
                    self._keep(key, kept)
        return position

    def _decide(self, producer_id: int, *, commit: bool) -> None:
        for key, record in self.undecided.pop(producer_id, ()):
            if commit:
                self._keep(key, record)

    def _keep(self, key: bytes, record: ReadRecord) -> None:
        if self.committed.get(key, _NOTHING).offset < record.offset:
            self.committed[key] = record
            if record.value is None:
                self.deleted.add(key)


def state_of(resolvers: Collection[Resolver]) -> LogState:
    """Join the states of a topic's partitions."""
    committed: dict[bytes, bytes] = {}
    overshadowed: dict[bytes, bytes | None] = {}
    headers: dict[bytes, Headers] = {}
    for resolver in resolvers:
        committed |= {key: it.value for key, it in resolver.committed.items() if it.value is not None}
        headers |= {key: it.headers for key, it in resolver.committed.items() if it.headers}
        for key, newest in resolver.newest.items():
            kept = resolver.committed.get(key, _NOTHING)
            if newest > kept.offset:
                overshadowed[key] = kept.value
    undecided = {
        key: UndecidedRecord(producer_id, record.value, record.partition, record.offset)
        for resolver in resolvers
        for producer_id, waiting in resolver.undecided.items()
        for key, record in waiting
    }
    return LogState(committed, overshadowed, undecided, headers)
