"""Find where every group would go on if the flow failed over now, and the maps to judge what it reads there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.drill.judge import Known
from twinlog.errors import ClusterUnreachable, TwinlogError
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.groups.maps import NO_MAPS, PartitionMaps
from twinlog.groups.plan import Decided, make_plan
from twinlog.groups.report import GroupPartitionRow, SyncReason
from twinlog.groups.view import GroupPositions, Offsets, look, read_positions
from twinlog.kafka_types import TopicPartition
from twinlog.offsets.offset_map import OffsetMap
from twinlog.recovery.steps.groups import placing
from twinlog.recovery.steps.source_dead import read_placings
from twinlog.state.ledger import read_ledger
from twinlog.topics.snapshot import FlowSnapshot


@dataclass(frozen=True, slots=True)
class View:
    """The groups and maps of one moment; the `downstream_offset` of each place is where a failover would put it.

    `positions` are those of the source, None if it does not answer.  `untold` names the groups whose positions nobody
    tells.
    """

    places: tuple[GroupPartitionRow, ...]
    maps: Mapping[TopicPartition, PartitionMaps]
    positions: GroupPositions | None
    untold: frozenset[str]
    _opened: dict[TopicPartition, Known] = field(default_factory=dict)

    @classmethod
    def of(
        cls, decided: Collection[Decided], positions: GroupPositions | None = None, untold: Iterable[str] = ()
    ) -> View:
        """Take what was decided about every position."""
        maps = {it.key.topic_partition: it.standing.route.maps for it in decided}
        return cls(tuple(_drilled(it.row) for it in decided), maps, positions, frozenset(untold))

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


def _drilled(row: GroupPartitionRow) -> GroupPartitionRow:
    """Return where a failover would place the group; one with members on the target would have to stop first.  Pure."""
    active = row.reason is SyncReason.ACTIVE_THERE
    return replace(row, downstream_offset=None if row.misplaced and not active else row.goes_on_at)


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
    if not source_dead:
        try:
            positions = positions or read_positions(flow, clusters)
            seen = look(FlowSnapshot(placing(flow), clusters), positions)
        except ClusterUnreachable as error:
            if error.cluster != flow.source.alias:
                raise
        else:
            decided = make_plan(placing(flow), seen).decided
            return View.of(decided, positions, (group.group for group in seen.uncovered))
    placings = read_placings(flow, clusters.target, read_ledger(flow, clusters.target))
    return View.of([it for it in placings if not it.gone])


def stand_on(source: ClusterReader, places: Iterable[GroupPartitionRow]) -> Mapping[str, Offsets]:
    """Ask a source that a disaster would not leave where groups stand that were placed by checkpoints."""
    try:
        return source.committed_offsets(sorted({place.group for place in places})).found
    except TwinlogError:
        return {}
