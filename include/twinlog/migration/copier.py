"""Say what a migration has to know of the program that copied before: how far it came, and that it has stopped.

A MirrorMaker 2 says so by its Connect workers and their offsets, another program by its group on the source.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from twinlog.cluster.admin.group_members import ConnectWorkers
from twinlog.cluster.admin.groups import GroupType
from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.cluster.values import Answers
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, FormatError, TerminalError, TwinlogError
from twinlog.formats.mm2.connect_offset import (
    SourceOffsetKey,
    parse_offset_key,
    parse_offset_value,
    parse_source_key,
)
from twinlog.formats.mm2.records import Heartbeat
from twinlog.kafka_types import Positions, TopicPartition
from twinlog.lane.spec import StateTopics
from twinlog.state.ledger import latest_or_empty
from twinlog.visible import listed


@dataclass(frozen=True, slots=True)
class SourceGroup:
    """Tell which group on the source holds the positions of a program that copied.

    MirrorMaker 1 keeps them so, Confluent Replicator (`offset.topic.commit`) and many a program of one's own.  What it
    committed is the next offset it reads; it had copied all before when it committed.
    """

    source_group: str
    connector: ClassVar[str] = ""
    offsets_topic: ClassVar[str] = ""

    def positions(self, flow: FlowSettings, clusters: Clusters) -> dict[TopicPartition, int]:
        """Return the offset before each that the group committed."""
        answer = clusters.source.committed_offsets([self.source_group]).require()
        return {it: next_.offset - 1 for it, next_ in answer[self.source_group].items() if next_.offset > 0}

    def no_positions(self, flow: FlowSettings, clusters: Clusters) -> TerminalError:
        """Return the error for a group that has committed nothing."""
        return TerminalError(
            f"group {self.source_group} has committed no offset on {flow.source.alias}",
            "check --source-group (MirrorMaker 1's group.id); a group's offsets expire after"
            " offsets.retention.minutes without members",
            code="no-positions",
            flow=flow.name,
        )

    def require_not_running(self, flow: FlowSettings, clusters: Clusters) -> None:
        """Look for members of the group."""
        found = clusters.source.describe_groups([self.source_group]).require()[self.source_group]
        if found.members:
            raise still_runs(
                flow, f"group {self.source_group} on {flow.source.alias} has {len(found.members)} member(s)"
            )

    def began_at_start(self, flow: FlowSettings) -> bool:
        """Say no: the flow's file does not say where another program began."""
        return False

    def keeps_progress_as(self, state: StateTopics) -> bool:
        """Say no: its positions are on the source."""
        return False


DEDICATED_CONNECTOR, DEDICATED_GROUP = "MirrorSourceConnector", "-mm2"
"""The connector of a dedicated MirrorMaker 2, and the end of its worker group's name (MirrorMakerConfig)."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Tell which MM2 copied: its source connector's name, its worker's offsets topic, its workers' group.

    `dedicated` says that the workers serve only this flow, so that one live worker shows that it runs.
    """

    connector: str
    offsets_topic: str
    worker_group: str
    dedicated: bool = True
    source_group: ClassVar[str] = ""

    @classmethod
    def of(
        cls, flow: FlowSettings, connector: str = "", offsets_topic: str = "", worker_group: str = ""
    ) -> Origin:
        """Use the names given, and dedicated mode's names for the others."""
        return cls(
            connector or flow.connector_name,
            offsets_topic or flow.offsets_topic,
            worker_group or flow.worker_group,
            dedicated=worker_group in {"", flow.worker_group},
        )

    def positions(self, flow: FlowSettings, clusters: Clusters) -> dict[TopicPartition, int]:
        """Return what the offsets topic says this connector has copied of the flow's source."""
        latest = latest_or_empty(clusters.target, self.offsets_topic)
        keys = ((parse_source_key(data, self.connector, flow.source.alias), data) for data in latest)
        offsets = ((key, parse_offset_value(latest[data])) for key, data in keys if key is not None)
        return {key.topic_partition: it for key, it in offsets if it is not None}

    def no_positions(self, flow: FlowSettings, clusters: Clusters) -> TerminalError:
        """Return the error, with whose positions the topic has, or that there is no such topic."""
        try:
            keys = clusters.target.latest(self.offsets_topic)
        except TerminalError as error:
            if error.code != "no-internal-topic":
                raise
            return TerminalError(
                f"{flow.target.alias} has no topic {self.offsets_topic}, where MirrorMaker keeps its positions",
                "check --offsets-topic (Connect's offset.storage.topic); run no cycle before the take-over: it"
                " would copy every record again, behind MirrorMaker's copies",
                code="no-internal-topic",
                flow=flow.name,
                topic=self.offsets_topic,
            )
        others = sorted({f"{key.connector_name} of {key.cluster}" for key in _source_keys(keys)})
        found = f"; it has those of {', '.join(others)}" if others else ""
        return TerminalError(
            f"{self.offsets_topic} on {flow.target.alias} holds no position of connector {self.connector}"
            f" for the source {flow.source.alias}{found}",
            "check --connector and --offsets-topic (Connect's offset.storage.topic), and the source's alias;"
            " MirrorMaker writes its first positions a minute after it began (offset.flush.interval.ms)",
            code="no-positions",
            flow=flow.name,
            topic=self.offsets_topic,
        )

    def require_not_running(self, flow: FlowSettings, clusters: Clusters) -> None:
        """Look for workers on the target that run the connector."""
        if running := self.running(clusters.target):
            raise still_runs(flow, listed(running))

    def running(self, cluster: ClusterReader, *, is_target: bool = True) -> list[str]:
        """Say which workers of a cluster run the connector; a paused one keeps its tasks, and counts.

        Dedicated workers of another flow name their connector alike: their group tells them apart.  Raises the refusal
        of a target that does not tell who is in the worker group; elsewhere only groups are asked that are listed.
        """
        named = cluster.connect_workers(self.worker_group) if is_target else ConnectWorkers()
        if self.dedicated and named.members:
            return [f"its worker group {self.worker_group} on {cluster.alias} has {named.members} member(s)"]
        others = {
            group: workers
            for group, workers in connect_groups(cluster).found.items()
            if self.connector != DEDICATED_CONNECTOR or not group.endswith(DEDICATED_GROUP)
        }
        found = []
        for group, workers in {**others, self.worker_group: named}.items():
            its = f"workers of {group} on {cluster.alias}"
            if workers.rebalancing:
                found.append(f"{its} rebalance, and do not tell what they run")
            elif tasks := workers.tasks.get(self.connector):
                found.append(f"{its} run {tasks} task(s) of {self.connector}")
        return found

    def began_at_start(self, flow: FlowSettings) -> bool:
        """Say what the file says: MM2 begins there unless `auto.offset.reset` is latest."""
        return not flow.copy.start_from_latest

    def keeps_progress_as(self, state: StateTopics) -> bool:
        """Compare connector and topic."""
        return (self.connector, self.offsets_topic) == (state.connector_name, state.offsets_topic)


