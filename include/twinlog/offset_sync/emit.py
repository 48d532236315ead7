"""Step `offset_syncs`: derive from the map the offset syncs that MM2's own checkpoint connector translates by.

twinlog does not need them: it translates by the map. They are written for MM2, and for other readers of its topics. So
this step never stops a copy: if the source cannot be written to, that is a warning.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.cluster.api import Cluster, Clusters
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FormatError, TerminalError, TwinlogError
from twinlog.formats.map.packed_map import UnreadableMap
from twinlog.formats.mm2.records import OffsetSync
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.offsets.sync_emission import Pair, due_syncs, holds
from twinlog.state.internal_topics import InternalTopic
from twinlog.state.ledger import NO_INTERNAL_TOPIC, latest_or_empty
from twinlog.state.mm2_topics import syncs_place
from twinlog.state.progress import PackedMaps, packed_maps
from twinlog.topics.own_topics import ensure_topics
from twinlog.topics.snapshot import FlowSnapshot

SYNCS_PARTITION = 0

WHOLE_SECONDS = 600.0
"""How often an emitter reads all of the map: its topic, or the syncs', may have been changed by others."""


@dataclass(frozen=True, slots=True)
class OffsetSyncsResult:
    """The syncs written: `syncs` records about `partitions` partitions into `topic` on `cluster`.

    `warning` says why nothing was written, or which maps could not be read, "" if all is well.
    """

    flow: str
    cluster: str
    topic: str
    syncs: int = 0
    partitions: int = 0
    warning: str = ""


class _UnclearError(Exception):
    """Say that what the map has gained does not go on from a partition's last sync."""


@dataclass(slots=True)
class Emitter:
    """Writes the syncs that are due turn after turn: each reads only what the map has gained since the last one.

    `since` says up to where that was, by partition of the map topic; without it all of the map is read, as after a
    turn that failed, every `WHOLE_SECONDS`, and if what was gained does not go on from the last sync.
    """

    since: Mapping[int, int] = field(default_factory=dict)
    read_whole: float = -math.inf

    def turn(self, flow: FlowSettings, clusters: Clusters) -> None:
        """Do as `run` does."""
        if time.monotonic() - self.read_whole > WHOLE_SECONDS:
            self.since, self.read_whole = {}, time.monotonic()
        since, self.since = self.since, {}
        try:
            records, reached = clusters.target.gained_records(flow.offset_map_topic, since)
        except TerminalError as error:
            if error.code != NO_INTERNAL_TOPIC:
                raise
            return  # nothing was copied yet
        if records:
            maps = packed_maps(flow.offset_map_topic, records)
            try:
                run(flow, clusters, maps=maps, whole=not since)
            except _UnclearError:
                run(flow, clusters)
        self.since = reached


def run(
    flow: FlowSettings,
    clusters: Clusters,
    snapshot: FlowSnapshot | None = None,
    *,
    dry_run: bool = False,
    maps: PackedMaps | None = None,
    whole: bool = True,
) -> OffsetSyncsResult:
    """Write the syncs that are due; running this again writes nothing until more was copied.

    `maps` are those read just now, not `whole` if they hold only what they have gained. Raises ClusterUnreachable and
    ClusterRefused of the target, and FormatError for a map topic that cannot be read. A partition whose own map cannot
    be read gets no sync, and is named in the warning.
    """
    host, topic = syncs_topic(flow, clusters)
    nothing = OffsetSyncsResult(flow.name, host.alias, topic.name)
    if not flow.emit_offset_syncs:
        return nothing
    packed = (snapshot or FlowSnapshot(flow, clusters)).maps if maps is None else maps
    try:
        known = [*packed, *packed.broken]
        topics = clusters.source.describe_topics({it.topic for it in known}).found
        current = [it for it in known if it.topic in topics and topics[it.topic].topic_id == it.topic_id]
        due, broken = due_of(flow, packed, current, _last(host, topic.name), whole=whole)
        if due and not dry_run:
            ensure_topics(host, [topic])
            host.produce(
                topic.name, [InternalRecord(sync.key(), sync.value(), SYNCS_PARTITION) for sync in due]
            )
    except TwinlogError as error:
        if isinstance(error, FormatError) or host is clusters.target:
            raise
        warning = f"no offset syncs on {host.alias}: {error}"
        return OffsetSyncsResult(flow.name, host.alias, topic.name, warning=warning)
    partitions = {sync.topic_partition for sync in due}
    return OffsetSyncsResult(
        flow.name, host.alias, topic.name, len(due), len(partitions), "; ".join(map(str, broken))
    )


def syncs_topic(flow: FlowSettings, clusters: Clusters) -> tuple[Cluster, InternalTopic]:
    """Return where the syncs are written, and how to create the topic."""
    host, name = syncs_place(flow, clusters)
    return host, InternalTopic(name, 1, flow.offset_syncs_topic_replication_factor, vital=False)


def due_of(
    flow: FlowSettings,
    packed: PackedMaps,
    incarnations: Iterable[SourceIncarnation],
    last: Mapping[TopicPartition, Pair],
    *,
    whole: bool = True,
) -> tuple[list[OffsetSync], list[UnreadableMap]]:
    """List the syncs due for all partitions, and the maps that cannot be read. Pure.

    If the last sync lies on a map, only the map's end after it is opened. Raises _UnclearError if another part is
    needed of maps that are not `whole`.
    """
    due: list[OffsetSync] = []
    broken: list[UnreadableMap] = []
    for incarnation in incarnations:
        it = incarnation.topic_partition
        newest = last.get(it)
        outlived: Pair | None = None
        try:
            known = packed[incarnation]
            tail = known.opened_from(newest[0]) if newest is not None else None
            if tail is None or newest is None or not holds(tail, newest):
                if not whole:
                    raise _UnclearError
                # The last sync is of another incarnation of the topic, or of a copy that was made anew: begin anew.
                outlived, newest, tail = newest, None, known.opened_from(0)
        except UnreadableMap as error:
            broken.append(error)
            continue
        pairs = due_syncs(tail, newest, flow.offset_lag_max)
        due += [OffsetSync(*it, *pair) for pair in (*_rewind(outlived, pairs), *pairs)]
    return due, broken


def _rewind(outlived: Pair | None, due: Sequence[Pair]) -> Iterator[Pair]:
    """Yield a sync that makes MM2's clients forget those of the copy before, if the first due sync does not.

    MM2's clients begin anew only when an upstream offset goes back (OffsetSyncStore). Positions before the first
    copied record are translated to that place.
    """
    if outlived is not None and due and due[0][0] >= outlived[0] > 0:
        yield 0, due[0][1] - 1


def _last(host: Cluster, topic: str) -> Mapping[TopicPartition, Pair]:
    """Read the newest sync of each partition; a record that is not a sync is skipped, and will be replaced."""
    found: dict[TopicPartition, Pair] = {}
    for key, value in latest_or_empty(host, topic).items():
        try:
            it = OffsetSync.parse(key, value or b"")
        except FormatError:
            continue
        found[it.topic_partition] = it.upstream_offset, it.downstream_offset
    return found
