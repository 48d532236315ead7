"""What the relay does with each batch of a fetched block: pass it on, rewrite it, or leave it out.

| batch from the source                           | outcome                                                   |
|-------------------------------------------------|-----------------------------------------------------------|
| dense, CreateTime, whole, fits                  | passed on as it is; only its header will be relabelled    |
| very small                                      | merged with its neighbours                                |
| begun or ended in the middle of the range       | rewritten from/to there                                   |
| with offset gaps (compacted topics)             | rewritten densely; the map gets one run per stretch       |
| LogAppendTime, or with a delete horizon         | rewritten with the timestamps a consumer sees             |
| larger than the target's max.message.bytes      | split; one record that does not fit is poison             |
| control batch, aborted, or emptied              | not copied: a hole in the map, not a gap                  |

Pure: blocks in, outgoing batches out.  Invariant: the stretches of all outgoing batches, in order, are exactly
the upstream offsets below `Cut.next_upstream` that hold a copyable record, each once, ascending.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from twinlog.errors import FormatError
from twinlog.relay.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    walk_headers,
)
from twinlog.relay.codec import GZIP, LZ4, NONE, SNAPPY, ZSTD
from twinlog.relay.columns import LARGEST_PREFIX, Columns, build_columns, read_columns
from twinlog.relay.rewrite import read_records

BATCH_COST = 25.0
"""Microseconds that one more batch costs us on its way: relabelling, its share of a request, its answer."""

MERGE_COST = {
    NONE: (0.7, 0.0004),
    GZIP: (0.7, 0.03),
    SNAPPY: (0.7, 0.01),
    LZ4: (0.7, 0.01),
    ZSTD: (0.7, 0.02),
}
"""By codec, microseconds per record and per byte that merging costs instead."""

REWRITTEN_BYTES = 512 * 1024
"""Records gathered for one rewritten batch, uncompressed; keeps the memory of a merge small."""

COMPRESSED_RUN_BYTES = 128 * 1024
"""Compressed batches rewritten together."""


@dataclass(slots=True)
class Outgoing:
    """One batch ready to be relabelled and sent.

    `stretches` are (first upstream offset, length) of the records in it; together they hold `header.record_count`.
    `buffer` is writable.
    """

    buffer: memoryview
    header: BatchHeader
    stretches: tuple[tuple[int, int], ...]
    rewritten: bool = False


@dataclass(slots=True)
class Poison:
    """Where a partition cannot go on: upstream offset, why, and a stable code.

    A record the target cannot hold, or a batch that cannot be read.
    """

    offset: int
    reason: str
    code: str = "poison-record"


@dataclass(slots=True)
class Cut:
    """What became of one fetched block: batches to send, the position behind it, and poison met on the way.

    With `poison` set, `next_upstream` is the poisonous record's offset: nothing behind it was looked at.
    """

    outgoing: list[Outgoing]
    next_upstream: int
    poison: Poison | None = None


@dataclass(slots=True)
class AbortedTransactions:
    """The aborted transactions a fetch reported: (producer id, first upstream offset), applied in offset order.

    Built anew for each fetched block, as brokers repeat the list with every fetch that overlaps it; state kept
    over fetches would be wrong after a seek.  Source: KIP-98, "Fetching only committed data".
    """

    pending: list[tuple[int, int]]
    active: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, reported: Collection[tuple[int, int]]) -> AbortedTransactions:
        """Take (producer id, first offset) pairs in any order."""
        return cls(sorted(reported, key=lambda item: item[1], reverse=True))

    def hides(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether `header`'s batch belongs to an aborted transaction.  Call once per batch, in offset order."""
        while self.pending and self.pending[-1][1] <= header.last_offset:
            self.active.add(self.pending.pop()[0])
        if header.control:
            if header.producer_id in self.active and is_abort_marker(header, batch):
                self.active.discard(header.producer_id)
            return True
        return header.transactional and header.producer_id in self.active


