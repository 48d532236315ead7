"""Records that compaction may have removed from one side: each needs a later record with its key.  Pure.

Compaction keeps the latest record of every key, and in the end drops a tombstone too.  Either side may be compacted
further than the other.  So a record without counterpart is no difference if its key occurs again later: both sides are
then compared by that later record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from twinlog.audit.comparison.record_fields import RawRecord, is_tombstone, key_of, records_of
from twinlog.logs.partition_reader import Item, Lost

MOST_AWAITED = 200_000
"""Keys remembered at once for each side: the limit of an audit's memory."""


@dataclass(slots=True)
class LastOffsets:
    """The last offset of each key of records that are not compared: one may have superseded a record that is.

    `all_kept` is false if there were more keys than are remembered.
    """

    latest: dict[bytes, int] = field(default_factory=dict)
    all_kept: bool = True

    def note(self, record: RawRecord) -> None:
        """Remember where a record's key stands last."""
        key = key_of(record.rest) or b""
        self.all_kept &= len(self.latest) < MOST_AWAITED or key in self.latest
        if self.all_kept:
            self.latest[key] = record.offset


@dataclass(frozen=True, slots=True)
class Awaited:
    """A record without counterpart: its upstream and downstream offset, and whether it is a tombstone."""

    upstream: int
    downstream: int
    tombstone: bool


@dataclass(slots=True)
class AwaitedKeys:
    """Keys that must occur again: of records missing on the target, and of records that only the target still has."""

    missing: dict[bytes, Awaited] = field(default_factory=dict)
    extra: dict[bytes, Awaited] = field(default_factory=dict)
    superseded: int = 0

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra)

    def seen(self, rest: bytes) -> None:
        """Note that the key of this record occurs on either side, within the compared range."""
        if self:
            key = key_of(rest) or b""
            self._found(self.missing, key)
            self._found(self.extra, key)

    def look_behind(self, source: Iterable[Item], target: Iterable[Item]) -> None:
        """Look for the keys after the compared range, on the side where each is needed."""
        self._look(self.missing, target)
        self._look(self.extra, source)

    def superseded_by(self, on_source: Mapping[bytes, int], on_target: Mapping[bytes, int]) -> None:
        """Explain missing records by other writers' later records of the same keys (key to last offset)."""
        for key in [key for key, it in self.missing.items() if on_target.get(key, -1) > it.downstream]:
            self._found(self.missing, key)
        for key in [key for key, it in self.extra.items() if on_source.get(key, -1) > it.upstream]:
            self._found(self.extra, key)

    def unresolved(self) -> Iterator[tuple[Awaited, bool]]:
        """Yield each key that did not occur again, and whether the target lacks it."""
        yield from ((awaited, True) for awaited in self.missing.values())
        yield from ((awaited, False) for awaited in self.extra.values())

    def wait(self, keys: dict[bytes, Awaited], rest: bytes, upstream: int, downstream: int) -> bool:
        """Remember a record with a key among `missing` or `extra`; return False if there is no room for it."""
        self.seen(rest)
        if len(keys) >= MOST_AWAITED:
            return False
        keys[key_of(rest) or b""] = Awaited(upstream, downstream, is_tombstone(rest))
        return True

    def _look(self, keys: dict[bytes, Awaited], items: Iterable[Item]) -> None:
        if not keys:
            return
        for item in items:
            if isinstance(item, Lost):
                continue
            for batch in item.batches():
                for record in records_of(*batch):
                    self._found(keys, key_of(record.rest) or b"")
            if not keys:
                return

    def _found(self, keys: dict[bytes, Awaited], key: bytes) -> None:
        if keys.pop(key, None) is not None:
            self.superseded += 1
