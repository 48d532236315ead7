"""Encode AddPartitionsToTxn and EndTxn by hand: a lane in follow mode sends both with every commit.

Through kafka-python they take a sixth of a commit's CPU.  Layouts: AddPartitionsToTxnRequest.json and
EndTxnRequest.json v2, the last ones without tagged fields, which every broker from 2.8 to 4.x offers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from twinlog.grouped import grouped
from twinlog.kafka_types import TopicPartition
from twinlog.protocol.wire import read_string, string

ADD_PARTITIONS = 24
END_TXN = 26
VERSION = 2

_PRODUCER = struct.Struct(">qh")
_COUNT = struct.Struct(">i")
_ADDED = struct.Struct(">ih")
_BEHIND_THROTTLE = 4


def _writer(transactional_id: str, producer_id: int, producer_epoch: int) -> bytes:
    return string(transactional_id) + _PRODUCER.pack(producer_id, producer_epoch)


def add_request(
    transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
) -> bytes:
    """Return the body of AddPartitionsToTxn."""
    topics = grouped(partitions)
    parts = [_writer(transactional_id, producer_id, producer_epoch), _COUNT.pack(len(topics))]
    for topic, numbers in topics.items():
        parts += (string(topic), struct.pack(f">{len(numbers) + 1}i", len(numbers), *numbers))
    return b"".join(parts)


def add_response(payload: memoryview) -> dict[TopicPartition, int]:
    """Return the error codes of an answer (behind its correlation id)."""
    (topics,) = _COUNT.unpack_from(payload, _BEHIND_THROTTLE)
    at = _BEHIND_THROTTLE + _COUNT.size
    codes: dict[TopicPartition, int] = {}
    for _ in range(topics):
        topic, at = read_string(payload, at)
        (count,) = _COUNT.unpack_from(payload, at)
        at += _COUNT.size
        for number, code in _ADDED.iter_unpack(payload[at : at + count * _ADDED.size]):
            codes[TopicPartition(topic, number)] = code
        at += count * _ADDED.size
    return codes


def end_request(transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool) -> bytes:
    """Return the body of EndTxn."""
    return _writer(transactional_id, producer_id, producer_epoch) + bytes([commit])


def end_response(payload: memoryview) -> int:
    """Return the error code of an answer (behind its correlation id)."""
    return int.from_bytes(payload[_BEHIND_THROTTLE : _BEHIND_THROTTLE + 2], "big", signed=True)
