"""Make the records that change which incarnation progress and map are about, and those of lost ranges.

All records of a change go into one transaction behind the fence, so progress, map and ledger always agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.cluster.values import Configs, value_of
from twinlog.errors import TwinlogError
from twinlog.formats.ledger.entry import LEDGER_PARTITION
from twinlog.formats.ledger.records import Gap, GapCause, LedgerRecord
from twinlog.formats.ledger.topics import Beginning, Incarnation, IncarnationReason, LeaderEpoch
from twinlog.formats.map.offset_map import MapKey, encode_segment
from twinlog.formats.map.packed_map import PackedMap
from twinlog.kafka_types import Positions, SourceIncarnation, TopicPartition
from twinlog.lane.copy.state_records import StateRecord, map_record, progress_record
from twinlog.lane.spec import StateTopics
from twinlog.lifecycle.plan import Lost, gap_of
from twinlog.offsets.segments import MapSegment, cut
from twinlog.offsets.spans import Spans
from twinlog.state.ledger import Ledger
from twinlog.state.progress import PackedMaps
from twinlog.topics.discovery import DiscoveredTopic

Stored = Mapping[SourceIncarnation, Sequence[int]]
"""First upstream offsets of the stored segments of each map."""


def noted(state: StateTopics, record: LedgerRecord) -> StateRecord:
    """Make the record that writes a ledger entry."""
    return StateRecord.of_ledger(state.ledger_topic, record)


def forgotten(state: StateTopics, record: LedgerRecord) -> StateRecord:
    """Make the record that forgets a ledger entry."""
    return StateRecord(state.ledger_topic, LEDGER_PARTITION, record.key(), None)


def progress(state: StateTopics, partition: TopicPartition, last: int | None) -> StateRecord:
    """Make the record that sets the last copied upstream offset; None (or one below 0) forgets it."""
    return progress_record(state, *partition, None if last is None or last < 0 else last)


def piece(
    state: StateTopics, life: SourceIncarnation, first_upstream: int, made: MapSegment | None
) -> StateRecord:
    """Make the record of the map segment that begins at an upstream offset; None forgets it."""
    return map_record(state, MapKey(*life, first_upstream), None if made is None else encode_segment(made))


def current_incarnation(
    topic: DiscoveredTopic, ledger: Ledger, source_cluster_id: str, now_ms: int, reason: IncarnationReason
) -> Incarnation:
    """Return the incarnation that is copied from now on, into the copy as it is."""
    before = ledger.incarnations.get(topic.topic)
    return Incarnation(
        topic.topic,
        topic.topic_id,
        now_ms,
        topic.remote_topic,
        remote_topic_id=topic.copy_id,
        source_cluster_id=source_cluster_id,
        number=1 if before is None else before.number + 1,
        reason=reason,
    )


def beginning(topic: DiscoveredTopic, now_ms: int, *, from_latest: bool = False) -> Beginning | None:
    """Return where the copy of an incarnation begins; None while offsets of some partitions cannot be read.

    It is where discovery says, else at the first record, or with `from_latest` behind the last one.
    """
    if len(topic.partitions) < topic.partition_count:
        return None
    starts = {str(number): start for number, start in topic.log_starts.items()}
    offsets = {str(it.partition): it.beginning(latest=from_latest) for it in topic.partitions}
    copies = [partition.target for partition in topic.partitions]
    empty = topic.remote is None or all(copy is not None and copy.log_start == copy.end for copy in copies)
    return Beginning(topic.topic, topic.topic_id, offsets, starts, now_ms, empty)


def adoption(
    state: StateTopics,
    topic: DiscoveredTopic,
    ledger: Ledger,
    stored: Positions,
    source_cluster_id: str,
    now_ms: int,
) -> Iterator[StateRecord]:
    """Copy a recreated topic after its earlier incarnation, from the new one's first record.

    Progress of the earlier incarnation is forgotten in the same transaction: from then on progress is about the new
    one.
    """
    for partition in stored:
        if partition.topic == topic.topic:
            yield progress(state, partition, None)
    yield from (forgotten(state, epoch) for epoch in ledger.leader_epochs if epoch.topic == topic.topic)
    if topic.topic in ledger.beginnings:
        yield forgotten(state, ledger.beginnings[topic.topic])
    yield noted(
        state, current_incarnation(topic, ledger, source_cluster_id, now_ms, IncarnationReason.APPEND)
    )
    begins = beginning(topic, now_ms)
    if begins is not None:
        yield noted(state, begins)
    yield from (noted(state, gap) for gap in ended(ledger, topic.topic, now_ms))


def ended(ledger: Ledger, topic: str, now_ms: int) -> Iterator[Gap]:
    """Yield the gaps known to be lost with the incarnation that ended: what was known of it and not copied.

    The source is the last cycle report: records written after it are not counted.
    """
    life = ledger.incarnations[topic]
    summary = ledger.last_report.summary if ledger.last_report is not None else {}
    next_upstream = summary.get("next_upstream", {}).get(topic, {})
    for number, records in sorted(summary.get("lag", {}).get(topic, {}).items(), key=lambda it: int(it[0])):
        first = next_upstream.get(number, 0)
        names = topic, int(number), first, first + records - 1
        yield Gap(*names, GapCause.RECREATED, now_ms, records, life.topic_id, copied_past=True)


def crossing(state: StateTopics, gap: Gap, copy_end: int | None = None) -> Iterator[StateRecord]:
    """Go on behind offsets that are not copied; the map says that none of them was.

    `copy_end` is where the copy ends now (downstream), None if it is not known.
    """
    yield noted(state, gap)
    yield progress_record(state, gap.topic, gap.partition, gap.last_offset, copy_end)
    yield piece(state, gap.life, gap.first_offset, MapSegment(gap.first_offset, gap.last_offset + 1, ()))


def rewinding(
    state: StateTopics, lost: Lost, gap: Gap, maps: PackedMaps, ledger: Ledger
) -> Iterator[StateRecord]:
    """Go on where a truncated log and its copy part.

    The copy keeps the records that the source has lost, but the map forgets them: those upstream offsets hold other
    records now. Audit results are forgotten too: the next audit begins anew, and none of the new records counts as
    proved. Raises UnreadableMap if the map cannot be read.
    """
    life = lost.life
    packed = maps.get(life)
    if packed is not None and (
        kept := Spans.copies_of(packed.open(), lost.first_offset, lost.last_offset + 1)
    ):
        gap = replace(gap, kept_from=int(kept.firsts[0]), kept_end=int(kept.ends[-1]))
    yield noted(state, gap)
    yield progress(state, lost.topic_partition, lost.first_offset - 1)
    yield from map_cut(state, life, packed, lost.first_offset)
    yield noted(state, LeaderEpoch(*life, lost.epoch, lost.first_offset))
    yield from begun_anew(state, life, ledger, lost.first_offset)


def map_cut(
    state: StateTopics, life: SourceIncarnation, packed: PackedMap | None, offset: int
) -> Iterator[StateRecord]:
    """Forget what a map says of upstream offsets from `offset` on.  Raises UnreadableMap."""
    known = packed.pieces() if packed is not None else None
    if known is not None:
        for row in np.flatnonzero(known.end > offset).tolist():
            one = known.piece(row)
            yield piece(state, life, one.first_upstream, cut(one, offset))


def begun_anew(
    state: StateTopics, life: SourceIncarnation, ledger: Ledger, offset: int
) -> Iterator[StateRecord]:
    """Forget the audits of a partition that is copied from an earlier offset, and let its copy begin there at latest.

    Records will be copied behind what was audited: the next audit begins anew.
    """
    yield from (forgotten(state, audit) for audit in ledger.audits if audit.life == life)
    begins = ledger.beginnings.get(life.topic)
    number = str(life.partition)
    if begins is not None and begins.offsets.get(number, 0) > offset:
        yield noted(state, replace(begins, offsets={**begins.offsets, number: offset}))


LOOK_BACK = 64
"""Downstream offsets searched for the last copied record: the very last offsets may be transaction markers."""


def describe(
    clusters: Clusters, lost: Lost, ledger: Ledger, now_ms: int, cause: GapCause | None = None
) -> Gap:
    """Describe a lost range: its offsets, its time range, and its cause, unless that is known.

    The number of offsets is an upper bound of its records. If the ledger knows the range already, it keeps the time
    when it was found.
    """
    known = gap_of(ledger, lost)
    before = newest_time(clusters.target, lost.remote)
    after = None if lost.truncated else _time(clusters.source, lost.topic_partition, lost.last_offset + 1, 1)
    if lost.truncated:
        cause = GapCause.TRUNCATION
    elif cause is None:
        configs = _configs(clusters.source, lost.topic)
        limited = _limit(configs, "retention.bytes") >= 0
        size = _size(clusters.source, lost.topic_partition) if limited else None
        cause = deletion_cause(configs, before, now_ms, size)
    return Gap(
        lost.topic,
        lost.partition,
        lost.first_offset,
        lost.last_offset,
        cause,
        known.at_ms if known is not None else now_ms,
        lost.last_offset - lost.first_offset + 1,
        lost.topic_id,
        first_ms=known.first_ms if known is not None else before,
        last_ms=after,
        copied_past=lost.past,
        grown_ms=_grown(known, lost.last_offset, now_ms),
    )


def _grown(known: Gap | None, last_offset: int, now_ms: int) -> int | None:
    """Return when a gap was last found longer than it was recorded. Pure."""
    if known is None:
        return None
    return known.grown_ms if last_offset <= known.last_offset else now_ms


def deletion_cause(
    configs: Configs, newest_copied_ms: int | None, now_ms: int, size: int | None = None
) -> GapCause:
    """Tell DeleteRecords from retention, as far as the topic's settings allow. Pure.

    If cleanup.policy has delete, retention deletes whole segments: those whose records are all older than retention.ms,
    and the oldest while the log keeps retention.bytes without them. So a log of a smaller `size` (None: unknown) was
    not cut by size. The lost records are not older than the last copied one. So if that one has not expired, they were
    not cut by age. In doubt the cause is retention.
    """
    if not configs:
        return GapCause.RETENTION
    if "delete" not in (value_of(configs, "cleanup.policy") or "delete"):
        return GapCause.DELETE_RECORDS
    most, keeps_ms = _limit(configs, "retention.bytes"), _limit(configs, "retention.ms")
    if most >= 0 and (size is None or size >= most):
        return GapCause.RETENTION
    if keeps_ms < 0 or (newest_copied_ms is not None and newest_copied_ms > now_ms - keeps_ms):
        return GapCause.DELETE_RECORDS
    return GapCause.RETENTION


def _limit(configs: Configs, name: str) -> int:
    return int(value_of(configs, name) or -1)


def _size(cluster: ClusterReader, partition: TopicPartition) -> int | None:
    """Return the bytes of a log; None if the cluster does not tell."""
    try:
        return cluster.log_dirs().sizes.get(partition)
    except TwinlogError:
        return None


def newest_time(cluster: ClusterReader, partition: TopicPartition) -> int | None:
    """Return the timestamp of the last record of a partition; None if there is no record near its end."""
    try:
        bounds = cluster.offsets([partition]).require()[partition]
    except TwinlogError:
        return None
    return _time(cluster, partition, max(bounds.log_start, bounds.stable_end - LOOK_BACK), LOOK_BACK)


def _time(cluster: ClusterReader, partition: TopicPartition, offset: int, limit: int) -> int | None:
    """Return the timestamp of the last of `limit` records from `offset` on; None if there is none to be read."""
    try:
        records = cluster.read_records({partition: offset}, limit).get(partition, ())
    except TwinlogError:
        return None
    return records[-1].timestamp if records and records[-1].timestamp >= 0 else None


def _configs(cluster: ClusterReader, topic: str) -> Configs:
    return cluster.topic_configs([topic]).found.get(topic, {})
