"""Read once what a step needs to know of a flow, and pass it down: ledger, offset map, progress, topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.map.packed_map import PackedMap
from twinlog.kafka_types import TopicPartition
from twinlog.once import read_once
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.state.progress import Maps, read_packed, read_progress
from twinlog.topics.discover import came_back, read_source, read_target, why_the_reverse_flow_holds
from twinlog.topics.discovery import DiscoveredTopic, Discovery, SourceState, TargetState
from twinlog.topics.discovery_rules import decide
from twinlog.topics.same_log import Witness, other_logs, unidentified
from twinlog.topics.starts import start_of, with_starts


@dataclass(frozen=True)
class FlowSnapshot:
    """The state and the topics of a flow as one step sees them; each part is read when it is first asked for.

    Nothing is ever read a second time, so a snapshot serves one step, or a few in a row with no copy in between. It is
    no replacement for what is read behind the fence: another driver may have copied, paused, rebuilt or recreated
    since. Whatever decides what a fenced driver writes is read behind that fence (copying/resolve.py, lane/fence), and
    a snapshot only proposes.

    A copy may go on meanwhile. `read_state` keeps the order in which each value is at most the one read after it.
    `source_before` is the source as an earlier snapshot has read it, None to read it.
    """

    flow: FlowSettings
    clusters: Clusters
    source_before: SourceState | None = None

    @read_once
    def ledger(self) -> Ledger:
        """The flow's ledger.  Raises FormatError for a record of an unknown kind or version."""
        return read_ledger(self.flow, self.clusters.target)

    @read_once
    def maps(self) -> Maps[PackedMap]:
        """The offset map as it is stored, read after the ledger.  Raises FormatError for a record that is not of it."""
        self.ledger  # noqa: B018
        return read_packed(self.flow, self.clusters.target)

    @read_once
    def progress(self) -> Mapping[TopicPartition, int]:
        """The last copied upstream offset of each partition."""
        return read_progress(self.flow, self.clusters.target)

    @read_once
    def source(self) -> SourceState:
        """The source's topics, those the flow copied before included."""
        if self.source_before is not None:
            return self.source_before
        known, back = self.ledger.incarnations, partial(came_back, self.flow, self.clusters)
        return read_source(self.flow, self.clusters.source, known, back)

    @property
    def target(self) -> TargetState:
        """The copies on the target."""
        return self._target[0]

    @read_once
    def discovery(self) -> Discovery:
        """The flow's topics on both sides, with incarnations, offsets and the problems of each.

        Raises ClusterUnreachable, ClusterRefused, and TerminalError `same-cluster`, or if the state on the target is
        not this flow's.
        """
        found = decide(self.flow, self.source, self.target, self.ledger, self._other_logs())
        found = replace(found, topics=self._with_starts(found.topics))
        if found.stands_by:
            return found
        held = why_the_reverse_flow_holds(self.flow, self.clusters, self.source, self.ledger)
        return replace(found, stands_by=held)

    def _other_logs(self) -> Mapping[str, Witness]:
        if not unidentified(self.source, self.ledger):
            return {}
        return other_logs(self.flow, self.clusters, self.source, self.target, self.ledger, self.maps)

    def _with_starts(self, topics: tuple[DiscoveredTopic, ...]) -> tuple[DiscoveredTopic, ...]:
        flow, ledger = self.flow, self.ledger
        if all(start_of(flow, it, ledger, ()) is None for it in topics):
            return topics
        copied = {it.topic for it in self.progress}
        return with_starts(flow, self.clusters.source, topics, ledger, copied, clock.now_ms())

    @property
    def at_ms(self) -> int:
        """The moment (epoch ms) at which the topics of both clusters had just been read."""
        return self._target[1]

    @read_once
    def _target(self) -> tuple[TargetState, int]:
        return read_target(self.flow, self.clusters.target, self.source.topics.found), clock.now_ms()

    def read_state(self) -> FlowSnapshot:
        """Read ledger, map and progress, in this order, before the ends of the logs; return the snapshot.

        Otherwise a running copy would look as if progress were ahead of the source, or the map ahead of progress.
        """
        self.maps, self.progress  # noqa: B018
        return self

    def after_changes(self) -> FlowSnapshot:
        """Return a snapshot for after the flow has changed its own target: only the source stays as it was read."""
        return FlowSnapshot(self.flow, self.clusters, self.source)
