"""Read once what a step needs to know of a flow, and pass it down: ledger, offset map, progress, topics.

`topics.discovery_rules` decides what that means which both clusters have of the flow's topics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from twinlog import clock
from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.cluster.values import Answers, PartitionOffsets, TopicDescription
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, FormatError, TransientError
from twinlog.grouped import without_keys
from twinlog.kafka_types import Positions, TopicPartition
from twinlog.once import read_once
from twinlog.policy.state_topics import source_of_ledger
from twinlog.state.ledger import Ledger, ledger_in, read_ledger
from twinlog.state.progress import PackedMaps, read_packed, read_progress
from twinlog.topics.discovery import (
    DiscoveredTopic,
    Discovery,
    LeftOut,
    OrphanKind,
    Problem,
    SourceState,
    TargetState,
)
from twinlog.topics.discovery_rules import decide
from twinlog.topics.left_behind import left_behind
from twinlog.topics.pauses import why_reverse_holds
from twinlog.topics.reverse_flows import reverse_aliases, reverse_ledger
from twinlog.topics.same_log import Witness, other_logs, unidentified
from twinlog.topics.starts import start_of, with_starts


def why_the_reverse_flow_holds(
    flow: FlowSettings, clusters: Clusters, source: SourceState, own: Ledger
) -> str:
    """Say why the failover of the reverse flow, of which the source has the ledger, keeps this one standing by."""
    topic = reverse_ledger(flow)
    if topic not in source.names:
        return ""
    try:
        reverse = ledger_in(clusters.source, topic)
    except ClusterRefused:  # whoever may not read it was never told of any failover
        return ""
    except FormatError as error:
        return (
            f"standing by: {topic} of {flow.source.alias} cannot be read, so a failover of the reverse flow may be"
            f" under way: {error}"
        )
    return why_reverse_holds(
        f"{flow.target.alias}->{flow.source.alias}", reverse, own.flow_state, flow.recovery_run
    )


def came_back(flow: FlowSettings, clusters: Clusters, names: Collection[str]) -> Mapping[str, str]:
    """Return reasons to leave out topics that a reverse flow copied here under its own alias for the target.

    MM2's cycle rule does not recognise the target under that alias. Copied back and forth, these topics would get
    longer names each time.
    """
    hops = {
        name: alias
        for name in names
        if (alias := flow.policy.topic_source(name)) is not None and flow.policy.upstream_topic(name) != name
    }
    kept = {alias for name in names if (alias := source_of_ledger(name)) is not None}
    ours = reverse_aliases(flow, clusters, set(hops.values()) & kept - {flow.target.alias})
    return {
        name: f"cycle: it came from {flow.target.alias}, which is called {alias} in its name"
        for name, alias in hops.items()
        if alias in ours
    }


def read_source(
    flow: FlowSettings,
    cluster: ClusterReader,
    known: Iterable[str] = (),
    came_back: Callable[[Collection[str]], Mapping[str, str]] = lambda _: {},
) -> SourceState:
    """Read names, selected topics and their offsets from the source.

    `known` are topics copied before. `came_back` gives reasons to leave out topics that their names alone do not show.
    """
    names = cluster.topic_names()
    more = came_back(names)
    reasons = {name: flow.why_left_out(name) or more.get(name) for name in names}
    missing = sorted(set(known) - set(names))
    seen = cluster.describe_topics([*(name for name, reason in reasons.items() if reason is None), *missing])
    gone = seen.absent.intersection(missing)
    topics = Answers(seen.found, without_keys(seen.refused, gone))
    return SourceState(
        cluster_id=cluster.cluster_id(),
        names=names,
        left_out=tuple(LeftOut(name, reason) for name, reason in reasons.items() if reason is not None),
        topics=topics,
        offsets=cluster.offsets(all_partitions(topics.found.values())),
        gone=gone,
    )


def read_target(flow: FlowSettings, cluster: ClusterReader, topics: Iterable[str]) -> TargetState:
    """Read the copies of `topics` (names on the source) from the target, if they exist."""
    remote = cluster.describe_topics(flow.remote_name(topic) for topic in topics)
    return TargetState(
        cluster_id=cluster.cluster_id(),
        brokers=cluster.broker_count(),
        topics=remote,
        offsets=cluster.offsets(all_partitions(remote.found.values())),
        names=cluster.topic_names(),
    )


def with_later_ends(
    source: ClusterReader, topics: Iterable[DiscoveredTopic], progress: Positions
) -> tuple[DiscoveredTopic, ...]:
    """Read log ends again for partitions copied past the end in `topics`, which were read before `progress`.

    A copy that goes on meanwhile may have read further than the discovery saw. If an end is still before what was
    copied, that log lost records. A partition whose leader does not answer now is `unread`. Log starts stay as
    discovered: retention may have deleted records since that `progress` has not reached.
    """
    found = tuple(topics)
    seen = {partition.topic_partition: partition.source for topic in found for partition in topic.partitions}
    passed = {it: old for it, old in seen.items() if progress.get(it, -1) >= old.end}
    if not passed:
        return found
    now = source.offsets(passed).found
    later = {it: replace(offsets, log_start=passed[it].log_start) for it, offsets in now.items()}
    return with_offsets(found, without_keys(seen, passed) | later)


def with_offsets_now(
    source: ClusterReader, topics: tuple[DiscoveredTopic, ...]
) -> tuple[DiscoveredTopic, ...]:
    """Read again where the source's logs begin and end; partitions whose leader does not answer are `unread`.

    Raises TransientError if no leader answers.
    """
    answers = source.offsets(partition.topic_partition for topic in topics for partition in topic.partitions)
    away = next((error for error in answers.refused.values() if isinstance(error, TransientError)), None)
    if away is not None and not answers.found:
        raise away
    return with_offsets(topics, answers.found)


def with_offsets(
    topics: Iterable[DiscoveredTopic], offsets: Mapping[TopicPartition, PartitionOffsets]
) -> tuple[DiscoveredTopic, ...]:
    """Put newer source offsets into discovered topics; partitions without any are `unread`. Pure."""
    return tuple(
        replace(
            topic,
            partitions=tuple(
                replace(partition, source=offsets[partition.topic_partition])
                for partition in topic.partitions
                if partition.topic_partition in offsets
            ),
        )
        for topic in topics
    )


def copied_names(flow: FlowSettings, source: ClusterReader) -> tuple[str, ...]:
    """Return the names of the source's topics that the flow copies, heartbeats among them."""
    return tuple(name for name in source.topic_names() if flow.why_left_out(name) is None)


