"""Flows both ways with unchanged names on real brokers, as the scheduler of tests/airflow works with them."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from pathlib import Path

from lab import Seen, ThreadRunner, commit_group, create_topic, cycle, produce, read_partitions
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.records import FlowPhase
from twinlog.gate.evidence import Seal
from twinlog.groups import checkpoints
from twinlog.kafka_types import TopicPartition
from twinlog.monitoring import publish
from twinlog.recovery import failover
from twinlog.recovery.failback import home
from twinlog.recovery.one_sided.read import opened_logs
from twinlog.recovery.procedure import Tail
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps.world import Answer, Request, Tools
from twinlog.state.ledger import Ledger, read_ledger


def records(first: int, count: int) -> list[Seen]:
    """Records that differ from each other."""
    now = int(time.time() * 1000)
    return [Seen(b"k%d" % n, b"%d" % n, now) for n in range(first, first + count)]


class ThereAndBack:
    """north->south and south->north on two clusters, with a topic and a group of their own."""

    def __init__(self, scheduler, north, south) -> None:
        name = uuid.uuid4().hex[:6]
        self.north, self.south = north, south
        self.topic, self.group = f"both-{name}", f"readers-both-{name}"
        self.file = Path(scheduler.instance.environment["TWINLOG_CONFIG"])
        flows = load(self.file).flows
        self.there, self.back = flows["north->south"], flows["south->north"]

    def begin(self) -> None:
        """Twenty records on both sides, of which the group has read all; both flows have run."""
        for cluster in (self.north, self.south):
            create_topic(cluster, self.topic, retention_ms="604800000")
        produce(self.north, self.topic, records(0, 20))
        commit_group(self.north, self.group, self.topic, 20)
        for flow in (self.there, self.back):
            self.cycle(flow)

    def cycle(self, flow: FlowSettings) -> None:
        """Copy, pass groups on, report, audit."""
        started = int(time.time() * 1000)
        cycle(flow)
        with open_clusters(flow) as clusters:
            checkpoints.run(flow, clusters)
            publish.run(flow, clusters, f"cycle-{started}", None, started)
            audit.run(flow, clusters, LocalAuditRunner())

    def fail_over(self) -> str:
        """Promote the south as planned; return the name of the failover."""
        with open_clusters(self.there) as clusters, open_clusters(self.back) as back:
            tools = Tools(ThreadRunner, lambda _: Answer.YES, time.sleep, Seal("mm2.properties", "sha"))
            tools = replace(tools, reverse=Way(self.back, back))
            report = failover.run(self.there, clusters, Request("jo"), tools)
        assert "promoted" == report.state.value, report.steps
        return report.run

    def go_home(self) -> None:
        """Promote the north again."""
        with (
            open_clusters(self.there) as clusters,
            open_clusters(self.back) as back,
            opened_logs(self.there) as read,
        ):
            tools = Tools(ThreadRunner, lambda _: Answer.YES, time.sleep, Seal("mm2.properties", "sha"))
            ways = Way(self.there, clusters), Way(self.back, back)
            report = home.run(*ways, Request("jo", tail=Tail.KEEP), tools, read)
        assert "following" == report.state.value, report.steps

    def ledger(self, flow: FlowSettings) -> Ledger:
        """What the ledger of a flow says now."""
        with open_clusters(flow) as clusters:
            return read_ledger(flow, clusters.target)

    def phases(self) -> tuple[FlowPhase, FlowPhase]:
        """The states of both flows."""
        return self.ledger(self.there).phase, self.ledger(self.back).phase

    def numbers(self, cluster, topic: str = "") -> list[int]:
        """The records of one side, by identity."""
        return sorted(int(it.value) for _, it in read_partitions(cluster, topic or self.topic, [0])[0])

    def place(self, *, on_south: bool = False) -> int:
        """Where the group goes on on one side."""
        with open_clusters(self.there) as clusters:
            side = clusters.target if on_south else clusters.source
            found = side.committed_offsets([self.group]).require()[self.group]
        return found[TopicPartition(self.topic, 0)].offset
