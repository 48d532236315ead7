"""Find records that the source still holds and that the copy has lost, though not by the copy's own retention.

    source    [log start ............ young ............................ end)
    copy      deleted: copied, expired | deleted early | [log start .... end)

What lies in front of the copy's log start was copied and is gone.  The copy's retention explains that of records older
than its retention.ms, and of all of them if the log is still as large as its retention.bytes.  Nothing explains the
others: somebody has deleted them (DeleteRecords), or the copy kept records for a shorter time than it does now.  On
doubt records count as deleted early.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinlog.audit.map_holes import bounds_of
from twinlog.clock import CLOCKS_APART_MS
from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.cluster.values import Configs, value_of
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable, TwinlogError
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.grouped import without_keys
from twinlog.kafka_types import Issue, Positions, TopicPartition
from twinlog.state.ledger import Ledger
from twinlog.state.progress import PackedMaps
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic, Discovery
from twinlog.topics.other_writers import read_other_writers

DELETED_EARLY = "deleted-early"
"""Code of a partition whose copy lacks records that the source holds and that its retention has not deleted."""


@dataclass(frozen=True, slots=True)
class DeletedEarly:
    """Upstream offsets [`start`, `end`) were copied, the copy no longer has them; at most `records` records.

    The copy's log begins at `log_start` (downstream).
    """

    start: int
    end: int
    records: int
    log_start: int


@dataclass(frozen=True, slots=True)
class _Missing:
    """Copied upstream offsets from `begin` on, which the source holds and the copy does not; they end by `limit`.

    `row` is the segment of the map that holds the copy's log start.
    """

    at: TopicPartition
    remote: TopicPartition
    packed: PackedMap
    row: int
    begin: int
    limit: int
    log_start: int


def deleted_early(
    flow: FlowSettings,
    clusters: Clusters,
    discovery: Discovery,
    ledger: Ledger,
    maps: PackedMaps,
    now_ms: int,
) -> Mapping[TopicPartition, DeletedEarly]:
    """Find what was deleted early, by source partition; asks the clusters only about copies that have lost records.

    The map must have been read before the offsets of the discovery.  Raises ClusterUnreachable and ClusterRefused.  A
    partition whose map cannot be read is left out: that is a finding of its own.
    """
    missing = tuple(_missing(discovery, ledger, maps))
    if not missing:
        return {}
    starts = _unexplained(flow, clusters, missing, now_ms)
    found = {it.at: early for it in missing if (early := _early(it, starts.get(it.at))) is not None}
    return _without_loopback(flow, clusters, discovery, missing, found)


def issue_of(topic: str, copy: str, at: TopicPartition, it: DeletedEarly) -> Issue:
    """Report it to a person."""
    message = (
        f"{topic}-{at.partition}: upstream offsets {it.start} to {it.end - 1} were copied, and the source still has"
        f" them, at most {it.records} records; {copy}-{at.partition} begins behind them, at {it.log_start}, and its"
        " own retention does not explain that"
    )
    hint = (
        f"somebody deleted them from the copy, or its retention was shorter: `twinlog topics rebuild --topic {topic}`"
        " copies them anew"
    )
    return Issue(DELETED_EARLY, topic, message, hint)


def _missing(discovery: Discovery, ledger: Ledger, maps: PackedMaps) -> Iterator[_Missing]:
    for topic in discovery.unblocked:
        for partition in topic.partitions:
            packed = maps.seen(partition.life)
            if isinstance(packed, PackedMap):
                yield from _missing_in(topic, partition, packed, ledger)


def _missing_in(
    topic: DiscoveredTopic, partition: DiscoveredPartition, packed: PackedMap, ledger: Ledger
) -> Iterator[_Missing]:
    copy = partition.target
    if copy is None or not copy.log_start or not len(packed.first):
        return
    with_runs = np.flatnonzero(packed.runs > 0)
    below = with_runs[packed.downstream[with_runs] <= copy.log_start]
    if not len(below):
        return
    life = partition.life
    begins = bounds_of(ledger, life, None, copy.log_start, copy.stable_end).begins
    if begins is None:  # of another engine's copies, also what had left before the first look
        seen = ledger.observed.get(life)
        begins = min(int(packed.first[0]), int(packed.first[0]) if seen is None else seen.begins)
    begin = max(partition.source.log_start, begins)
    limit = int(packed.end[below[-1]])
    if begin < limit:
        remote = topic.at_target(partition.partition)
        yield _Missing(life.topic_partition, remote, packed, int(below[-1]), begin, limit, copy.log_start)


def _unexplained(
    flow: FlowSettings, clusters: Clusters, missing: Sequence[_Missing], now_ms: int
) -> Positions:
    """Return from which upstream offset on the copy's retention explains nothing; left out if it explains all."""
    configs = clusters.target.topic_configs(sorted({it.remote.topic for it in missing})).found
    by_size = _explained_by_size(missing, configs, clusters.target)
    starts: dict[TopicPartition, int] = {}
    timed: defaultdict[int, list[_Missing]] = defaultdict(list)
    for it in missing:
        if it.at in by_size:
            continue
        keeps_ms = _keeps_ms(configs.get(it.remote.topic, {}))
        if keeps_ms is None:
            starts[it.at] = it.begin
        else:
            timed[keeps_ms].append(it)
    for keeps_ms, several in timed.items():
        young = clusters.source.offsets_at([it.at for it in several], now_ms - keeps_ms + CLOCKS_APART_MS)
        offsets = young.require()
        ageless = _ageless(flow, clusters.source, [it for it in several if offsets[it.at] is None])
        for it in several:
            offset = it.begin if it.at in ageless else offsets[it.at]
            if offset is not None and offset < it.limit:
                starts[it.at] = max(it.begin, offset)
    return starts