def _source_keys(keys: Mapping[bytes, object]) -> Iterable[SourceOffsetKey]:
    for data in keys:
        try:
            yield parse_offset_key(data)
        except FormatError:
            continue


def connect_groups(cluster: ClusterReader) -> Answers[str, ConnectWorkers]:
    """Return what the workers of each Kafka Connect group run that this user may see on a cluster."""
    found: dict[str, ConnectWorkers] = {}
    refused: dict[str, TwinlogError] = {}
    try:
        groups = cluster.groups()
    except ClusterRefused as error:
        return Answers({}, {"no list of groups": error})
    for listed_group in groups:
        if listed_group.type is GroupType.CONNECT and listed_group.state.active:
            try:
                found[listed_group.group] = cluster.connect_workers(listed_group.group)
            except (ClusterRefused, FormatError) as error:
                refused[listed_group.group] = error
    return Answers(found, refused)


Copier = Origin | SourceGroup
"""Another program that has copied the flow's topics; its three names say which, in reports, "" if it has none."""

WATCH_SECONDS = 3.0
"""Least time to watch for changes; MM2 emits heartbeats every second by default."""


Traces = Mapping[str, int | None]
"""Signs of a running copier: what one that moves says, with its number; 0 for what was not there."""


def read_positions(flow: FlowSettings, clusters: Clusters, copier: Copier) -> Positions:
    """Read the last upstream offsets that it says it has copied.

    Raises TerminalError `no-positions`, or `no-internal-topic` if the topic is missing that MM2 keeps them in.
    """
    positions = copier.positions(flow, clusters)
    if not positions:
        raise copier.no_positions(flow, clusters)
    return positions


def require_stopped(
    flow: FlowSettings,
    clusters: Clusters,
    copier: Copier,
    copies: Iterable[TopicPartition],
    watch_seconds: float | None,
) -> Traces:
    """Make sure that no other program copies: none of its processes is there, and nothing moves while we watch.

    Returns what was read last. Raises TerminalError `mm2-running`, and the refusal of a cluster that does not tell who
    is in a group: without that answer it is not safe to go on.
    """
    copier.require_not_running(flow, clusters)
    watched = list(copies)
    before = traces(flow, clusters, copier, watched)
    time.sleep(
        max(WATCH_SECONDS, 2.5 * flow.heartbeats_interval_seconds) if watch_seconds is None else watch_seconds
    )
    after = traces(flow, clusters, copier, watched)
    require_unmoved(flow, before, after)
    return after


def traces(
    flow: FlowSettings, clusters: Clusters, copier: Copier, copies: Iterable[TopicPartition]
) -> Traces:
    """Read what a running copier would change: ends of copies, its positions, and MM2's last heartbeat."""
    positions = {
        f"the position of {at.topic}-{at.partition} still moves": last + 1
        for at, last in copier.positions(flow, clusters).items()
    }
    heartbeat = {f"heartbeats of {flow.name} still arrive": _last_heartbeat(flow, clusters.target)}
    ends = clusters.target.offsets(copies).found
    records = {f"records still arrive in {at.topic}-{at.partition}": it.end for at, it in ends.items()}
    return records | positions | heartbeat


def require_unmoved(flow: FlowSettings, before: Traces, after: Traces) -> None:
    """Raise TerminalError `mm2-running` for the first change between two readings.  Pure."""
    for what, seen in after.items():
        if seen != before.get(what, 0):
            raise still_runs(flow, what)


def still_runs(flow: FlowSettings, why: str) -> TerminalError:
    """Return the error `mm2-running`: somebody copies the flow, as this shows."""
    return TerminalError(
        f"somebody still runs {flow.name}: {why}",
        "stop MirrorMaker (or the twinlog cycle) of this flow, wait until its session has ended (by default 10 s"
        " for MM2's workers, 45 s for consumers), and try again",
        code="mm2-running",
        flow=flow.name,
    )


def _last_heartbeat(flow: FlowSettings, target: ClusterReader) -> int | None:
    key = Heartbeat(flow.source.alias, flow.target.alias, 0).key()
    value = latest_or_empty(target, flow.policy.heartbeats_topic()).get(key)
    try:
        return None if value is None else Heartbeat.parse(key, value).timestamp_ms
    except FormatError:
        return None
