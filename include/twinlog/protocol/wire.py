"""Encode and decode Produce and Fetch, written by hand because they carry the batches.

Every broker from 2.4 to 4.x speaks Produce v8 and Fetch v11; older ones are read from by Fetch v7 to v10.  All other
requests, but for those of `twinlog.protocol.transactions`, go through `twinlog.protocol.kafka_python`.  Batches are
never copied here: a produce request is a list of buffers for one `sendmsg`, and a fetch answer is cut into memoryviews.

Layouts: the Kafka protocol's ProduceRequest.json v8 and FetchRequest.json v7 to v11.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from twinlog.grouped import grouped
from twinlog.kafka_types import OfPartition, TopicPartition

PRODUCE = 0
PRODUCE_VERSION = 8
FETCH = 1
FETCH_VERSION = 11
OLDEST_FETCH_VERSION = 7
"""Kafka 1.1's, the first with sessions (KIP-227)."""

_WITH_LEADER_EPOCH = 9
_WITH_RACK = 11
MIN_BYTES = 1
"""A fetch is answered as soon as at least one byte is available."""

_REQUEST_HEAD = struct.Struct(">ihhi")
INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
FETCH_HEAD = struct.Struct(">iiiibii")
_FETCH_PARTITION = struct.Struct(">iiqqi")
_FETCH_PARTITION_BEFORE_EPOCHS = struct.Struct(">iqqi")
FETCHED_PARTITION = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_PRODUCE_HEAD = struct.Struct(">hi")
_PARTITION_AND_SIZE = struct.Struct(">ii")
_PRODUCED_PARTITION = struct.Struct(">ihqqqi")
Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """The offset from which to read one partition, and the most bytes to read of it."""

    topic: str
    partition: int
    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchSession:
    """Tell what a broker remembers of a fetcher (KIP-227).  Id 0 asks for a session; epoch -1 means no session."""

    id: int = 0
    epoch: int = -1


NO_SESSION = FetchSession()


@dataclass(slots=True)
class Fetched(OfPartition):
    """One partition of a fetch answer.

    `block` points into the receive buffer, and is valid until that buffer is given back.  `aborted` holds (producer
    id, first upstream offset).  `preferred` is the node id of the replica from which the leader wants us to read
    (KIP-392), or -1.  `asked_offset` is the offset from which the fetch asked; the fetcher fills it in.
    """

    topic: str
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    aborted: list[tuple[int, int]]
    block: memoryview
    preferred: int = -1
    asked_offset: int = -1

    def readable_end(self, *, read_committed: bool) -> int:
        """Return up to where readers of that isolation level may read (upstream); old brokers tell one end only."""
        stable = self.last_stable_offset if read_committed else -1
        return stable if stable >= 0 else self.high_watermark


@dataclass(slots=True)
class Produced(OfPartition):
    """The broker's answer for one partition: error code, base (downstream) offset, and errors of single records.

    `record_errors` are (index in the batch, message).
    """

    topic: str
    partition: int
    error: int
    base_offset: int
    record_errors: tuple[tuple[int, str], ...] = ()
    message: str = ""


@functools.lru_cache(1000)
def string(text: str | None) -> bytes:
    """Encode a nullable string with its int16 length.  Cached: every request names the same topics."""
    if text is None:
        return b"\xff\xff"
    raw = text.encode()
    return INT16.pack(len(raw)) + raw


def framed(api: int, version: int, correlation: int, client_id: str, body: Sequence[Buffer]) -> list[Buffer]:
    """Put size and request header (v1) in front of a body of several buffers, without joining them."""
    name = string(client_id)
    size = 8 + len(name) + sum(map(len, body))
    return [_REQUEST_HEAD.pack(size, api, version, correlation) + name, *body]


def fetch_request(
    positions: Iterable[FetchPosition],
    *,
    max_bytes: int,
    max_wait_ms: int,
    read_committed: bool,
    session: FetchSession = NO_SESSION,
    forgotten: Iterable[TopicPartition] = (),
    rack: str = "",
    version: int = FETCH_VERSION,
) -> bytes:
    """Return the body of a fetch of several partitions; brokers fill their answer in the order given.

    Within a session name only the partitions whose position changed, and in `forgotten` those no longer wanted.  A
    `rack` lets leaders name a replica there instead of answering with records; brokers before v11 (2.3) do not know it.
    """
    topics = grouped((position.topic, _asked(position, version)) for position in positions)
    gone = grouped((topic, INT32.pack(partition)) for topic, partition in forgotten)
    isolation = int(read_committed)
    parts = [FETCH_HEAD.pack(-1, max_wait_ms, MIN_BYTES, max_bytes, isolation, session.id, session.epoch)]
    for by_topic in (topics, gone):
        parts.append(INT32.pack(len(by_topic)))
        for topic, partitions in by_topic.items():
            parts += (string(topic), INT32.pack(len(partitions)), *partitions)
    if version >= _WITH_RACK:
        parts.append(string(rack))
    return b"".join(parts)