def is_abort_marker(header: BatchHeader, batch: memoryview) -> bool:
    """Whether a control batch is an ABORT marker: its key is int16 version, int16 type (0 abort, 1 commit)."""
    for record in read_records(header, batch):
        # key length varint (one byte: 8), version, type
        return bytes(record.rest[3:5]) == b"\x00\x00"
    return False


@dataclass(slots=True)
class Cutter:
    """How one partition's blocks are cut: its range's end, the target's limit, and offsets to leave out.

    `excluded` are upstream offsets and why they are left out; with `quarantine` the cutter adds to them.
    """

    end: int
    max_message_bytes: int
    quarantine: bool = False
    excluded: dict[int, str] = field(default_factory=dict)

    def cut(self, block: memoryview, position: int, aborted: AbortedTransactions | None) -> Cut:
        """Turn one fetched block into outgoing batches, from upstream offset `position` on.

        `aborted` None means read_uncommitted: aborted records are copied like any other, markers never are.
        """
        done = Cut([], position)
        run = _Run()
        try:
            for header, batch_start in walk_headers(block):
                if header.base_offset >= self.end:
                    position = self.end
                    break
                hidden = self._hidden(header, block, batch_start, aborted)
                if header.last_offset < position:
                    continue
                if header.record_count and not hidden:
                    if not run.takes(header) and not self._flush(run, block, done):
                        return done
                    clean = self._clean(header, position)
                    if clean and not worth_merging(header):
                        if not self._flush(run, block, done):
                            return done
                        done.outgoing.append(_as_it_is(block, batch_start, header))
                    else:
                        run.add(header, batch_start, position, clean=clean)
                position = min(header.next_offset, self.end)
        except FormatError as error:
            if self._flush(run, block, done):
                done.next_upstream, done.poison = position, Poison(position, error.message, error.code)
            return done
        if self._flush(run, block, done):
            done.next_upstream = position
        return done

    def _hidden(
        self, header: BatchHeader, block: memoryview, start: int, aborted: AbortedTransactions | None
    ) -> bool:
        if aborted is None or not header.attributes & (TRANSACTIONAL | CONTROL):
            return header.control
        return aborted.hides(header, block[start : start + header.size])

    def _clean(self, header: BatchHeader, position: int) -> bool:
        return (
            not header.attributes & (LOG_APPEND_TIME | DELETE_HORIZON)
            and header.dense
            and header.base_offset >= position
            and header.next_offset <= self.end
            and header.size <= self.max_message_bytes
            and not (
                self.excluded
                and any(header.base_offset <= offset <= header.last_offset for offset in self.excluded)
            )
        )

    def _flush(self, run: _Run, block: memoryview, done: Cut) -> bool:
        """Send what the run holds, and empty it; return False when that met poison, which ends the cut."""
        bounds, run.bounds = run.bounds, []
        positions, run.positions = run.positions, []
        lone, run.lone, run.bytes = run.lone, None, 0
        if lone is not None and len(bounds) == 1:
            done.outgoing.append(_as_it_is(block, bounds[0][0], lone))
            return True
        if not bounds:
            return True
        try:
            records = read_columns(block, bounds)
        except FormatError as error:
            return self._up_to_the_bad_one(run, bounds, positions, block, done, error)
        poison = self._rewrite(records, positions[0], run.codec, done)
        if poison is not None:
            done.next_upstream, done.poison = poison.offset, poison
        return poison is None

    def _up_to_the_bad_one(
        self,
        run: _Run,
        bounds: list[tuple[int, int]],
        positions: list[int],
        block: memoryview,
        done: Cut,
        error: FormatError,
    ) -> bool:
        """Of a run that cannot be read, send the batches before the one at fault: all of it or none of each."""
        if len(bounds) == 1:
            done.next_upstream, done.poison = positions[0], Poison(positions[0], error.message, error.code)
            return False
        for index in range(len(bounds)):
            run.bounds, run.positions = bounds[index : index + 1], positions[index : index + 1]
            if not self._flush(run, block, done):
                return False
        return True

    def _rewrite(self, records: Columns, position: int, codec: int, done: Cut) -> Poison | None:
        """Build batches of the records of the range; stop before one that is too large."""
        chosen = (records.offsets >= position) & (records.offsets < self.end)
        if self.excluded:
            chosen &= ~np.isin(records.offsets, list(self.excluded))
        records = records if chosen.all() else records.where(chosen)
        poison = None
        large = records.sizes > self.max_message_bytes - HEADER_BYTES - LARGEST_PREFIX
        for index in np.flatnonzero(large):
            lone = records.where(slice(index, index + 1))
            if len(build_columns(lone, codec)) <= self.max_message_bytes:
                large[index] = False
                continue
            offset = int(records.offsets[index])
            reason = (
                f"{int(records.sizes[index])} bytes do not fit the target's"
                f" max.message.bytes={self.max_message_bytes}"
            )
            if not self.quarantine:
                poison, large[index:] = Poison(offset, reason), True
                break
            self.excluded[offset] = reason
        if large.any():
            records = records.where(~large)
        for chunk in _chunks(records, min(REWRITTEN_BYTES, self.max_message_bytes - HEADER_BYTES)):
            done.outgoing += self._fitting(chunk, codec)
        return poison

    def _fitting(self, chunk: Columns, codec: int) -> Iterator[Outgoing]:
        """Build one batch, or halve where compression did not help enough."""
        buffer = build_columns(chunk, codec)
        if len(buffer) > self.max_message_bytes and len(chunk) > 1:
            middle = len(chunk) // 2
            yield from self._fitting(chunk.where(slice(None, middle)), codec)
            yield from self._fitting(chunk.where(slice(middle, None)), codec)
            return
        header = BatchHeader._make(HEADER.unpack_from(buffer))
        yield Outgoing(buffer, header, chunk.stretches(), rewritten=True)


