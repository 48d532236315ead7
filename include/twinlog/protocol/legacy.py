"""Make fetched bytes safe to read: messages of formats v0 and v1 become record batches, and checksums are verified.

    offset int64 | size int32 | crc uint32 | magic int8 | attributes int8 | [timestamp int64, v1] | key | value

Brokers up to 4.x serve such messages as they lie on disk, before or among batches.  A compressed message is a wrapper:
its value is a set of messages.  In v0 the inner messages have their own offsets.  In v1 the inner offsets are relative
to the first, and the wrapper has the offset of the last:

    wrapper at offset 57, inner offsets 0 1 2   ->   offsets 55 56 57

Under LogAppendTime the wrapper's timestamp applies to all inner messages.  v0 has no timestamps: consumers see -1, and
so does the copy.  Sources: KIP-31, KIP-32; org.apache.kafka.common.record.LegacyRecord.

Each message is decoded by kafka-python; wrappers are decompressed here, where their size is bounded.

Checksums are verified of batches that are read and not sent on, so that no later broker will check them.  Brokers
verify the batches that they receive, not those that they serve; Java's consumer verifies them (`check.crcs`).  A single
flipped bit in a state topic would change progress, or turn an abort into a commit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from twinlog.batches.codec import LZ4, decompress, sound_lz4
from twinlog.batches.header import (
    LENGTH_FIELD,
    LOG_OVERHEAD,
    MAGIC_2,
    MAGIC_AT,
    OLD_MAGIC,
    BatchHeader,
    require_crc,
    walk,
)
from twinlog.batches.record import Record, build_batch, record_rest, stretches
from twinlog.errors import FormatError
from twinlog.protocol import kafka_python
from twinlog.protocol.wire import Fetched

BATCH_BYTES = 512 * 1024
"""The uncompressed bytes gathered for one batch."""

_BASE_OFFSET = struct.Struct(">q")
_INT32 = struct.Struct(">i")

_KEY_AT = (18, 26)
"""The position of the key's length, in v0 and v1."""

_SMALLEST = 26
"""Bytes of a v0 message without key and value."""


def is_old(block: memoryview) -> bool:
    """Say whether a fetched block begins with a message of format v0 or v1."""
    return len(block) > MAGIC_AT and block[MAGIC_AT] < MAGIC_2


def as_batches(block: memoryview) -> memoryview:
    """Turn the whole messages at the beginning of `block` into dense record batches with their offsets; writable.

    A block that begins with a record batch is returned as it is.
    Stops at the first record batch, and at a message that is cut off at the end.  If a message does not follow its
    format, it stops before that message; if no whole message stands before it, it raises FormatError with the
    message's offset.
    """
    if not is_old(block):
        return block
    out = bytearray()
    try:
        for codec, records in _groups(block):
            out += _batches(records, codec)
    except FormatError:
        if not out:
            raise
    return memoryview(out)


def _groups(block: memoryview) -> Iterator[tuple[int, list[Record]]]:
    """Gather the messages that become one batch: those of a wrapper, or plain messages that follow one another."""
    plain: list[Record] = []
    size, last = 0, -1
    try:
        for offset, magic, message in _messages(block):
            codec, records = _records(offset, magic, message)
            if records[0].offset <= last:
                raise _bad(offset, f"does not come after offset {last}, the last one before it")
            last = offset
            if plain and (codec or size > BATCH_BYTES):
                yield 0, plain
                plain, size = [], 0
            if codec:
                yield codec, records
            else:
                plain += records
                size += len(message)
    except FormatError:
        if plain:
            yield 0, plain
        raise
    if plain:
        yield 0, plain


