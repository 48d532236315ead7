"""Say whether batches, or many records at once however batched, are equal by their bytes.  Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from twinlog.batches.codec import decompress
from twinlog.batches.columns import Columns, Int64s
from twinlog.batches.header import CODEC_MASK, DELETE_HORIZON, HEADER_BYTES, LOG_APPEND_TIME
from twinlog.logs.partition_reader import Batch
from twinlog.offsets.offset_map import OffsetMap


def same_records(ours: Batch, theirs: Batch) -> bool:
    """Say whether two batches hold the same records with the same timestamps, without decoding a record."""
    left, right = ours.header, theirs.header
    odd = LOG_APPEND_TIME | DELETE_HORIZON
    if (
        left.record_count != right.record_count
        or left.base_timestamp != right.base_timestamp
        or (left.attributes | right.attributes) & odd
        or not left.dense
        or not right.dense
    ):
        return False
    ours_block, theirs_block = ours.data[HEADER_BYTES:], theirs.data[HEADER_BYTES:]
    if (left.attributes ^ right.attributes) & CODEC_MASK:
        ours_block, theirs_block = decompress(left.codec, ours_block), decompress(right.codec, theirs_block)
    # A bytearray compares itself with any buffer by memcmp; two memoryviews would compare byte by byte.
    return len(ours_block) == len(theirs_block) and bytearray(ours_block) == theirs_block


def common_count(ours: Int64s, theirs: Int64s) -> int:
    """Return how many records to compare, given the record counts up to the end of each batch of either side.

    The count reaches up to the last place where batches of both sides end, if there is one: from there on, whole
    batches may be equal.
    """
    both = np.intersect1d(ours, theirs, assume_unique=True)
    return int(both[-1] if len(both) else min(ours[-1], theirs[-1]))


def equal_prefix(ours: Columns, theirs: Columns, offset_map: OffsetMap) -> int:
    """Count the records, from the first on, that are equal and stand where the map puts them."""
    same = (ours.timestamps == theirs.timestamps) & (ours.sizes == theirs.sizes)
    same &= _in_place(ours, theirs, offset_map)
    count = _leading(same)
    return _leading(equal_rests(ours.where(slice(0, count)), theirs.where(slice(0, count))))


def _leading(marks: Any) -> int:
    return len(marks) if marks.all() else int(np.argmin(marks))


def _in_place(ours: Columns, theirs: Columns, offset_map: OffsetMap) -> Any:
    if not len(offset_map.upstream):
        return np.zeros(len(ours), bool)
    run = np.searchsorted(offset_map.upstream, ours.offsets, side="right") - 1
    into = ours.offsets - offset_map.upstream[run]
    inside = (run >= 0) & (into < offset_map.length[run])
    return inside & (offset_map.downstream[run] + into == theirs.offsets)


def equal_rests(ours: Columns, theirs: Columns) -> Any:
    """Mark the records whose rests are equal; their sizes are equal on both sides.

    Records of [n, 2n) bytes, with n a power of two, are compared by their first n and their last n bytes, which
    overlap.  So slices of one length can be gathered and compared by the thousand.
    """
    sizes = ours.sizes
    same = np.ones(len(sizes), bool)
    steps = np.frexp(sizes)[1] - 1  # exact: sizes are far below 2**53
    for step in np.unique(steps).tolist():
        chosen, length = np.flatnonzero(steps == step), 1 << step
        for left, right in ((ours.starts, theirs.starts), (ours.ends - length, theirs.ends - length)):
            pieces = _pieces(ours.data, left[chosen], length) == _pieces(theirs.data, right[chosen], length)
            same[chosen] &= pieces.all(axis=1)
    return same


def _pieces(data: memoryview, starts: Int64s, length: int) -> Any:
    """Gather `length` bytes from each start on, one row each, in words as wide as fit."""
    anywhere: Any = np.ndarray((len(data) - length + 1,), f"V{length}", data, strides=(1,))
    width = min(length, 8)
    return anywhere[starts].view(f"u{width}").reshape(len(starts), length // width)
