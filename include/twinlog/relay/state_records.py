"""The records twinlog itself writes into a lane's transaction: progress, offset map, ledger entries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from twinlog.relay.batch import HEADER, BatchHeader
from twinlog.relay.brokers import TopicPartition
from twinlog.relay.rewrite import Record, build_batch, record_rest
from twinlog.relay.transform import Outgoing


@dataclass(frozen=True, slots=True)
class StateRecord:
    """One record for a compacted topic: where it goes, its key, and its value (None: a tombstone)."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None


def batches(records: Iterable[StateRecord], timestamp_ms: int) -> dict[TopicPartition, Outgoing]:
    """Build one uncompressed batch per partition, records in the order given."""
    grouped: dict[TopicPartition, list[Record]] = {}
    for record in records:
        group = grouped.setdefault((record.topic, record.partition), [])
        group.append(Record(len(group), timestamp_ms, record_rest(record.key, record.value)))
    return {partition: _outgoing(group) for partition, group in grouped.items()}


def _outgoing(group: list[Record]) -> Outgoing:
    buffer = build_batch(group, 0)
    header = BatchHeader._make(HEADER.unpack_from(buffer))
    return Outgoing(buffer, header, ((0, len(group)),), len(group))
