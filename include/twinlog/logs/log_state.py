"""What the records of a compacted topic come to, transactions resolved by their markers: bytes in, values out.  Pure.

A transactional batch counts when its producer's next marker says COMMIT.  A transaction without a marker is not
committed (`twinlog.logs.log_reader` says why it is read at all).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from twinlog.batches.aborted import is_abort_marker
from twinlog.batches.record import Headers, key_value_headers, read_records
from twinlog.protocol.verified import walk_verified


@dataclass(frozen=True, slots=True)
class LogState:
    """What a compacted topic says.

    `committed`: latest committed value by key, tombstoned keys left out.  `overshadowed`: keys whose newest
    record of all was not committed, with their committed value (None: there is none); readers that ignore
    transactions, as MM2 does by default, see the wrong value for these.  `undecided`: keys with a record whose
    transaction has no end in the log, and the newest such record.  `headers`: those of the latest committed values, of
    keys that have some.
    """

    committed: Mapping[bytes, bytes]
    overshadowed: Mapping[bytes, bytes | None]
    undecided: Mapping[bytes, UndecidedRecord] = field(default_factory=dict)
    headers: Mapping[bytes, Headers] = field(default_factory=dict)


class UndecidedRecord(NamedTuple):
    """A record whose transaction has no end in the log: who wrote it, its value (None: a tombstone), where."""

    producer_id: int
    value: bytes | None
    partition: int
    offset: int = -1


class KeptRecord(NamedTuple):
    """The latest committed record of a key: its offset, value (None: a tombstone), timestamp (ms), and headers."""

    offset: int
    value: bytes | None
    timestamp: int
    partition: int
    headers: Headers = ()


_NOTHING = KeptRecord(-1, None, -1, -1)


@dataclass(slots=True)
class Resolver:
    """Resolves one partition: values wait per producer until a marker decides them.

    Latest means by offset, not by time of commit, so each key keeps the offset of its value.  `newest` is the offset of
    the newest record of all; not kept without `sees_all`, when nobody asks what is overshadowed.  `epoch` is the leader
    epoch of the last batch, -1 before the first; `start` the log start as it was seen last.
    """

    partition: int
    committed: dict[bytes, KeptRecord] = field(default_factory=dict)
    newest: dict[bytes, int] = field(default_factory=dict)
    undecided: dict[int, list[tuple[bytes, KeptRecord]]] = field(default_factory=dict)
    sees_all: bool = True
    deleted: set[bytes] = field(default_factory=set)
    epoch: int = -1
    start: int = 0

    def forget(self) -> None:
        """Know nothing again."""
        self.epoch = -1
        self.committed, self.newest, self.undecided, self.deleted = {}, {}, {}, set()

    def forget_before(self, start: int) -> None:
        """Drop keys whose record lies before the log start: reading from the beginning does not find them."""
        if start > self.start:
            self.start = start
            gone = [key for key, kept in self.committed.items() if kept.offset < start]
            for key in gone:
                del self.committed[key]
            self.newest = {key: offset for key, offset in self.newest.items() if offset >= start}
            self.deleted.difference_update(gone)

    def forget_deleted(self) -> None:
        """Drop keys whose last word is a tombstone: a topic that is read for weeks has many times more than it holds.

        Not those with a record that is undecided, which may be older than the tombstone, or whose newest was aborted.
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

        Raises FormatError for damage: what was taken by then says nothing, and is to be forgotten.
        """
        for header, batch in walk_verified(block):
            if header.last_offset < position:
                continue
            position, self.epoch = header.next_offset, header.leader_epoch
            if header.control:
                self._decide(header.producer_id, commit=not is_abort_marker(header, batch))
                continue
            for record in read_records(header, batch):
                if record.offset < self.start:  # of a batch that straddles the log start
                    continue
                key, value, headers = key_value_headers(record.rest)
                if key is None:
                    continue
                if self.sees_all:
                    self.newest[key] = record.offset
                kept = KeptRecord(record.offset, value, record.timestamp, self.partition, headers)
                if header.transactional:
                    self.undecided.setdefault(header.producer_id, []).append((key, kept))
                else:
                    self._keep(key, kept)
        return position

    def _decide(self, producer_id: int, *, commit: bool) -> None:
        for key, record in self.undecided.pop(producer_id, ()):
            if commit:
                self._keep(key, record)

    def _keep(self, key: bytes, record: KeptRecord) -> None:
        if self.committed.get(key, _NOTHING).offset < record.offset:
            self.committed[key] = record
            if record.value is None:
                self.deleted.add(key)


def state_of(resolvers: Collection[Resolver]) -> LogState:
    """Join what the partitions of a topic say."""
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