def _asked(position: FetchPosition, version: int) -> bytes:
    rest = position.offset, -1, position.max_bytes
    if version < _WITH_LEADER_EPOCH:
        return _FETCH_PARTITION_BEFORE_EPOCHS.pack(position.partition, *rest)
    return _FETCH_PARTITION.pack(position.partition, -1, *rest)


def fetch_response(payload: memoryview, version: int = FETCH_VERSION) -> tuple[int, int, int, list[Fetched]]:
    """Cut an answer (behind its correlation id); return throttle (ms), error code, session id, and partitions."""
    (throttle_ms,) = INT32.unpack_from(payload, 0)
    error, session = INT16.unpack_from(payload, 4)[0], INT32.unpack_from(payload, 6)[0]
    at = 10
    (topics,) = INT32.unpack_from(payload, at)
    at += 4
    result: list[Fetched] = []
    for _ in range(topics):
        topic, at = read_string(payload, at)
        (partitions,) = INT32.unpack_from(payload, at)
        at += 4
        for _ in range(partitions):
            number, code, high_watermark, stable, _ = FETCHED_PARTITION.unpack_from(payload, at)
            at += FETCHED_PARTITION.size
            aborted, at = _read_aborted(payload, at)
            preferred = -1
            if version >= _WITH_RACK:
                (preferred,) = INT32.unpack_from(payload, at)
                at += INT32.size
            (size,) = INT32.unpack_from(payload, at)
            at += INT32.size
            size = max(size, 0)
            block = payload[at : at + size]
            at += size
            result.append(Fetched(topic, number, code, high_watermark, stable, aborted, block, preferred))
    return throttle_ms, error, session, result


def produce_request(
    batches: Mapping[str, Sequence[tuple[int, memoryview]]],
    *,
    transactional_id: str | None,
    timeout_ms: int,
) -> list[Buffer]:
    """Return the body of a produce request with acks=all: topic -> (partition, batch), at most one batch a partition.

    Brokers refuse two batches of one partition in a request or, worse, silently drop one.
    """
    head = bytearray(string(transactional_id) + _PRODUCE_HEAD.pack(-1, timeout_ms) + INT32.pack(len(batches)))
    parts: list[Buffer] = []
    for topic, partitions in batches.items():
        head += string(topic) + INT32.pack(len(partitions))
        for partition, batch in partitions:
            head += _PARTITION_AND_SIZE.pack(partition, len(batch))
            parts += (bytes(head), batch)
            head = bytearray()
    return parts


def produce_response(payload: memoryview) -> list[Produced]:
    """Decode a produce answer (behind its correlation id).  Topics come in any order: match by name and number."""
    (topics,) = INT32.unpack_from(payload, 0)
    at = 4
    result: list[Produced] = []
    for _ in range(topics):
        topic, at = read_string(payload, at)
        (partitions,) = INT32.unpack_from(payload, at)
        at += 4
        for _ in range(partitions):
            number, code, base, _, _, count = _PRODUCED_PARTITION.unpack_from(payload, at)
            at += _PRODUCED_PARTITION.size
            errors, at = _read_record_errors(payload, at, count)
            message, at = read_string(payload, at)
            result.append(Produced(topic, number, code, base, errors, message))
    return result


def produce_throttle_ms(payload: memoryview) -> int:
    """Return for how long the broker reads nothing more from the connection of a produce answer (KIP-219)."""
    return int(INT32.unpack_from(payload, len(payload) - INT32.size)[0])


def _read_record_errors(payload: memoryview, at: int, count: int) -> tuple[tuple[tuple[int, str], ...], int]:
    if count <= 0:
        return (), at
    errors = []
    for _ in range(count):
        (index,) = INT32.unpack_from(payload, at)
        text, at = read_string(payload, at + 4)
        errors.append((index, text))
    return tuple(errors), at


def read_string(payload: memoryview, at: int) -> tuple[str, int]:
    """Decode a nullable string at `at`, null as ""; return it and where it ends."""
    (length,) = INT16.unpack_from(payload, at)
    at += 2
    if length < 0:
        return "", at
    return str(payload[at : at + length], "utf-8"), at + length


def _read_aborted(payload: memoryview, at: int) -> tuple[list[tuple[int, int]], int]:
    (count,) = INT32.unpack_from(payload, at)
    at += 4
    if count <= 0:
        return [], at
    end = at + count * _ABORTED.size
    return list(_ABORTED.iter_unpack(payload[at:end])), end
