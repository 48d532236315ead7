"""Relabel a batch: give it a new producer without changing, or even reading, its records."""

from __future__ import annotations

import struct

from twinlog.batches.header import (
    CHECKED_FROM,
    CODEC_MASK,
    CRC_AT,
    HEADER_BYTES,
    TRANSACTIONAL,
    BatchHeader,
)
from twinlog.batches.label.crc import changed_head

_FRONT = struct.Struct(">qiibI")
_CHECKED = struct.Struct(">hiqqqhii")
_CRC = struct.Struct(">I")
_NO_EPOCH = -1


def relabel(
    batch: memoryview,
    header: BatchHeader,
    producer_id: int,
    producer_epoch: int,
    sequence: int,
    *,
    transactional: bool,
) -> memoryview:
    """Rewrite the header of `batch` in place for (`producer_id`, `producer_epoch`, `sequence`); return `batch`.

    Base offset becomes 0 and the leader epoch -1, as a produce request requires; of the attributes only the codec
    stays.  Use only for batches that are dense, CreateTime, and sent whole: all others are read and built anew
    (`twinlog.batches.cutter`).  `batch` must be writable and its CRC right.  A batch may be relabelled again if
    `header` is the one that it had first.
    """
    (old_crc,) = _CRC.unpack_from(batch, CRC_AT)
    attributes = header.attributes & CODEC_MASK
    if transactional:
        attributes |= TRANSACTIONAL
    new_head = _CHECKED.pack(
        attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        producer_id,
        producer_epoch,
        sequence,
        header.record_count,
    )
    head = batch[CHECKED_FROM:HEADER_BYTES]
    crc = changed_head(old_crc, head, new_head, len(batch) - HEADER_BYTES)
    _FRONT.pack_into(batch, 0, 0, header.batch_length, _NO_EPOCH, header.magic, crc)
    head[:] = new_head
    return batch
