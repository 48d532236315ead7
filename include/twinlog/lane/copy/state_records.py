"""Build the records that twinlog itself writes into a lane's transaction: progress, offset map, ledger entries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from twinlog.batches.build import LARGEST_PREFIX
from twinlog.batches.outgoing import Outgoing, Stretches
from twinlog.batches.record import Headers, Record, build_batch, record_rest
from twinlog.formats.lane_counts import LaneCounts, lane_header
from twinlog.formats.ledger.entry import LEDGER_PARTITION, LedgerEntry
from twinlog.formats.ledger.parts import in_parts
from twinlog.formats.ledger.records import Quarantine
from twinlog.formats.ledger.topics import CopiedThrough, LeaderEpoch
from twinlog.formats.map.offset_map import MapKey, encode_map_key
from twinlog.formats.mm2 import connect_offset
from twinlog.kafka_types import OfPartition, TopicPartition
from twinlog.lane.copy.range_state import RangeCopy
from twinlog.lane.spec import StateTopics

BATCH_BYTES = 512 * 1024
"""The most bytes of records in one batch, well below Kafka's default of max.message.bytes.

Ten thousand partitions that are copied for the first time write 1.2 MB to the ledger's single partition.
"""


@dataclass(frozen=True, slots=True)
class StateRecord(OfPartition):
    """One record for a topic of our own: its partition, its key, its value (None: a tombstone), its headers."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    splits: bool = False

    @classmethod
    def of_ledger(cls, ledger_topic: str, entry: LedgerEntry) -> StateRecord:
        """Make the record of a ledger entry; a large one is written in parts, which readers of a ledger join."""
        return cls(ledger_topic, LEDGER_PARTITION, entry.key(), entry.value(), splits=True)


def of_ranges(
    state: StateTopics, progressed: Iterable[RangeCopy], now_ms: int, lane: LaneCounts
) -> Iterator[StateRecord]:
    """Yield progress, map and quarantined offsets of the ranges that advanced in the open transaction.

    Progress tells with it what the `lane` has copied then, and how much of that is of its partition.
    """
    for copy in progressed:
        spec = copy.spec
        own = lane._replace(
            partition_records=copy.counts.records + copy.open_counts.records,
            partition_bytes=copy.counts.bytes + copy.open_counts.bytes,
        )
        place = spec.topic, spec.partition
        yield progress_record(state, *place, copy.sent - 1, copy.sent_end, lane_header(own))
        # Also without extents: the segment then says that nothing was there to copy, so the map knows its range.
        for first_upstream, piece in copy.map_pieces():
            key = MapKey(*spec.life, first_upstream)
            yield map_record(state, key, piece)
        if copy.epoch != copy.committed_epoch:
            known = LeaderEpoch(*spec.life, copy.epoch, copy.committed)
            yield StateRecord.of_ledger(state.ledger_topic, known)
        if copy.notes_chain:
            chain = CopiedThrough(*spec.life, spec.chain.print, spec.start)
            yield StateRecord.of_ledger(state.ledger_topic, chain)
        for offset, reason in copy.newly_quarantined():
            entry = Quarantine(spec.topic, spec.partition, offset, reason, now_ms, spec.topic_id)
            yield StateRecord.of_ledger(state.ledger_topic, entry)


def places(state: StateTopics, ranges: Collection[RangeCopy]) -> set[TopicPartition]:
    """Return the partitions to which `of_ranges` writes of ranges, as far as they are known before anything is sent."""
    progress = {
        TopicPartition(state.offsets_topic, _progress_place(state, *copy.source)[1]) for copy in ranges
    }
    maps = {
        TopicPartition(state.map_topic, map_partition(*copy.source, state.map_partitions)) for copy in ranges
    }
    return progress | maps


def own_key(state: StateTopics, key: bytes) -> connect_offset.SourceOffsetKey | None:
    """Read a key of the progress topic if it belongs to this flow, else None: other connectors may share the topic."""
    return connect_offset.parse_source_key(key, state.connector_name, state.source_alias)


def progress_record(
    state: StateTopics,
    topic: str,
    partition: int,
    last_upstream: int | None,
    copy_end: int | None = None,
    told: Headers = (),
) -> StateRecord:
    """Make the record that a source partition is copied through `last_upstream`; None forgets its progress.

    `copy_end` is the end of the copy at that progress (downstream), None if it is not known; `told` are more headers.
    """
    key, number = _progress_place(state, topic, partition)
    value = None if last_upstream is None else connect_offset.offset_value(last_upstream)
    headers = (*connect_offset.copy_end_header(copy_end), *told)
    return StateRecord(state.offsets_topic, number, key, value, headers)


def map_record(state: StateTopics, key: MapKey, piece: bytes | None) -> StateRecord:
    """Make the record that stores a segment of the map; None forgets it."""
    number = map_partition(key.topic, key.partition, state.map_partitions)
    return StateRecord(state.map_topic, number, encode_map_key(key), piece)


def _progress_place(state: StateTopics, topic: str, partition: int) -> tuple[bytes, int]:
    return _key_and_partition(
        state.connector_name, state.source_alias, topic, partition, state.offsets_partitions
    )


@cache
def _key_and_partition(
    connector_name: str, alias: str, topic: str, partition: int, partitions: int
) -> tuple[bytes, int]:
    key = connect_offset.source_offset_key(connector_name, alias, partition, topic)
    return key, connect_offset.partition_for(key, partitions)


@cache
def map_partition(topic: str, partition: int, partitions: int) -> int:
    """Return the partition of the map topic that holds all segments of a source partition: they are read together."""
    return connect_offset.partition_for(f"{topic}-{partition}".encode(), partitions)


def batches(records: Iterable[StateRecord], timestamp_ms: int) -> dict[TopicPartition, list[Outgoing]]:
    """Build uncompressed batches of about BATCH_BYTES for each partition, with the records in the order given."""
    grouped: dict[TopicPartition, list[Record]] = {}
    for record in records:
        group = grouped.setdefault(record.topic_partition, [])
        written: Iterable[tuple[bytes | None, bytes | None]] = [(record.key, record.value)]
        if record.splits and record.key is not None:
            written = in_parts(record.key, record.value, timestamp_ms)
        group += [Record(0, timestamp_ms, record_rest(*it, record.headers)) for it in written]
    return {
        partition: [
            Outgoing.built(build_batch(part, 0), Stretches(0, [0, 0, len(part)])) for part in _parts(group)
        ]
        for partition, group in grouped.items()
    }


def _parts(records: Iterable[Record]) -> Iterator[list[Record]]:
    part: list[Record] = []
    room = BATCH_BYTES
    for record in records:
        size = len(record.rest) + LARGEST_PREFIX
        if part and size > room:
            yield part
            part, room = [], BATCH_BYTES
        part.append(record)
        room -= size
    yield part
