"""Read and write the header of a Kafka record batch, magic 2: the 61 bytes that twinlog reads and rewrites.

    offset  0  baseOffset            int64   0 in a produce request; the broker sets the real one
            8  batchLength           int32   bytes that follow this field
           12  partitionLeaderEpoch  int32   -1 in a produce request
           16  magic                 int8    2
           17  crc                   uint32  CRC-32C of everything from offset 21 to the end
           21  attributes            int16   codec 0-2, timestamp type 3, transactional 4, control 5, delete horizon 6
           23  lastOffsetDelta       int32
           27  baseTimestamp         int64   ms
           35  maxTimestamp          int64   ms
           43  producerId            int64
           51  producerEpoch         int16
           53  baseSequence          int32
           57  recordCount           int32
           61  the records, as one block if a codec is set

Source: org.apache.kafka.common.record.DefaultRecordBatch and KIP-98; bit 6 is KIP-534.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple, Self

from crc32c import crc32c

from twinlog.errors import FormatError

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
LENGTH_FIELD = struct.Struct(">qi")
"""baseOffset and batchLength: enough to step from one batch to the next."""
LENGTH_AT = 8
_LENGTH_AND_MAGIC = struct.Struct(">i4xb")
LOG_OVERHEAD = 12
_SHORTEST = HEADER_BYTES - LOG_OVERHEAD
MAGIC_AT = 16
CRC_AT = 17
CHECKED_FROM = 21
"""The position at which the bytes covered by the CRC begin."""

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

MAGIC_2 = 2
OLD_MAGIC = "old-magic"
"""Code of the error for a message in an older format (`twinlog.protocol.legacy`)."""


class BatchHeader(NamedTuple):
    """The fields of a header, in their order on the wire."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def read(cls, block: memoryview | bytearray | bytes, at: int = 0) -> Self:
        """Read the header of the batch that begins at `at`, without checking that it is possible."""
        return cls._make(HEADER.unpack_from(block, at))

    @property
    def last_offset(self) -> int:
        """Return the upstream offset of the batch's last slot (which compaction may have emptied)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Return the lowest upstream offset at which the next batch can begin."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size(self) -> int:
        """Return the bytes of the whole batch, header included; max.message.bytes limits this size."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def codec(self) -> int:
        """Return the codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def control(self) -> bool:
        """Say whether the batch is a control batch (a transaction marker), not data."""
        return bool(self.attributes & CONTROL)

    @property
    def transactional(self) -> bool:
        """Say whether the batch was written inside a transaction of `producer_id`."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def dense(self) -> bool:
        """Say whether every offset of the batch holds a record (compaction removed none)."""
        return self.record_count == self.last_offset_delta + 1


