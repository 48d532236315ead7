"""Find where every group would go on if the flow failed over now, and the maps to judge what it reads there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.drill.judge import Known
from twinlog.errors import ClusterUnreachable
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.groups import checkpoints
from twinlog.groups.maps import NO_MAPS, PartitionMaps
from twinlog.groups.report import GroupPartitionRow, SyncReason
from twinlog.groups.view import GroupPositions, look, read_positions
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.offsets.offset_map import OffsetMap
from twinlog.recovery.steps.planned import misplaced, placing
from twinlog.recovery.steps.source_dead import Placing, read_placings
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.state.progress import Maps, read_packed
from twinlog.topics.snapshot import FlowSnapshot


@dataclass(frozen=True, slots=True)
class Place:
    """One position of a group: committed on the source at `upstream`, it would go on at `offset` of the copy.

    `offset` is None if there is no such place; `trouble` says why.  `ahead`: the group had read beyond the copy.
    """

    group: str
    topic: str
    remote: TopicPartition
    upstream: int
    offset: int | None
    ahead: bool = False
    trouble: str = ""

    @property
    def source(self) -> TopicPartition:
        """The partition on the source."""
        return TopicPartition(self.topic, self.remote.partition)


@dataclass(frozen=True, slots=True)
class View:
    """The groups and maps of one moment.

    `positions` are those of the source, None if it does not answer.  `untold` names the groups whose positions nobody
    tells, with the reason.
    """

    places: tuple[Place, ...]
    positions: GroupPositions | None
    untold: Mapping[str, str]
    maps: Mapping[TopicPartition, PartitionMaps]
    _opened: dict[TopicPartition, Known] = field(default_factory=dict)

    def known(self, remote: TopicPartition) -> Known:
        """Return what the maps know of a copy."""
        if remote not in self._opened:
            maps = self.maps.get(remote, NO_MAPS)
            self._opened[remote] = Known.of(_opened(maps.onward), _opened(maps.homeward))
        return self._opened[remote]

    def only_copies(self, remote: TopicPartition) -> bool:
        """Say whether all records of a partition of the target come from the source."""
        return remote in self.maps and self.maps[remote].homeward is None


def _opened(known: PackedMap | UnreadableMap | None) -> OffsetMap | None:
    return known.open() if isinstance(known, PackedMap) else None


def view(flow: FlowSettings, clusters: Clusters, positions: GroupPositions | None = None) -> View:
    """Read the groups, by the source if it answers; `positions` are those of an earlier view, for newer maps alone.

    Raises errors of the target, and ClusterRefused of the source.
    """
    try:
        return _by_source(placing(flow), clusters, positions)
    except ClusterUnreachable as error:
        if error.data.get("cluster") != flow.source.alias:
            raise
        return _by_target(flow, clusters)


def _by_source(flow: FlowSettings, clusters: Clusters, known: GroupPositions | None) -> View:
    positions = known or read_positions(flow, clusters)
    seen = look(FlowSnapshot(flow, clusters), positions)
    rows = checkpoints.preview(flow, seen).rows
    untold = {it.group: it.reason for it in seen.uncovered}
    maps = {it.remote: it.maps for it in seen.routes.values()}
    return View(tuple(map(_of_row, rows)), positions, untold, maps)


def _of_row(row: GroupPartitionRow) -> Place:
    """Return where a failover would place the group; one with members on the target would have to stop first.  Pure.

    A group that stands further on there stays where it stands, unless it is to be rewound.
    """
    remote = TopicPartition(row.remote_topic, row.partition)
    offset, there = row.downstream_offset, row.committed_there
    active = row.reason is SyncReason.ACTIVE_THERE
    if offset is None or (misplaced([row]) and not active):
        return Place(row.group, row.topic, remote, row.upstream_offset, None, row.ahead, row.text)
    if row.reason is not SyncReason.WRITTEN and there is not None:
        offset = max(offset, there)
    return Place(row.group, row.topic, remote, row.upstream_offset, offset, row.ahead)


def _by_target(flow: FlowSettings, clusters: Clusters) -> View:
    ledger = read_ledger(flow, clusters.target)
    placings = [it for it in read_placings(flow, clusters.target, ledger) if not it.gone]
    maps = read_packed(flow, clusters.target)
    return View(
        tuple(map(_of_placing, placings)),
        None,
        {},
        {it.key.topic_partition: PartitionMaps(_map_of(ledger, maps, it)) for it in placings},
    )


def _of_placing(it: Placing) -> Place:
    offset = it.write if it.write is not None else (it.there.offset if it.there is not None else None)
    return Place(
        it.key.group,
        it.topic,
        it.key.topic_partition,
        it.checkpoint.checkpoint.upstream_offset,
        offset if it.write is not None or not it.trouble else None,
        trouble=it.trouble if it.write is None else "",
    )


def _map_of(ledger: Ledger, maps: Maps[PackedMap], it: Placing) -> PackedMap | UnreadableMap | None:
    life = ledger.incarnations.get(it.topic)
    topic_id = life.topic_id if life is not None else ""
    return maps.seen(SourceIncarnation(it.topic, topic_id, it.key.partition))
