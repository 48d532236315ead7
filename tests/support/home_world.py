"""Flows both ways, over clusters in memory: copies, audits and fences are done at once.

Names stay, or they are MM2's, and then the flow home is one of its own.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cluster import FakeCluster
from recovery_world import COPY, ORDERS, WRITES, Blows, Watched

from twinlog.audit.comparison.record_fields import RawRecord
from twinlog.batches.record import record_rest
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FailoverSettings, FlowSettings, GateSettings
from twinlog.errors import ClusterUnreachable, FencedError
from twinlog.formats.ledger.audit import PartitionAudit
from twinlog.formats.ledger.writers import FlowClaim
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.formats.mm2.connect_offset import offset_value, partition_for, source_offset_key
from twinlog.gate.evidence import Seal
from twinlog.groups import checkpoints
from twinlog.judge.check import Mode
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.state_records import StateRecord, map_partition
from twinlog.lifecycle import sync_topics
from twinlog.logs.partition_reader import Lost
from twinlog.monitoring import publish
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.offsets.spans import Spans
from twinlog.policy.replication import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.policy.selection import NameFilter
from twinlog.recovery import abort, failover, journal
from twinlog.recovery.abort import AbortResult
from twinlog.recovery.failback import export, failback, home
from twinlog.recovery.one_sided.read import Side, Stretch
from twinlog.recovery.report import FailbackReport, FailoverReport, State
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps import groups, planned, source_writers
from twinlog.recovery.steps.world import LOOKING, Answer, Request, Tools
from twinlog.recovery.ways_home import homeward
from twinlog.state.internal_topics import OFFSET_MAP_PARTITIONS, internal_topics
from twinlog.state.ledger import Ledger, read_ledger, write_ledger
from twinlog.state.progress import read_progress
from twinlog.topics.other_writers import read_other_writers
from twinlog.topics.snapshot import FlowSnapshot

GROUP = "billing"

WRITTEN_ON_B = 4
"""Clients write so many records to B once it was promoted."""


@dataclass
class BothWays:
    """Clusters A and B with the topic `orders` and one group; each process that acts on them may be killed.

    `copied` is what `orders` is called on B; `usual` is the flow `B->A` that follows in normal life.
    """

    there: FlowSettings
    back: FlowSettings
    usual: FlowSettings
    copied: TopicPartition
    a: FakeCluster
    b: FakeCluster
    folder: Path
    blows: Blows = field(default_factory=Blows)
    between: list[Callable[[], object]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    def clusters(self, flow: FlowSettings, *, watched: bool = False) -> Clusters:
        """The clusters of a flow; `watched` are those of a process that may die."""
        sides = (self.a, self.b) if flow.source.alias == "A" else (self.b, self.a)
        source, target = (Watched(it, self.blows) if watched else it for it in sides)
        return Clusters(source, target)

    def at(self, cluster: FakeCluster) -> TopicPartition:
        """The partition that clients use on one side."""
        return ORDERS if cluster is self.a else self.copied

    def ends(self, flow: FlowSettings) -> tuple[TopicPartition, TopicPartition]:
        """The partition that a flow copies, and its copy."""
        return (ORDERS, self.copied) if flow.source.alias == "A" else (self.copied, ORDERS)

    def ledger(self, flow: FlowSettings) -> Ledger:
        """What the ledger of a flow says now."""
        return read_ledger(flow, self.clusters(flow).target)

    def write(self, cluster: FakeCluster, count: int) -> None:
        """Clients write to one side, each record once, unless they are denied it."""
        for _ in range(0 if denied(cluster) else count):
            place = self.at(cluster)
            cluster.append(place, key=b"k", value=b"%d" % next(self.numbers), timestamp=now_ms())

    def values(self, cluster: FakeCluster) -> list[int]:
        """The records of one side, by identity."""
        return sorted(int(it.value) for it in cluster.topics[self.at(cluster).topic].logs[0].records)

    def position(self, cluster: FakeCluster) -> int:
        """Where the group goes on on one side."""
        return cluster.committed_offsets([GROUP]).found[GROUP][self.at(cluster)].offset

    def unread(self, cluster: FakeCluster) -> list[int]:
        """The records that the group has yet to read on one side."""
        records = cluster.topics[self.at(cluster).topic].logs[0].records
        return [int(it.value) for it in records if it.offset >= self.position(cluster)]

    def cycle(self, flow: FlowSettings) -> int:
        """Copy all there is, pass groups on, audit and report; return how many records were copied."""
        clusters = self.clusters(flow)
        if FlowSnapshot(flow, clusters).discovery.stands_by or not self.ledger(flow).copies:
            return 0
        sync_topics.run(flow, clusters)
        copied = self.copy(flow)
        checkpoints.run(flow, clusters)
        publish.run(flow, clusters, "cycle", None, now_ms())
        self.audit(flow)
        return copied

    def copy(self, flow: FlowSettings) -> int:
        """Copy in memory what the ledger lets this flow copy, without what the reverse flow wrote; count it."""
        clusters = self.clusters(flow)
        if FlowSnapshot(flow, clusters).discovery.stands_by:
            return 0
        if not self.ledger(flow).copies_for(flow.recovery_run):
            return 0
        source, _ = self.ends(flow)
        if all(it.topic != source.topic for it in FlowSnapshot(flow, clusters).discovery.topics):
            return 0
        start = read_progress(flow, clusters.target).get(source, -1) + 1
        end, new = clusters.source.topics[source.topic].logs[0].end, self.missing(flow)
        if end > start:
            self.blows.change("copy", lambda: self._copied(flow, start, end, new))
        return len(new)

    def missing(self, flow: FlowSettings) -> list[int]:
        """The offsets that the flow has yet to copy, without what the reverse flow wrote."""
        clusters = self.clusters(flow)
        source, _ = self.ends(flow)
        start = read_progress(flow, clusters.target).get(source, -1) + 1
        end = clusters.source.topics[source.topic].logs[0].end
        discovery = FlowSnapshot(flow, clusters).discovery
        spans = read_other_writers(flow, clusters, discovery).loopback.get(source, Spans())
        return [it for it in range(start, end) if not spans.has(it)]

    def _copied(self, flow: FlowSettings, start: int, end: int, new: list[int]) -> None:
        clusters = self.clusters(flow)
        place, copy = self.ends(flow)
        if read_progress(flow, clusters.target).get(place, -1) + 1 != start:
            raise FencedError("another twinlog runs this flow")
        source, target = clusters.source.topics[place.topic], clusters.target
        extents = []
        for record in source.logs[0].records:
            if record.offset in new:
                at = target.append(copy, key=record.key, value=record.value, timestamp=record.timestamp)
                extents.append(Extent(record.offset, at, 1))
        key = source_offset_key(flow.connector_name, flow.state_alias, 0, place.topic)
        number = partition_for(key, flow.offset_storage_partitions)
        target.append(TopicPartition(flow.offsets_topic, number), key=key, value=offset_value(end - 1))
        map_key = encode_map_key(MapKey(place.topic, source.topic_id, 0, start))
        value = encode_segment(MapSegment(start, end, tuple(extents)))
        number = map_partition(place.topic, 0, OFFSET_MAP_PARTITIONS)
        target.append(TopicPartition(flow.offset_map_topic, number), key=map_key, value=value)

    def of_others(self) -> set[int]:
        """Return the records of the copy on B of which an audit knows that others wrote them."""
        clusters = self.clusters(self.there)
        discovery = FlowSnapshot(self.there, clusters).discovery
        others = read_other_writers(self.there, clusters, discovery).others.get(self.copied, Spans())
        return {
            int(it.value) for it in self.b.topics[self.copied.topic].logs[0].records if others.has(it.offset)
        }

    def audit(self, flow: FlowSettings) -> None:
        """Note that all of the copy was proved equal."""
        clusters = self.clusters(flow)
        names = [it.topic for it in self.ends(flow)]
        if names[0] not in clusters.source.topics or names[1] not in clusters.target.topics:
            return
        source, target = clusters.source.topics[names[0]], clusters.target.topics[names[1]]
        end, there = source.logs[0].end, target.logs[0].end
        lives = source.topic_id, target.topic_id
        row = PartitionAudit(
            names[0], lives[0], 0, names[1], lives[1], 0, end, there, end, end, 0, (), 0, (), now_ms()
        )
        write_ledger(flow, clusters.target, [row])

    def tools(self, answer: Answer | Callable[[], Answer]) -> Tools:
        """What steps work with; `answer` is given when a person is asked."""

        def approve(question: str) -> Answer:
            self.questions.append(question)
            return answer() if callable(answer) else answer

        return Tools(SimpleNamespace, approve, self._sleep, Seal("mm2.properties", "sha"))

    def _sleep(self, _: float) -> None:
        if self.between:
            self.between.pop(0)()

    def fail_over(
        self,
        mode: Mode = Mode.PLANNED,
        flow: FlowSettings | None = None,
        *,
        reverse: bool = True,
        dry_run: bool = False,
        answer: Answer | Callable[[], Answer] = Answer.YES,
    ) -> FailoverReport:
        """Promote the target of a flow: B, unless another is named; `reverse` says whether the file has both."""
        chosen = flow or self.there
        back = self.usual if chosen.source.alias == "A" else self.there
        other = Way(back, self.clusters(back, watched=True)) if reverse else None
        tools, request = replace(self.tools(answer), reverse=other), Request("jo", mode, dry_run=dry_run)
        return failover.run(chosen, self.clusters(chosen, watched=True), request, tools)

    def home(
        self,
        answer: Answer | Callable[[], Answer] = Answer.YES,
        *,
        flow: FlowSettings | None = None,
        **request: Any,
    ) -> FailbackReport:
        """Go home as a process of its own: A->B, unless another is named."""
        there = flow or self.there
        back = self.back if there.source.alias == "A" else self.there
        ways = (Way(it, self.clusters(it, watched=True)) for it in (there, back))
        asked = Request(**{"by": "jo", **request})
        return home.run(*ways, asked, self.tools(answer), partial(self.read, there))

    def read(self, flow: FlowSettings, stretch: Stretch, start: int) -> Iterator[RawRecord | Lost]:
        """Read what one side alone has."""
        clusters = self.clusters(flow)
        cluster = clusters.source if stretch.side is Side.SOURCE else clusters.target
        for it in cluster.topics[stretch.topic].logs[stretch.partition].read_from(start, read_committed=True):
            if it.offset < stretch.end and not any(known.has(it.offset) for known in stretch.flows):
                yield RawRecord(it.offset, it.timestamp, bytes(record_rest(it.key, it.value)))

    def turn_back(self, *, without_reverse: bool = False) -> AbortResult | None:
        """Leave clients on B, as a process of its own."""
        reverse = None if without_reverse else Way(self.back, self.clusters(self.back, watched=True))
        clusters = self.clusters(self.there, watched=True)
        return abort.turn_back(self.there, clusters, reverse, by="jo", reason="not today")

    def follow(self, flow: FlowSettings | None = None) -> AbortResult:
        """Let A->B follow again, unless another is named, as a process of its own."""
        chosen = flow or self.there
        reverse = Way(self.back, self.clusters(self.back, watched=True)) if chosen is self.there else None
        clusters = self.clusters(chosen, watched=True)
        return abort.follow(chosen, clusters, reverse, by="jo", reason="clients are on A")

    def save(self, flow: FlowSettings | None = None) -> FailbackReport:
        """Save what the source of a flow alone has, that of A->B unless another is named."""
        chosen = flow or self.there
        reverse = self.usual if chosen is self.there else self.there
        tools = replace(LOOKING, seal=Seal("mm2.properties", "sha"))
        clusters = self.clusters(chosen, watched=True)
        return failback.run(chosen, clusters, Request("jo"), tools, partial(self.read, chosen), reverse)


def lose(cluster: FakeCluster) -> Callable[[], None]:
    """Let every question to a cluster fail; call the result to bring it back."""
    kept = dict(vars(cluster))

    def away(*_: object, **__: object) -> None:
        raise ClusterUnreachable(f"cluster {cluster.alias} is away", cluster=cluster.alias)

    for verb in (
        *("cluster_id", "topic_names", "describe_topics", "topic_configs", "offsets", "groups"),
        *("latest_records", "latest", "read_records", "describe_acls", "create_acls", "delete_acls"),
    ):
        setattr(cluster, verb, away)

    def again() -> None:
        vars(cluster).clear()
        vars(cluster).update(kept)

    return again


def denied(cluster: FakeCluster) -> bool:
    """Say whether a cluster keeps everybody from writing."""
    return any(it.permission == "DENY" for it in cluster.acls or ())


def now_ms() -> int:
    return int(time.time() * 1000)


def new_world(flow: FlowSettings, folder: Path, *, keeps_names: bool = True) -> BothWays:
    """Make both flows; A has five records, of which the group has read all, and B has their copies."""
    a, b = FakeCluster("A", brokers=3), FakeCluster("B", brokers=3)

    def way(source: Any, target: Any) -> FlowSettings:
        return replace(
            flow,
            source=source,
            target=target,
            policy=IdentityReplicationPolicy(source_alias=source.alias)
            if keeps_names
            else DefaultReplicationPolicy(),
            topics=NameFilter((".*",)),
            aliases=frozenset({"A", "B"}),
            groups=NameFilter((".*",)),
            heartbeats_replication=False,
            emit_heartbeats=False,
            gate=GateSettings(reports=folder, fence_seconds=1),
            failover=FailoverSettings(wait_seconds=0),
        )

    there, usual = way(flow.source, flow.target), way(flow.target, flow.source)
    back = usual if keeps_names else homeward(usual, there)
    copied = ORDERS if keeps_names else COPY
    world = BothWays(there, back, usual, copied, a, b, folder)
    for it, cluster, ids in (
        (world.there, b, ("cluster-A", "cluster-B")),
        (world.usual, a, ("cluster-B", "cluster-A")),
    ):
        for topic in internal_topics(it):
            cluster.add_topic(topic.name, topic.partitions, configs={"cleanup.policy": "compact"})
        write_ledger(it, cluster, [FlowClaim(it.name, *ids, 1)])
    a.add_topic("orders")
    a.acls, b.acls = {WRITES}, set()
    world.write(a, 5)
    a.commit(GROUP, ORDERS, 5)
    return world


def promoted_world(
    flow: FlowSettings,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    keeps_names: bool,
    written: int = WRITTEN_ON_B,
) -> BothWays:
    """Make a flow that was failed over, with as many records that clients have written to B."""
    world = new_world(flow, folder, keeps_names=keeps_names)
    replace_what_needs_brokers(world, monkeypatch)
    for it in (world.there, world.usual):
        world.cycle(it)
    report = world.fail_over()
    assert State.PROMOTED is report.state, [(it.name, it.state, it.message) for it in report.steps]
    world.write(world.b, written)
    return world


def replace_what_needs_brokers(made: BothWays, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do copies, audits and fences in memory."""

    taken: Counter[str] = Counter()

    @dataclass
    class Held:
        flow: FlowSettings
        mine: int

        def write(self, records: list[StateRecord]) -> None:
            target = made.clusters(self.flow).target
            target.cluster_id()  # one that is away takes nothing

            def do() -> None:
                if self.mine != taken[self.flow.name]:
                    raise FencedError("another twinlog runs this flow")
                for it in records:
                    target.append(TopicPartition(it.topic, it.partition), key=it.key, value=it.value)

            made.blows.change(f"fence of {self.flow.name}", do)

    def copy_all(scene: Any) -> tuple[None, str]:
        sync_topics.run(scene.flow, scene.clusters)
        target = made.clusters(scene.flow).target
        if denied(target) and made.missing(scene.flow):
            return None, f"orders-0: {target.alias} denies WRITE to everybody"  # twinlog is no super user
        try:
            made.copy(scene.flow)
        except FencedError:
            scene.move(lambda *_: None)
            raise
        return None, ""

    def audited(flow: FlowSettings, *_: Any) -> SimpleNamespace:
        made.audit(flow)
        return SimpleNamespace(equal=True, records=1, coverage=1.0, differences=())

    def take(flow: FlowSettings, *_: Any) -> Held:
        taken[flow.name] += 1
        return Held(flow, taken[flow.name])

    held = SimpleNamespace(taken=take)
    monkeypatch.setattr(source_writers, "PROBE_SECONDS", 0.0)
    monkeypatch.setattr(journal, "Ownership", held)
    monkeypatch.setattr(export, "Ownership", held)
    monkeypatch.setattr(planned, "copy_all", copy_all)
    monkeypatch.setattr(planned.audit, "run", audited)
    monkeypatch.setattr(groups.emit, "run", lambda *_: None)
