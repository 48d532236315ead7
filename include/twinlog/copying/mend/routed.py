"""Rewrite markers that the target lost from topics to which rules route records, or stop what is routed there.

A routed record was written in the transaction of its source partition's progress.  So progress tells the outcome: the
record is committed if progress has reached the offset that its headers name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from twinlog.batches.header import BatchHeader
from twinlog.batches.record import key_value_headers, read_records
from twinlog.batches.routed import Origin, origin_of
from twinlog.copying.mend.copies import LEADER_SECONDS, MARKERS_SECONDS, rewrite_markers
from twinlog.copying.mend.outcomes import Outcome
from twinlog.copying.ranges import ResolvedRanges, StoppedPartition
from twinlog.errors import FormatError
from twinlog.formats.ledger.audit import Unproved
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.range_errors import NO_LEADER
from twinlog.lane.fence.fence import Grant
from twinlog.lane.fence.lost_progress import LOST_MARKER, WHAT_TO_DO
from twinlog.lane.open_transactions import HangingTransaction, wait_until_ended, wait_until_led
from twinlog.logs.partition_reader import Block, PartitionReader
from twinlog.protocol.brokers import Brokers
from twinlog.topics.discovery import DiscoveredTopic

FETCH_BYTES = 1 << 20


def without_lost_markers(
    target: Brokers, resolved: ResolvedRanges, topics: Iterable[DiscoveredTopic], grant: Grant, alias: str
) -> ResolvedRanges:
    """End our lanes' open transactions in the routed topics, and stop ranges that are not safe to route there.

    A range stops if the outcome of such a transaction is unknown, or if a partition has no leader that could tell.
    Call it behind the fence, while no lane writes, with progress whole.  Raises as `rewrite_markers`.
    """
    places = {place for it in resolved.ranges for place in it.routed_places}
    if not places:
        return resolved
    seen = wait_until_led(target, places, grant.ours, LEADER_SECONDS)
    still_open = seen.open
    if still_open:
        reader = PartitionReader(
            target, Unproved.TARGET_RETENTION, fetch_bytes=FETCH_BYTES, read_committed=False
        )
        ids = {it.topic: it.topic_id for it in topics}
        endings = {
            (place, it.producer_id): outcome(_first_origin(reader, place, it), ids, grant.progress)
            for place, it in still_open.items()
        }
        rewrite_markers(target, grant.writers, endings)
        still_open = wait_until_ended(target, still_open, grant.ours, MARKERS_SECONDS).open
    lost = {
        place: f"cluster {alias} lost the end of a transaction: {place[0]}-{place[1]}, to which it is routed, holds"
        f" records open from offset {it.first_offset} on, and they may have been committed; {WHAT_TO_DO}"
        for place, it in still_open.items()
    }
    missing = f"has no leader on cluster {alias} that could be asked whether it holds all it was given"
    leaderless = {
        place: f"{place[0]}-{place[1]}, to which it is routed, {missing}" for place in seen.leaderless
    }
    return _without(_without(resolved, lost, LOST_MARKER), leaderless, NO_LEADER)


def outcome(
    origin: Origin | None, topic_ids: Mapping[str, str], progress: Mapping[TopicPartition, int]
) -> Outcome:
    """Judge a transaction by the first record that it left open.  Pure.

    `topic_ids` are the incarnations of source topics, of which `progress` tells the last copied upstream offset.
    """
    if origin is None or topic_ids.get(origin.topic) != origin.topic_id:
        return Outcome.UNKNOWN
    last = progress.get(TopicPartition(origin.topic, origin.partition), -1)
    return Outcome.COMMITTED if origin.offset <= last else Outcome.ABORTED


def _first_origin(reader: PartitionReader, place: TopicPartition, found: HangingTransaction) -> Origin | None:
    """Return where the first record of an open transaction comes from, None if that cannot be read."""
    for item in reader.read(*place, found.first_offset, found.first_offset + 1):
        for header, data in item.batches() if isinstance(item, Block) else ():
            if header.producer_id == found.producer_id:
                return next(_origins(header, data), None)
    return None


def _origins(header: BatchHeader, data: memoryview) -> Iterator[Origin | None]:
    try:
        for record in read_records(header, data):
            _, _, headers = key_value_headers(record.rest)
            yield origin_of([(name.encode(), content) for name, content in headers])
    except FormatError:
        return


def _without(resolved: ResolvedRanges, reasons: Mapping[TopicPartition, str], code: str) -> ResolvedRanges:
    """Stop the ranges that route records to a place with a reason against it."""
    found = [
        (it, next((reasons[place] for place in it.routed_places if place in reasons), ""))
        for it in resolved.ranges
    ]
    stopped = (
        StoppedPartition(it.topic, it.partition, code, f"{it.topic}-{it.partition}: {why}")
        for it, why in found
        if why
    )
    return ResolvedRanges(tuple(it for it, why in found if not why), (*resolved.stopped, *stopped))