def walk(block: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the header and the bytes of each whole batch in a partition's part of a fetch answer.

    Raises FormatError as `walk_headers` does.
    """
    for header, start in walk_headers(block):
        yield header, block[start : start + header.size]


def walk_headers(block: memoryview) -> Iterator[tuple[BatchHeader, int]]:
    """Yield the headers of whole batches, each with the position at which its batch begins.

    A batch cut off at the end is left out: brokers cut at the byte limit (but the first batch is always whole).
    Raises FormatError for magic 0 and 1, which have another layout, for an unknown magic, and for an impossible size.
    """
    at, end = 0, len(block)
    while end - at >= HEADER_BYTES:
        header = BatchHeader.read(block, at)
        size = header.size
        if header.magic != MAGIC_2 or size < HEADER_BYTES:
            raise unreadable(header)
        if at + size > end:
            return
        yield header, at
        at += size


def epoch_at(block: memoryview, position: int, offset: int, reached: int, epoch: int) -> int:
    """Return the leader epoch of the batch before `offset`, or, if an offset gap lies between, of the batch behind it.

    Offsets are upstream; batches before `position` were read earlier, up to `reached`, the last one in `epoch`.
    Returns -1 if no batch tells.
    """
    with suppress(FormatError):  # raised for batches behind the offset
        for header, _ in walk_headers(block):
            if header.base_offset < reached:
                break
            if header.base_offset >= offset:
                return header.leader_epoch if max(position, reached) < offset else epoch
            epoch, reached = header.leader_epoch, header.next_offset
    return epoch


def require_possible(header: BatchHeader, next_offset: int) -> None:
    """Raise FormatError if a header is impossible; records of batches passed on or left out are not read."""
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        what = f"claims {header.record_count} records in {header.last_offset_delta + 1} offsets"
    elif header.base_offset < next_offset:
        what = f"does not come after offset {next_offset - 1}, the last one before it"
    else:
        return
    raise FormatError(
        f"batch at upstream offset {header.base_offset} {what}", code="bad-batch", offset=header.base_offset
    )


def write_header(batch: memoryview, codec: int, count: int, base_timestamp: int, max_timestamp: int) -> None:
    """Write header and checksum in front of `count` records: dense, CreateTime, base offset 0, no producer."""
    length = len(batch) - LOG_OVERHEAD
    times = base_timestamp, max_timestamp
    HEADER.pack_into(batch, 0, 0, length, -1, MAGIC_2, 0, codec, count - 1, *times, -1, -1, -1, count)
    write_crc(batch)


def headed(
    body: bytes | memoryview, codec: int, count: int, base_timestamp: int, max_timestamp: int
) -> memoryview:
    """Return a batch of its own, writable, with a header as by `write_header` in front of encoded records."""
    batch = memoryview(bytearray(HEADER_BYTES + len(body)))
    batch[HEADER_BYTES:] = body
    write_header(batch, codec, count, base_timestamp, max_timestamp)
    return batch


def rewrite(batch: memoryview, **fields: int) -> None:
    """Replace fields of a batch that `write_header` has headed, with a checksum that fits."""
    HEADER.pack_into(batch, 0, *BatchHeader.read(batch)._replace(**fields))
    write_crc(batch)


def write_crc(batch: memoryview) -> None:
    """Write the checksum that fits the batch."""
    batch[CRC_AT:CHECKED_FROM] = crc32c(batch[CHECKED_FROM:]).to_bytes(4, "big")


def require_crc(header: BatchHeader, batch: memoryview) -> None:
    """Raise FormatError (code `corrupt-batch`) if the checksum does not fit; for batches no broker checks later."""
    if crc32c(batch[CHECKED_FROM:]) != header.crc:
        raise FormatError(
            f"batch at upstream offset {header.base_offset} does not fit its checksum",
            code="corrupt-batch",
            offset=header.base_offset,
        )


def unreadable(header: BatchHeader) -> FormatError:
    """Return the error that says why reading cannot go on at a batch."""
    if header.magic != MAGIC_2:
        return FormatError(
            f"message format v{header.magic} at upstream offset {header.base_offset}",
            code=OLD_MAGIC if header.magic in {0, 1} else "bad-batch",
            offset=header.base_offset,
        )
    return FormatError(
        f"batch at upstream offset {header.base_offset} claims {header.size} bytes, less than its header",
        code="bad-batch",
        offset=header.base_offset,
    )


def starts(block: memoryview) -> tuple[list[int], int]:
    """Return the positions of the whole batches of a block, and the end of the last one, by their lengths alone.

    Stops before a batch that cannot be read; `walk_headers` on the remaining bytes raises the reason.
    """
    found: list[int] = []
    add, unpack = found.append, _LENGTH_AND_MAGIC.unpack_from
    at, end = 0, len(block)
    last = end - HEADER_BYTES
    while at <= last:
        length, magic = unpack(block, at + LENGTH_AT)
        after = at + length + LOG_OVERHEAD
        if after > end or length < _SHORTEST or magic != MAGIC_2:
            break
        add(at)
        at = after
    return found, at
