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

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from twinlog.errors import FormatError
from twinlog.relay.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    walk,
)
from twinlog.relay.rewrite import Record, build_batch, read_records

MERGE_BELOW = 4
"""Batches of fewer records are merged: from there on a request per batch costs more than rewriting its records."""

REWRITTEN_BYTES = 512 * 1024
"""Records gathered for one rewritten batch, uncompressed; keeps the memory of a merge small."""


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
        made: list[Outgoing] = []
        gathered = _Gathered()
        poison = None
        try:
            for step in self._steps(block, position, aborted, made, gathered):
                if isinstance(step, Poison):
                    position, poison = step.offset, step
                    break
                position = step
        except FormatError as error:
            poison = Poison(position, error.message, error.code)
        made += self._flush(gathered)
        return Cut(made, position, poison)

    def _steps(
        self,
        block: memoryview,
        position: int,
        aborted: AbortedTransactions | None,
        made: list[Outgoing],
        gathered: _Gathered,
    ) -> Iterator[int | Poison]:
        """Walk the block; after each batch yield the position behind it, or the poison that ends the walk."""
        for header, batch in walk(block):
            if header.base_offset >= self.end:
                yield self.end
                return
            hidden = aborted.hides(header, batch) if aborted is not None else header.control
            if header.last_offset < position:
                continue
            if not hidden and header.record_count:
                if not gathered.takes(header):
                    made += self._flush(gathered)
                if not self._clean(header, position):
                    poison = self._gather(gathered, header, batch, position)
                    if poison is not None:
                        yield poison
                        return
                elif header.record_count < MERGE_BELOW:
                    gathered.add_clean(header, batch)
                else:
                    made += self._flush(gathered)
                    stretch = ((header.base_offset, header.record_count),)
                    made.append(Outgoing(batch, header, stretch))
                if gathered.bytes > REWRITTEN_BYTES:
                    made += self._flush(gathered)
            position = min(header.next_offset, self.end)
            yield position

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

    def _gather(
        self, gathered: _Gathered, header: BatchHeader, batch: memoryview, position: int
    ) -> Poison | None:
        """Add the batch's records within the range to `gathered`; stop before one that is too large."""
        limit = self.max_message_bytes - HEADER_BYTES - _RECORD_OVERHEAD
        # All of them first: a batch that cannot be read to its end must not go out in part.
        for record in list(read_records(header, batch)):
            if record.offset < position or record.offset in self.excluded:
                continue
            if record.offset >= self.end:
                break
            if len(record.rest) > limit and not self._fits_alone(record, header.codec):
                poison = Poison(
                    record.offset,
                    f"{len(record.rest)} bytes do not fit the target's max.message.bytes={self.max_message_bytes}",
                )
                if not self.quarantine:
                    return poison
                self.excluded[record.offset] = poison.reason
                continue
            gathered.add(record, header)
        return None

    def _fits_alone(self, record: Record, codec: int) -> bool:
        return len(build_batch([record], codec)) <= self.max_message_bytes

    def _flush(self, gathered: _Gathered) -> Iterator[Outgoing]:
        """Make what was gathered into batches, and empty it."""
        sources, gathered.sources = gathered.sources, []
        records, gathered.records = gathered.records, []
        gathered.bytes = 0
        if len(sources) == 1 and not records:
            header, batch = sources[0]
            stretch = ((header.base_offset, header.record_count),)
            return iter([Outgoing(batch, header, stretch)])
        for header, batch in sources:
            records.extend(read_records(header, batch))
        if not records:
            return iter(())
        return self._batches(records, gathered.codec)

    def _batches(self, records: Sequence[Record], codec: int) -> Iterator[Outgoing]:
        """Build as few batches as fit the target, halving where compression did not help enough."""
        for chunk in _chunks(records, min(REWRITTEN_BYTES, self.max_message_bytes - HEADER_BYTES)):
            yield from self._fitting(chunk, codec)

    def _fitting(self, chunk: Sequence[Record], codec: int) -> Iterator[Outgoing]:
        buffer = build_batch(chunk, codec)
        if len(buffer) > self.max_message_bytes and len(chunk) > 1:
            middle = len(chunk) // 2
            yield from self._fitting(chunk[:middle], codec)
            yield from self._fitting(chunk[middle:], codec)
            return
        header = BatchHeader._make(HEADER.unpack_from(buffer))
        yield Outgoing(buffer, header, stretches(record.offset for record in chunk), rewritten=True)


_RECORD_OVERHEAD = 21
"""Length, attributes, timestamp and offset varints of a lone record, at their longest."""


@dataclass(slots=True)
class _Gathered:
    """Batches and records waiting to become one batch: either untouched `sources`, or `records` already read.

    All share one codec, and never are both lists in use: reading one source reads them all.
    """

    sources: list[tuple[BatchHeader, memoryview]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    codec: int = 0
    bytes: int = 0

    def takes(self, header: BatchHeader) -> bool:
        """Whether a batch with this header may join what is gathered."""
        empty = not self.sources and not self.records
        return empty or (self.codec == header.attributes & CODEC_MASK and self.bytes <= REWRITTEN_BYTES)

    def add_clean(self, header: BatchHeader, batch: memoryview) -> None:
        """Add a batch that could also be passed on as it is."""
        self.codec = header.codec
        self.bytes += header.size
        if self.records:
            self.records.extend(read_records(header, batch))
        else:
            self.sources.append((header, batch))

    def add(self, record: Record, header: BatchHeader) -> None:
        """Add one record of a batch that has to be rewritten."""
        if self.sources:
            for source, batch in self.sources:
                self.records.extend(read_records(source, batch))
            self.sources = []
        self.codec = header.codec
        self.bytes += len(record.rest)
        self.records.append(record)


def _chunks(records: Sequence[Record], limit: int) -> Iterator[Sequence[Record]]:
    start = size = 0
    for index, record in enumerate(records):
        length = len(record.rest) + _RECORD_OVERHEAD
        if size + length > limit and index > start:
            yield records[start:index]
            start, size = index, 0
        size += length
    yield records[start:]


def stretches(offsets: Iterator[int]) -> tuple[tuple[int, int], ...]:
    """Fold ascending upstream offsets into (first, length) stretches."""
    result: list[tuple[int, int]] = []
    first = previous = next(offsets)
    for offset in offsets:
        if offset != previous + 1:
            result.append((first, previous - first + 1))
            first = offset
        previous = offset
    result.append((first, previous - first + 1))
    return tuple(result)
