"""Build a batch of a single record in several ways; if none fits the target, the record is poison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from twinlog.batches import varint
from twinlog.batches.codec import GZIP, NONE, ZSTD, compress_hard, decompress
from twinlog.batches.columns.arena import Arena
from twinlog.batches.columns.building import build_batches
from twinlog.batches.columns.columns import Columns
from twinlog.batches.header import HEADER_BYTES, BatchHeader, write_header

WHOLE: Final = np.zeros(1, np.int64)
"""The beginnings of pieces for records that form one piece."""

_HARD_BYTES: Final = 16 << 20
"""Larger records are not compressed at the highest level, which takes up to a second per megabyte."""

_INT64: Final = range(-(1 << 63), 1 << 63)


def lone_batch(
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
        yield _headed(codec, compress_hard(codec, bytes(plain[HEADER_BYTES:])), int(record.timestamps[0]))


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
            return _headed(header.codec, body, timestamp - delta, timestamp)
    return None


def _headed(codec: int, body: bytes | memoryview, base: int, latest: int | None = None) -> memoryview:
    batch = memoryview(bytearray(HEADER_BYTES + len(body)))
    batch[HEADER_BYTES:] = body
    write_header(batch, codec, 1, base, base if latest is None else latest)
    return batch
