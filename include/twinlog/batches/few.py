"""Merge a few small batches record by record.

Below some fifty records the calls of numpy that `twinlog.batches.columns.columns` makes cost more than the records do;
a lane that follows has a dozen records of a partition at a time.  What comes out is the same to the byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from twinlog.batches.columns.building import LARGEST_PREFIX
from twinlog.batches.header import BatchHeader, require_crc
from twinlog.batches.outgoing import Outgoing
from twinlog.batches.record import Record, build_batch, read_records
from twinlog.errors import FormatError

MOST_RECORDS = 48
"""Measured: from here on reading by columns is cheaper."""

_BOUND = 1 << 63
"""Times, and what lies between them, that no int64 holds are damage: `columns` lets them overflow, as Java does."""


def merge_few(
    block: memoryview, begins: Sequence[int], first: int, end: int, most_bytes: int
) -> Outgoing | None:
    """Make one batch of the records in [`first`, `end`) of the batches, of one codec, that begin at `begins`.

    None where that is not plainly possible, for `columns` to do or to refuse: many records, none, more than
    `most_bytes` of them, a batch that cannot be read.
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
    """Read all, checked as `columns.read_columns` does: checksums, exactly the records claimed, offsets that ascend."""
    next_offset = -1
    for header, begin in batches:
        batch = block[begin : begin + header.size]
        require_crc(header, batch)
        for record in read_records(header, batch):
            _require_ascending(header, record.offset, next_offset)
            next_offset = record.offset + 1
            yield record


def _within(found: Iterable[Record], first: int, end: int, most_bytes: int) -> list[Record] | None:
    """Keep what is in the range; None as soon as it is too much: a record keeps its batch in memory, decompressed."""
    kept: list[Record] = []
    left = most_bytes
    for record in found:
        if first <= record.offset < end:
            left -= len(record.rest) + LARGEST_PREFIX
            if left < 0:
                return None
            kept.append(record)
    return kept


def _require_ascending(header: BatchHeader, offset: int, next_offset: int) -> None:
    if not max(next_offset, header.base_offset) <= offset <= header.last_offset:
        raise FormatError("offsets do not ascend", code="bad-record", offset=header.base_offset)


def _stretches(records: Iterable[Record]) -> tuple[tuple[int, int], ...]:
    """Fold ascending upstream offsets into (first, length) stretches."""
    found: list[tuple[int, int]] = []
    start = end = -1
    for record in records:
        if record.offset != end:
            if start >= 0:
                found.append((start, end - start))
            start = record.offset
        end = record.offset + 1
    return (*found, (start, end - start))
