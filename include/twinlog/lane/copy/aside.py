"""Build what a lane writes beside the copy, in its transaction: quarantined records, and records that rules route.

Both leave an offset gap in the map.  Both are held in memory until the transaction is committed, and are read again
if it is aborted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from twinlog.batches import quarantine, routed
from twinlog.batches.outgoing import Outgoing
from twinlog.batches.routed import Origin, RoutedRecord
from twinlog.errors import FormatError
from twinlog.grouped import grouped
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.range_state import RangeCopy
from twinlog.lane.spec import RangeSpec, StateTopics

QUARANTINE_PARTITION = 0

Aside = Iterator[tuple[TopicPartition, Outgoing]]


def held_bytes(copies: Iterable[RangeCopy]) -> int:
    """Return about how much memory the records take that wait for the commit."""
    return sum(copy.cutter.routed_bytes + copy.captured_bytes for copy in copies)


def batches(state: StateTopics, copy: RangeCopy, now_ms: int) -> Aside:
    """Yield the batches that a range writes beside its copy in the open transaction, each with its place, in order.

    Raises FormatError, with the upstream offset, for a record that its place cannot hold.
    """
    quarantined = TopicPartition(state.quarantine_topic, QUARANTINE_PARTITION)
    for batch in quarantine.batches(copy.captured(), state.quarantine_max_bytes, now_ms):
        yield quarantined, batch
    yield from _routed(state, copy)


def _routed(state: StateTopics, copy: RangeCopy) -> Aside:
    if not copy.cutter.routed:
        return
    spec, limits = copy.spec, {it.topic: it.max_message_bytes for it in copy.spec.routed}
    codec = copy.cutter.routed_codec if copy.cutter.codec is None else copy.cutter.codec
    for place, records in by_place(spec, copy.routed()).items():
        told = (
            (it, Origin(state.source_alias, spec.topic, spec.topic_id, spec.partition, it.offset))
            for it in records
        )
        try:
            for batch in routed.batches(told, limits[place.topic], codec):
                yield place, batch
        except FormatError as error:
            message = (
                f"{copy.name} at upstream offset {error.data['offset']}: {error.message} ({place.topic})"
            )
            raise FormatError(message, code=error.code, offset=error.data["offset"]) from None


def by_place(spec: RangeSpec, records: Iterable[RoutedRecord]) -> dict[TopicPartition, list[RoutedRecord]]:
    """Group records by the partition that their route gives them, each group in their order."""
    partitions = {it.topic: it.partitions for it in spec.routed}

    def place(it: RoutedRecord) -> TopicPartition:
        number = it.route.place(it.key, spec.partition) % partitions[it.route.to]
        return TopicPartition(it.route.to, number)

    return grouped((place(it), it) for it in records)


def first_routed(copies: Iterable[RangeCopy], place: TopicPartition) -> list[tuple[RangeCopy, int]]:
    """Return the ranges that route records to a partition in the open transaction, each with the first one's offset."""
    return [
        (copy, records[0].offset)
        for copy in copies
        if (records := by_place(copy.spec, copy.routed()).get(place))
    ]
