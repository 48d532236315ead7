"""Find where every group would go on if the flow failed over now, and the maps to judge what it reads there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.drill.judge import Known
from twinlog.errors import ClusterUnreachable
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.groups import checkpoints
from twinlog.groups.maps import NO_MAPS, PartitionMaps
from twinlog.groups.report import GroupPartitionRow, SyncReason
from twinlog.groups.view import GroupPositions, look, read_positions
from twinlog.kafka_types import TopicPartition
from twinlog.offsets.offset_map import OffsetMap
from twinlog.recovery.steps.planned import placing
from twinlog.recovery.steps.source_dead import read_placings
from twinlog.state.ledger import read_ledger
from twinlog.topics.snapshot import FlowSnapshot


@dataclass(frozen=True, slots=True)
class View:
    """The groups and maps of one moment; the `downstream_offset` of each place is where a failover would put it.

    `positions` are those of the source, None if it does not answer.  `untold` names the groups whose positions nobody
    tells, with the reason.
    """

    places: tuple[GroupPartitionRow, ...]
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


def view(
    flow: FlowSettings,
    clusters: Clusters,
    positions: GroupPositions | None = None,
    *,
    source_dead: bool = False,
) -> View:
    """Read the groups, by the source if it answers; `positions` are those of an earlier view, for newer maps alone.

    With `source_dead` they are read as if it did not answer: by checkpoints, as on the day itself.

    Raises errors of the target, and ClusterRefused of the source.
    """
    if source_dead:
        return _by_target(flow, clusters)
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
    return View(tuple(map(_drilled, rows)), positions, untold, maps)


def _drilled(row: GroupPartitionRow) -> GroupPartitionRow:
    """Return where a failover would place the group; one with members on the target would have to stop first.  Pure."""
    active = row.reason is SyncReason.ACTIVE_THERE
    return replace(row, downstream_offset=None if row.misplaced and not active else row.goes_on_at)


def _by_target(flow: FlowSettings, clusters: Clusters) -> View:
    placings = [
        it for it in read_placings(flow, clusters.target, read_ledger(flow, clusters.target)) if not it.gone
    ]
    return View(
        tuple(_drilled(it.row) for it in placings),
        None,
        {},
        {it.key.topic_partition: it.standing.route.maps for it in placings},
    )
