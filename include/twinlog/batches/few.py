"""Merge a few small batches record by record (small-batch merge).

Below some fifty records, the numpy calls of `twinlog.batches.columns.columns` cost more than the records.  A lane in
follow mode has about a dozen records of a partition at a time.  The result is the same to the byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from twinlog.batches.columns.building import LARGEST_PREFIX
from twinlog.batches.header import BatchHeader, require_crc
from twinlog.batches.outgoing import Outgoing
from twinlog.batches.record import Record, build_batch, read_records
from twinlog.errors import FormatError

MOST_RECORDS = 48
"""Measured: with more records, reading by columns is cheaper."""

_BOUND = 1 << 63
"""Times and differences of times beyond an int64 are damage; `columns` lets them overflow, as Java does."""


def merge_few(
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
            _require_ascending(header, record.offset, next_offset)
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
