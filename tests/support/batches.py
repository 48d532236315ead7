"""Batches for tests, built by kafka-python's own encoder: an independent witness of the format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from twinlog.batches.codec import decompress


@dataclass(frozen=True)
class Rec:
    """A record as a test writes and reads it."""

    value: bytes | None = b"v"
    key: bytes | None = None
    timestamp: int = 1_000
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())


def encode(
    records: list[Rec],
    *,
    base_offset: int = 0,
    codec: int = 0,
    transactional: bool = False,
    producer_id: int = -1,
    deltas: Sequence[int] | None = None,
) -> bytearray:
    """Encode records as one batch that begins at `base_offset`; `deltas` are their offsets behind it, else no gaps."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=transactional,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        batch_size=1 << 24,
    )
    for delta, record in zip(deltas or range(len(records)), records, strict=True):
        builder.append(
            delta,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
        )
    raw = bytearray(builder.build())
    raw[0:8] = base_offset.to_bytes(8, "big")
    return raw


def decode(batch: Any) -> list[Rec]:
    """Decode a batch (which must have a right CRC) with kafka-python, which is spared the decompression."""
    raw = bytearray(batch)
    assert crc32c(bytes(raw[21:])) == int.from_bytes(raw[17:21], "big")
    raw[61:] = decompress(raw[22] & 7, memoryview(bytes(raw[61:])))
    raw[22] &= 0xF8
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    parsed = DefaultRecordBatch(bytes(raw))
    return [
        Rec(
            value=None if record.value is None else bytes(record.value),
            key=None if record.key is None else bytes(record.key),
            timestamp=record.timestamp,
            headers=tuple((name, None if v is None else bytes(v)) for name, v in record.headers),
        )
        for record in parsed
    ]