def _ageless(
    flow: FlowSettings, source: ClusterReader, missing: Iterable[_Missing]
) -> frozenset[TopicPartition]:
    """Return the partitions whose records have no timestamps: how old they are is unknown."""
    starts = {it.at: it.begin for it in missing}
    if not starts:
        return frozenset()
    read = source.read_records(starts, 1, read_committed=flow.copy.read_committed)
    return frozenset(at for at, records in read.items() if records and records[0].timestamp < 0)


def _keeps_ms(configs: Configs) -> int | None:
    """Return after how many ms retention may delete a record; None if age explains no deletion.

    With LogAppendTime a record's age counts from when it was copied, which nobody has noted.
    """
    if not _deletes(configs) or value_of(configs, "message.timestamp.type") == "LogAppendTime":
        return None
    milliseconds = int(value_of(configs, "retention.ms") or -1)
    return milliseconds if milliseconds >= 0 else None


def _explained_by_size(
    missing: Iterable[_Missing], configs: Mapping[str, Configs], target: ClusterReader
) -> frozenset[TopicPartition]:
    """Return the partitions whose copy may have been cut to its retention.bytes: that leaves at least as many."""
    most: dict[TopicPartition, int] = {}
    for it in missing:
        own = configs.get(it.remote.topic, {})
        limit = int(value_of(own, "retention.bytes") or -1)
        if _deletes(own) and limit >= 0:
            most[it.remote] = limit
    if not most:
        return frozenset()
    try:
        sizes = target.log_dirs().sizes
    except ClusterUnreachable:
        raise
    except TwinlogError:
        return frozenset()
    return frozenset(
        it.at for it in missing if it.remote in most and sizes.get(it.remote, -1) >= most[it.remote]
    )


def _deletes(configs: Configs) -> bool:
    return "delete" in (value_of(configs, "cleanup.policy") or "")


def _early(it: _Missing, start: int | None) -> DeletedEarly | None:
    """Return what of it was deleted early, by the map; where it tells nothing every offset counts as a record."""
    if start is None:
        return None
    try:
        end = min(it.limit, it.packed.joined(np.array([it.row])).first_upstream_at(it.log_start))
        records = it.packed.upstream_records_between(start, end)
    except UnreadableMap:
        return None
    covered = np.minimum(it.packed.end, end) - np.maximum(it.packed.first, start)
    records += end - start - int(np.maximum(covered, 0).sum())
    return DeletedEarly(start, end, records, it.log_start) if records else None


def _without_loopback(
    flow: FlowSettings,
    clusters: Clusters,
    discovery: Discovery,
    missing: Iterable[_Missing],
    found: Mapping[TopicPartition, DeletedEarly],
) -> Mapping[TopicPartition, DeletedEarly]:
    """Leave out offsets that were never copied: markers, and what the reverse flow wrote; the map forgot which."""
    forgotten = {
        it.at: max(0, min(found[it.at].end, int(it.packed.first[0])) - found[it.at].start)
        for it in missing
        if it.at in found
    }
    unsure = {at for at, records in forgotten.items() if found[at].records == records}
    if not unsure:
        return found
    read = clusters.source.read_records(
        {at: found[at].start for at in unsure}, 1, read_committed=flow.copy.read_committed
    )
    markers = {at for at in unsure if not read.get(at) or read[at][0].offset >= found[at].end}
    others = unsure - markers
    wrote = read_other_writers(flow, clusters, discovery).loopback if others else {}
    loopback = {at for at in others if at in wrote and wrote[at].touches(found[at].start, found[at].end)}
    return without_keys(found, markers | loopback)
