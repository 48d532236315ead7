"""Judge whether a batch is damaged, and whether it is known where it ends.  Pure.

A damaged batch may say wrong offsets, and a wrong length.  Where it ends is believed only if the log bears it out:

    first ......... end - 1 | end .......
    damaged batch           | next batch     the bytes behind the damaged batch are a batch that begins at `end`
    |<--- its length ------>|

At the end of a segment, and of the log, no bytes follow in an answer.  There the batch has to be dense (as many records
as offsets), and either the next batch, whole, begins at `end`, or the log ends at it.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.batches.header import HEADER_BYTES, BatchHeader, require_crc
from twinlog.batches.quarantine import Captured, parts
from twinlog.batches.record import key_value_headers, read_records, record_rest
from twinlog.errors import FormatError, TerminalError
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lifecycle.alter_plan import Standing
from twinlog.protocol.legacy import is_old

REFUSED = "skip-refused"
"""Code of the error for a batch that is whole, or of which it is not known where it ends."""

BATCH_HEADER = "twinlog.batch"
"""A header of a record whose value are the bytes of a batch: the last upstream offset that the batch says it has."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """A damaged batch, at upstream offsets [`first`, `end`) that are still to be copied; `why` says what is wrong."""

    first: int
    end: int
    data: bytes
    timestamp_ms: int
    why: str


def damaged_batch(at: Standing, offset: int, block: memoryview | None) -> Damaged:
    """Judge the bytes that the source has at `at.goes_on`.  Raises TerminalError `skip-refused`.  Pure."""
    name = f"{at.topic}-{at.partition}"
    if not block:
        raise _refusal(
            at, f"{name} goes on at upstream offset {at.goes_on}: no batch is there, or it may not be read"
        )
    if len(block) < HEADER_BYTES or is_old(block):
        raise _refusal(at, f"{name}: what lies at upstream offset {at.goes_on} is no batch of today's format")
    header = BatchHeader.read(block)
    end = header.next_offset
    if not header.base_offset <= offset < end or end <= at.goes_on:
        raise _refusal(
            at,
            f"{name} goes on at upstream offset {at.goes_on}, with a batch of {header.base_offset} to {end - 1}:"
            f" {offset} is not in it",
        )
    if end > at.readable_end:
        raise _refusal(
            at,
            f"{name}: the batch of {header.base_offset} to {end - 1} can be copied up to {at.readable_end - 1} only",
        )
    size = header.size
    if size > len(block) or size < HEADER_BYTES:
        raise _refusal(at, f"{name}: the batch at upstream offset {at.goes_on} does not say how long it is")
    batch = block[:size]
    why = what_is_wrong(header, batch)
    if not why:
        raise TerminalError(
            f"{name}: the batch at upstream offsets {header.base_offset} to {end - 1} is whole",
            hint="if it is to be left out all the same: twinlog offsets alter",
            code=REFUSED,
            topic=at.topic,
            partition=at.partition,
        )
    return Damaged(at.goes_on, end, bytes(batch), header.max_timestamp, why)


def what_is_wrong(header: BatchHeader, batch: memoryview) -> str:
    """Say why a batch cannot be copied; "" if it is whole.  Pure."""
    try:
        require_crc(header, batch)
        for _ in read_records(header, batch):
            pass
    except FormatError as error:
        return error.code
    return ""


@dataclass(frozen=True, slots=True)
class Around:
    """Tell what the log has around a damaged batch.

    `at_last` is the batch at its last offset, and `again` the batch at its first, both cut to its length.  `adjacent`
    are the bytes behind it, empty if the answer ended with it.  `behind` is the batch at the offset behind it, None if
    that may not be read.  `log_end` is where the log ends.
    """

    at_last: bytes
    again: bytes
    adjacent: bytes
    behind: memoryview | None
    log_end: int


def require_followed(at: Standing, found: Damaged, around: Around) -> None:
    """Raise TerminalError `skip-refused` unless the log bears out where the damaged batch says it ends.  Pure."""
    if not (found.data == around.at_last == around.again and _ends_there(found, around)):
        raise _refusal(
            at,
            f"{at.topic}-{at.partition}: the damaged batch says that it ends at upstream offset {found.end - 1}, and"
            " what lies behind that does not bear it out",
        )


def _ends_there(found: Damaged, around: Around) -> bool:
    if around.adjacent:
        return _begins(memoryview(around.adjacent), found.end)
    if around.behind is None or not BatchHeader.read(found.data).dense:
        return False
    if not around.behind:
        return found.end == around.log_end
    return _begins(around.behind, found.end) and not _wrong(around.behind)


def _begins(block: memoryview, offset: int) -> bool:
    if len(block) < HEADER_BYTES or is_old(block):
        return False
    return BatchHeader.read(block).base_offset == offset


def _wrong(block: memoryview) -> bool:
    header = BatchHeader.read(block)
    inside = HEADER_BYTES <= header.size <= len(block)
    return not inside or bool(what_is_wrong(header, block[: header.size]))


def aside(topic: str, at: Standing, found: Damaged, limit: int) -> list[StateRecord]:
    """Make the records of the quarantine topic that hold the batch: its bytes are the value.  Pure."""
    rest = record_rest(None, found.data, ((BATCH_HEADER, b"%d" % (found.end - 1)),))
    captured = Captured(
        at.topic, at.topic_id, at.partition, found.first, found.timestamp_ms, bytes(rest), found.why
    )
    return [StateRecord(topic, 0, *key_value_headers(it)) for it in parts(captured, limit)]


def _refusal(at: Standing, why: str) -> TerminalError:
    hint = "`twinlog offsets alter --to OFFSET` goes on behind an offset that you know; it keeps no bytes"
    return TerminalError(why, hint=hint, code=REFUSED, topic=at.topic, partition=at.partition)