def _messages(block: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    at = 0
    while is_old(block[at:]):
        offset, size = LENGTH_FIELD.unpack_from(block, at)
        after = at + LOG_OVERHEAD + size
        if after < at + _SMALLEST:
            raise _bad(offset, f"claims {size} bytes")
        if after > len(block):
            return
        yield offset, block[at + MAGIC_AT], block[at:after]
        at = after


def _records(offset: int, magic: int, message: memoryview) -> tuple[int, list[Record]]:
    """Return a message's codec, and its records with the offsets and timestamps that consumers see."""
    try:
        outer = kafka_python.old_message(message, magic)
        if not outer.validate_crc():
            raise _bad(offset, "does not fit its checksum", "corrupt-batch")
        codec = outer.compression_type
        if not codec:
            return 0, [_record(_whole(offset, message, magic), offset)]
        inner = [_whole(offset, each, kind) for _, kind, each in _messages(_unwrapped(message, magic, codec))]
    except kafka_python.OLD_MESSAGE_ERRORS as error:
        raise _bad(offset, f"cannot be read ({error})") from None
    return codec, _placed(offset, magic, outer, inner)


def _whole(offset: int, message: memoryview, magic: int) -> Any:
    """Read the record of one uncompressed message, at or in the wrapper at `offset`, and check its length."""
    found = kafka_python.old_message(message, magic)
    if found.compression_type:  # consumers refuse it, too; kafka-python would unpack it without a limit
        raise _bad(offset, "holds a compressed message")
    (record,) = found
    if _KEY_AT[magic] + 8 + len(record.key or b"") + len(record.value or b"") != len(message):
        raise _bad(offset, "has a key or value of another length than it says")
    return record


def _placed(offset: int, magic: int, outer: Any, inner: list[Any]) -> list[Record]:
    """Give the messages of a wrapper at `offset` their own offsets and timestamps."""
    if not inner or not all(message.validate_crc() for message in inner):
        raise _bad(offset, "holds no whole messages", "corrupt-batch")
    shift = offset - inner[-1].offset if magic else 0
    stamp = outer.append_time
    records = [_record(message, message.offset + shift, stamp) for message in inner]
    numbers = [record.offset for record in records]
    if numbers[0] < 0 or numbers != sorted(set(numbers)) or numbers[-1] != offset:
        raise _bad(offset, "holds messages whose offsets do not ascend to it")
    return records


def _unwrapped(message: memoryview, magic: int, codec: int) -> memoryview:
    """Decompress a wrapper's value."""
    at = _KEY_AT[magic]
    (key_bytes,) = _INT32.unpack_from(message, at)
    at += 4 + max(key_bytes, 0)
    (value_bytes,) = _INT32.unpack_from(message, at)
    value = message[at + 4 : at + 4 + max(value_bytes, 0)]
    return decompress(codec, sound_lz4(value) if codec == LZ4 and magic == 0 else value)


def _record(message: Any, offset: int, append_time: int | None = None) -> Record:
    timestamp = message.timestamp if append_time is None else append_time
    return Record(offset, -1 if timestamp is None else timestamp, record_rest(message.key, message.value))


def _batches(records: list[Record], codec: int) -> bytes:
    """Build one batch for each stretch of consecutive offsets, each with its base offset."""
    out = bytearray()
    for stretch in stretches(records):
        batch = build_batch(stretch, codec)
        _BASE_OFFSET.pack_into(batch, 0, stretch[0].offset)
        out += batch
    return bytes(out)


def _bad(offset: int, what: str, code: str = "bad-batch") -> FormatError:
    return FormatError(f"old message at upstream offset {offset} {what}", code=code, offset=offset)


_HINT = "nothing was taken from it; let a replica with a sound log lead the partition"


def walk_verified(block: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield whole batches as `walk` does, each CRC-verified before any of its fields, even its offsets, is used.

    Raises FormatError as `walk_headers` does, for a batch that does not fit its checksum, and for bytes that hold no
    whole batch.  Brokers serve a whole batch or nothing (KIP-74), so such a batch's length is damaged, and asking
    again would never end.
    """
    whole = False
    for header, batch in walk(block):
        require_crc(header, batch)
        whole = True
        yield header, batch
    if len(block) and not whole:
        raise FormatError("a batch ends behind what was fetched", code="bad-batch")


@contextmanager
def naming(fetched: Fetched, cluster: str) -> Iterator[None]:
    """Add cluster, topic, partition and offset to a FormatError raised while fetched data is read.

    The offset is that of the batch if it is known, else the offset from which the fetch began.
    """
    try:
        yield
    except FormatError as error:
        offset = error.data.get("offset", fetched.asked_offset)
        why = error.message.replace("upstream offset", "offset")  # data read here is not being copied
        raise FormatError(
            f"{fetched.topic}-{fetched.partition} on cluster {cluster} cannot be read from offset {offset} on: {why}",
            hint="" if error.code == OLD_MAGIC else _HINT,
            code=error.code,
            cluster=cluster,
            topic=fetched.topic,
            partition=fetched.partition,
            offset=offset,
        ) from error
