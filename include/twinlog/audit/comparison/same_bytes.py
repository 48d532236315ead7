"""Say whether two batches are equal, by their bytes.  Pure."""

from __future__ import annotations

from twinlog.batches.codec import decompress
from twinlog.batches.header import CODEC_MASK, DELETE_HORIZON, HEADER_BYTES, LOG_APPEND_TIME
from twinlog.logs.partition_reader import Batch


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
