"""A failover over clusters in memory: the copy, the audit and the fence are done at once, everything else is real."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cluster import FakeCluster, FakeTurn

from twinlog.cluster.admin.access_values import AclBinding
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FailoverSettings, FlowSettings, GateSettings
from twinlog.errors import ClusterUnreachable, TransientError
from twinlog.formats.ledger.audit import PartitionAudit
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.formats.mm2.connect_offset import offset_value, source_offset_key
from twinlog.gate.evidence import Seal
from twinlog.groups import checkpoints
from twinlog.judge.check import Mode
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lifecycle import sync_topics
from twinlog.monitoring import publish
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.policy.selection import NameFilter
from twinlog.recovery import failover, journal
from twinlog.recovery.report import FailoverReport
from twinlog.recovery.steps import groups, planned, source_writers
from twinlog.recovery.steps.world import Answer, Request, Tools
from twinlog.state.internal_topics import internal_topics
from twinlog.state.ledger import read_ledger, write_ledger
from twinlog.state.progress import read_progress

ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
WRITES = AclBinding("TOPIC", "LITERAL", "orders", "User:shop", "*", "WRITE", "ALLOW")
CHANGES = (
    "produce",
    "alter_offsets",
    "alter_share_starts",
    "create_acls",
    "delete_acls",
    "create_topics",
    "create_partitions",
    "alter_topic_configs",
)


class Killed(BaseException):
    """The process dies: no handler runs but those of its own language."""


@dataclass
class Blows:
    """Counts what changes a cluster, and kills the process after the one chosen.

    One that dies before a change leaves what one leaves that dies after the change before it.
    """

    at: int | None = None
    count: int = 0
    names: list[str] = field(default_factory=list)

    def change(self, name: str, do: Callable[[], Any]) -> Any:
        """Do it; then the process may die."""
        self.count += 1
        self.names.append(name)
        result = do()
        if self.count == self.at:
            raise Killed(name)
        return result


class Watched:
    """A cluster whose changes may be the last thing that this process does."""

    def __init__(self, cluster: FakeCluster, blows: Blows) -> None:
        self._cluster, self._blows = cluster, blows

    def turn(self, *terms: Any) -> FakeTurn:
        """Take a turn whose writing is a change, too."""
        return replace(self._cluster.turn(*terms), cluster=self)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cluster, name)
        if name not in CHANGES:
            return found

        def do(*args: Any, **kwargs: Any) -> Any:
            return self._blows.change(f"{self._cluster.alias}.{name}", lambda: found(*args, **kwargs))

        return do


@dataclass
class World:
    """The flow, its clusters, and a failover that may be killed."""

    flow: FlowSettings
    clusters: Clusters
    folder: Path
    blows: Blows = field(default_factory=Blows)
    between: list[Callable[[], None]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)

    @property
    def watched(self) -> Clusters:
        """The clusters of a process that may die."""
        return Clusters(Watched(self.clusters.source, self.blows), Watched(self.clusters.target, self.blows))

    def write(self, count: int) -> None:
        """Producers write to the source, unless they are denied it."""
        denied = any(it.permission == "DENY" for it in self.clusters.source.acls or ())
        for _ in range(0 if denied else count):
            self.clusters.source.append(ORDERS, key=b"k", value=b"v", timestamp=int(time.time() * 1000))

    def cycle(self) -> None:
        """Copy all there is, pass groups on, and report."""
        sync_topics.run(self.flow, self.clusters)
        self.copy(self.flow)
        checkpoints.run(self.flow, self.clusters)
        publish.run(self.flow, self.clusters, "cycle", None, int(time.time() * 1000))

    def copy(self, flow: FlowSettings) -> int:
        """Copy in memory what the ledger lets this flow copy; return how many records."""
        ledger = read_ledger(flow, self.clusters.target)
        if not ledger.copies_for(flow.recovery_run) or flow.why_left_out(ORDERS.topic) is not None:
            return 0
        done = read_progress(flow, self.clusters.target).get(ORDERS, -1) + 1
        end = self.clusters.source.topics["orders"].logs[0].end
        if end > done:
            self.blows.change("copy", lambda: self._copied(done, end))
        return end - done

    def _copied(self, start: int, end: int) -> None:
        """Do to the target what copying these offsets of `orders` does."""
        source, target = self.clusters.source.topics["orders"], self.clusters.target
        downstream = target.topics["A.orders"].logs[0].end
        for record in source.logs[0].records[start:end]:
            target.append(COPY, key=record.key, value=record.value, timestamp=record.timestamp)
        key = source_offset_key(self.flow.connector_name, "A", 0, "orders")
        target.append(TopicPartition(self.flow.offsets_topic, 0), key=key, value=offset_value(end - 1))
        map_key = encode_map_key(MapKey("orders", source.topic_id, 0, start))
        piece = MapSegment(start, end, (Extent(start, downstream, end - start),))
        target.append(TopicPartition(self.flow.offset_map_topic, 0), key=map_key, value=encode_segment(piece))

    def audit(self) -> None:
        """Note that all of the copy was proved equal."""
        source, target = self.clusters.source.topics["orders"], self.clusters.target.topics["A.orders"]
        end = source.logs[0].end
        lives = source.topic_id, target.topic_id
        now = int(time.time() * 1000)
        row = PartitionAudit(
            "orders", lives[0], 0, "A.orders", lives[1], 0, end, end, end, end, 0, (), 0, (), now
        )
        write_ledger(self.flow, self.clusters.target, [row])

    def fail_over(
        self,
        mode: Mode = Mode.PLANNED,
        answer: Answer | Callable[[], Answer] = Answer.YES,
        by: str = "jo",
        **changes: Any,
    ) -> FailoverReport:
        """Fail over as a process of its own; `answer` is given when a person is asked."""

        def approve(question: str) -> Answer:
            self.questions.append(question)
            return answer() if callable(answer) else answer

        tools = Tools(SimpleNamespace, approve, self._sleep, Seal("mm2.properties", "sha"))
        request = Request(by, mode, **changes)
        return failover.run(self.flow, self.watched, request, tools)

    def _sleep(self, _: float) -> None:
        if self.between:
            self.between.pop(0)()

    def lose_source(self) -> None:
        """Let every question to the source fail from now on."""

        def away(*_: object, **__: object) -> None:
            raise ClusterUnreachable("cluster A is away", cluster="A")

        for verb in ("cluster_id", "topic_names", "describe_topics", "topic_configs", "offsets", "groups"):
            setattr(self.clusters.source, verb, away)


def new_world(flow: FlowSettings, folder: Path) -> World:
    """Make a flow A->B of the topic `orders`, with five records and a group on the source, and nothing copied."""
    source, target = FakeCluster("A"), FakeCluster("B", brokers=3)
    for topic in internal_topics(flow):
        target.add_topic(topic.name, topic.partitions, configs={"cleanup.policy": "compact"})
    source.add_topic("orders")
    now = int(time.time() * 1000)
    for _ in range(5):
        source.append(ORDERS, key=b"k", value=b"v", timestamp=now)
    source.commit("billing", ORDERS, 3)
    source.acls = {WRITES}
    settings = replace(
        flow,
        groups=NameFilter((".*",)),
        heartbeats_replication=False,
        gate=GateSettings(reports=folder, fence_seconds=1),
        failover=FailoverSettings(wait_seconds=0),
    )
    return World(settings, Clusters(source, target), folder)


def replace_what_needs_brokers(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do copies, audits and fences in memory."""

    @dataclass
    class Held:
        turn: FakeTurn

        def write(self, records: list[StateRecord]) -> None:
            self.turn.require_last(TransientError("somebody wrote beside the lanes", code="overtaken"))

            def do() -> None:
                for it in records:
                    at = TopicPartition(it.topic, it.partition)
                    made.clusters.target.append(at, key=it.key, value=it.value)

            made.blows.change("fence", do)

    def take(flow: FlowSettings, *_: Any) -> Held:
        return Held(made.clusters.target.turn(flow.name, flow.ledger_topic, 10_000))

    def copy_all(scene: Any) -> tuple[None, str]:
        sync_topics.run(scene.flow, scene.clusters)
        made.copy(scene.flow)
        return None, ""

    def audited(*_: Any) -> SimpleNamespace:
        made.audit()
        return SimpleNamespace(equal=True, records=1, coverage=1.0, differences=())

    monkeypatch.setattr(source_writers, "PROBE_SECONDS", 0.0)
    monkeypatch.setattr(journal, "Ownership", SimpleNamespace(taken=take))
    monkeypatch.setattr(planned, "copy_all", copy_all)
    monkeypatch.setattr(planned.audit, "run", audited)
    monkeypatch.setattr(groups.emit, "run", lambda *_: None)