def all_partitions(topics: Iterable[TopicDescription]) -> tuple[TopicPartition, ...]:
    """Return every partition of some topics, with or without a leader."""
    return tuple(
        TopicPartition(topic.name, partition.partition) for topic in topics for partition in topic.partitions
    )


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
    def maps(self) -> PackedMaps:
        """The offset map as it is stored, read after the ledger.  Raises FormatError for a record that is not of it."""
        self.ledger  # noqa: B018
        return read_packed(self.flow, self.clusters.target)

    @read_once
    def progress(self) -> Positions:
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

        Raises ClusterUnreachable, ClusterRefused, and ConfigError `same-cluster`, or if the state on the target is
        not this flow's.
        """
        found = decide(self.flow, self.source, self.target, self.ledger, self._other_logs())
        problems = (*found.problems, *self._left_behind(found))
        found = replace(found, topics=self._with_starts(found.topics), problems=problems)
        if found.stands_by:
            return found
        held = why_the_reverse_flow_holds(self.flow, self.clusters, self.source, self.ledger)
        return replace(found, stands_by=held)

    def _other_logs(self) -> Mapping[str, Witness]:
        if not unidentified(self.source, self.ledger):
            return {}
        return other_logs(self.flow, self.clusters, self.source, self.target, self.ledger, self.maps)

    def _left_behind(self, found: Discovery) -> tuple[Problem, ...]:
        if all(orphan.kind is not OrphanKind.LEFT_OUT for orphan in found.orphans):
            return ()
        return left_behind(self.flow, self.clusters.source, self.ledger, self.progress, found.orphans)

    def _with_starts(self, topics: tuple[DiscoveredTopic, ...]) -> tuple[DiscoveredTopic, ...]:
        flow, ledger = self.flow, self.ledger
        if all(start_of(flow, topic, ledger, ()) is None for topic in topics):
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