@dataclass(slots=True)
class _Run:
    """Batches of one codec waiting to be rewritten together: where they lie, and how far the copy was before each.

    `lone` is the header of the first one, while it could still be passed on as it is.
    """

    bounds: list[tuple[int, int]] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    lone: BatchHeader | None = None
    codec: int = 0
    bytes: int = 0

    def takes(self, header: BatchHeader) -> bool:
        """Whether a batch may join.  Decompressed, a run is in memory at once, so it is kept small."""
        return not self.bounds or (
            self.codec == header.codec and (not self.codec or self.bytes < COMPRESSED_RUN_BYTES)
        )

    def add(self, header: BatchHeader, start: int, position: int, *, clean: bool) -> None:
        """Add a batch."""
        self.lone = header if clean and not self.bounds else None
        self.codec = header.codec
        self.bytes += header.size
        self.bounds.append((start, start + header.size))
        self.positions.append(position)


def worth_merging(header: BatchHeader) -> bool:
    """Whether reading the batch's records and writing them anew costs less than sending it by itself.

    The costs were measured (docs/performance.md): per batch sent, per record rewritten, per byte copied and checked.
    """
    per_record, per_byte = MERGE_COST[header.codec]
    return header.record_count * per_record + header.size * per_byte < BATCH_COST


def _as_it_is(block: memoryview, start: int, header: BatchHeader) -> Outgoing:
    stretch = ((header.base_offset, header.record_count),)
    return Outgoing(block[start : start + header.size], header, stretch)


def _chunks(records: Columns, limit: int) -> Iterator[Columns]:
    """Cut records into pieces of at most `limit` bytes, and of at least one record."""
    behind = np.cumsum(records.sizes + LARGEST_PREFIX)
    start = done = 0
    while start < len(records):
        stop = max(int(np.searchsorted(behind, done + limit, "right")), start + 1)
        yield records.where(slice(start, stop))
        start, done = stop, int(behind[stop - 1])
