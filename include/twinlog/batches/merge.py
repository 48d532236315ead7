"""Merge small batches: decide which are cheaper to merge than to send one by one, and build them few or one at a time.

Many records are read and built by columns (`twinlog.batches.columns`). Below some fifty records its numpy calls cost
more than the records, so a few small batches are merged record by record, with the same result to the byte
(small-batch merge): a lane in follow mode has about a dozen records of a partition at a time. A batch of a single
record is built in several ways; if none fits the target, the record is poison.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twinlog.batches import varint
from twinlog.batches.build import LARGEST_PREFIX, Arena, build_batches
from twinlog.batches.codec import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress_hard, decompress
from twinlog.batches.columns import Columns
from twinlog.batches.header import HEADER_BYTES, BatchHeader, headed, require_crc
from twinlog.batches.outgoing import Outgoing, Stretches
from twinlog.batches.record import Record, build_batch, read_records
from twinlog.errors import FormatError

BATCH_COST = 25.0
"""Microseconds of CPU that each further batch costs: relabelling, its share of a request, its answer."""

COST = {
    NONE: (0.2, 0.0006),
    GZIP: (0.7, 0.03),
    SNAPPY: (0.7, 0.01),
    LZ4: (0.7, 0.01),
    ZSTD: (0.7, 0.02),
}
"""By codec: microseconds of CPU per record and per byte to read a batch and write it again."""

_COMPRESSED_RUN_BYTES = 128 * 1024
"""The most bytes of compressed batches rewritten together: all are decompressed in memory at the same time."""

_MANY = 16


@dataclass(frozen=True, slots=True)
class SmallBatches:
    """Hold small uncompressed batches that follow one another in a block: positions, and headers as an array."""

    begins: list[int]
    heads: Any

    @property
    def next_offset(self) -> int:
        """Return the upstream offset behind the last batch."""
        return int(self.heads["base_offset"][-1]) + int(self.heads["last_offset_delta"][-1]) + 1


@dataclass(slots=True)
class Run:
    """Hold batches of one codec that wait to be rewritten together.

    `begins` are their positions in the block; `positions` are the upstream offsets that the copy had reached before
    each.  `single` is the header of the first batch, as long as that batch could still be passed on unchanged.
    """

    begins: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    single: BatchHeader | None = None
    codec: int = 0
    bytes: int = 0

    def takes(self, codec: int) -> bool:
        """Say whether a batch of this codec may join."""
        fits = self.codec == codec and (not codec or self.bytes < _COMPRESSED_RUN_BYTES)
        return fits or not self.begins

    def add(self, header: BatchHeader, start: int, position: int, *, clean: bool) -> None:
        """Add a batch that begins at `start` in the block, with the copy at upstream offset `position`."""
        self.single = header if clean and not self.begins else None
        self.codec = header.codec
        self.bytes += header.size
        self.begins.append(start)
        self.positions.append(position)

    def extend(self, small: SmallBatches) -> None:
        """Add small batches that are clean and uncompressed."""
        self.single = None
        if not self.begins and len(small.begins) == 1:
            self.single = BatchHeader._make(small.heads[0].tolist())
        self.codec = NONE
        self.begins += small.begins
        self.positions += small.heads["base_offset"].tolist()


def merge_cost(codec: int, records: Any, size: Any) -> Any:
    """Return the microseconds that it costs to read a batch, or each batch of an array, and write it again.

    Measured; see docs/performance.md.
    """
    per_record, per_byte = COST.get(codec, (BATCH_COST, 0.0))
    return records * per_record + size * per_byte


def many_small(block: memoryview) -> bool:
    """Say whether a block looks like many small batches, judged by its first batch."""
    if len(block) < HEADER_BYTES:
        return False
    first = BatchHeader.read(block)
    cost = merge_cost(NONE, first.record_count, first.size)
    return bool(first.size * _MANY <= len(block) and cost < BATCH_COST)


MOST_RECORDS = 48
"""Measured: with more records, reading by columns is cheaper."""

_BOUND = 1 << 63
"""Times and differences of times beyond an int64 are damage; `columns` lets them overflow, as Java does."""


def merge_small(
    block: memoryview, begins: Sequence[int], first: int, end: int, most_bytes: int
) -> Outgoing | None:
    """Make one batch of the records in [`first`, `end`) of the batches, sharing a codec, that begin at `begins`.

    Returns None in every case that is not plain: many records, no records, more than `most_bytes` of records, a batch
    that cannot be read.  `columns` then does the work, or refuses it.
    """
    if len(begins) > MOST_RECORDS:
        return None
    heads = [BatchHeader.read(block, begin) for begin in begins]
    if sum(header.record_count for header in heads) > MOST_RECORDS:
        return None
    try:
        records = _within(_records(block, zip(heads, begins, strict=True)), first, end, most_bytes)
    except FormatError:
        return None
    if not records:
        return None
    times = [record.timestamp for record in records]
    earliest, latest = min(times), max(times)
    if earliest < -_BOUND or latest >= _BOUND or latest - earliest >= _BOUND:
        return None
    buffer = build_batch(records, heads[0].codec)
    return Outgoing.built(buffer, _stretches(records), rewritten=True)


def _records(block: memoryview, batches: Iterable[tuple[BatchHeader, int]]) -> Iterator[Record]:
    """Read all records, checked as by `columns.read_columns`: checksums, exact record counts, ascending offsets."""
    next_offset = -1
    for header, begin in batches:
        batch = block[begin : begin + header.size]
        require_crc(header, batch)
        for record in read_records(header, batch):
            if not max(next_offset, header.base_offset) <= record.offset <= header.last_offset:
                raise FormatError("offsets do not ascend", code="bad-record", offset=header.base_offset)
            next_offset = record.offset + 1
            yield record


def _within(found: Iterable[Record], first: int, end: int, most_bytes: int) -> list[Record] | None:
    """Keep the records in the range; None as soon as they are too large: each holds its decompressed batch."""
    kept: list[Record] = []
    left = most_bytes
    for record in found:
        if first <= record.offset < end:
            left -= len(record.rest) + LARGEST_PREFIX
            if left < 0:
                return None
            kept.append(record)
    return kept


def _stretches(records: Sequence[Record]) -> Stretches:
    """Fold ascending upstream offsets; as with the records, numpy would cost more for so few."""
    end = records[0].offset
    numbers = [0, 0, 0]
    for record in records:
        if record.offset != end:
            numbers += (record.offset - end, 0, 0)
        numbers[-1] += 1
        end = record.offset + 1
    return Stretches(records[0].offset, numbers)


WHOLE = np.zeros(1, np.int64)
"""The beginnings of pieces for records that form one piece."""

_HARD_BYTES = 16 << 20
"""Larger records are not compressed at the highest level, which takes up to a second per megabyte."""

_INT64 = range(-(1 << 63), 1 << 63)


def single_record_batch(
    record: Columns, codec: int, limit: int, block: memoryview, begins: Sequence[int]
) -> memoryview:
    """Build a batch of one record with at most `limit` bytes; if there is none, return the smallest that was tried.

    The record was read from one of the batches of `block` that begin at `begins`.
    """
    tried: list[memoryview] = []
    for batch in _ways(record, codec, block, begins):
        if len(batch) <= limit:
            return batch
        tried.append(batch)
    return min(tried, key=len)


def uncompressed(record: Columns) -> memoryview:
    """Build a batch of one record without compression, whose framing makes a batch larger if it gains nothing."""
    return build_batches(record, WHOLE, NONE, Arena())[0]


def _ways(record: Columns, codec: int, block: memoryview, begins: Sequence[int]) -> Iterator[memoryview]:
    """Build the batch in several ways, cheap ones first; the producer may have compressed harder than twinlog does."""
    if codec:
        yield build_batches(record, WHOLE, codec, Arena())[0]
    plain = uncompressed(record)
    yield plain
    if not codec:
        return
    kept = _as_it_came(int(record.offsets[0]), int(record.timestamps[0]), block, begins)
    if kept is not None:
        yield kept
    if codec in {GZIP, ZSTD} and len(plain) <= _HARD_BYTES:
        time = int(record.timestamps[0])
        yield headed(compress_hard(codec, bytes(plain[HEADER_BYTES:])), codec, 1, time, time)


def _as_it_came(offset: int, timestamp: int, block: memoryview, begins: Sequence[int]) -> memoryview | None:
    """Keep the body of the source's batch if it held only this record: only the times in the header change."""
    for begin in begins:
        header = BatchHeader.read(block, begin)
        if (header.base_offset, header.record_count, header.last_offset_delta) != (offset, 1, 0):
            continue
        body = block[begin + HEADER_BYTES : begin + header.size]
        records = decompress(header.codec, body)
        _, attributes = varint.decode(records, 0)
        delta, _ = varint.decode(records, attributes + 1)
        if timestamp - delta in _INT64:
            return headed(body, header.codec, 1, timestamp - delta, timestamp)
    return None
