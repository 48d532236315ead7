"""Home again by the form, on a real scheduler: shown, saved, rejected, waiting for a choice, done on Spark, told of."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from lab import Seen, ThreadRunner, commit_group, create_topic, cycle, produce, read_partitions
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.cluster.open import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.records import FlowPhase
from twinlog.gate.suites.suites import Mode
from twinlog.groups import checkpoints
from twinlog.kafka_types import TopicPartition
from twinlog.monitoring import publish
from twinlog.recovery import failover
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps.scene import Answer, Tools
from twinlog.state.ledger import Ledger, read_ledger

pytestmark = [pytest.mark.airflow, pytest.mark.integration]

DAG = "failback__north__south"
TOPIC, GROUP = "both-orders", "readers-both-orders"
TASKS = ("preview", "approve", "save", "home", "report")
SKIPPED = dict.fromkeys(TASKS, "skipped")


def records(first: int, count: int) -> list[Seen]:
    now = int(time.time() * 1000)
    return [Seen(b"k%d" % n, b"%d" % n, now) for n in range(first, first + count)]


def numbers_in(cluster, topic: str = TOPIC) -> list[int]:
    return sorted(int(it.value) for _, it in read_partitions(cluster, topic, [0])[0])


class World:
    """north->south and south->north on the shared clusters, with the files that Airflow works from."""

    def __init__(self, scheduler, left, right) -> None:
        self.left, self.right = left, right
        self.file = Path(scheduler.instance.environment["TWINLOG_CONFIG"])
        flows = load(self.file).flows
        self.there, self.back = flows["north->south"], flows["south->north"]

    def begin(self) -> None:
        """Twenty records on both sides, of which the group has read all; both flows have run."""
        for cluster in (self.left, self.right):
            create_topic(cluster, TOPIC)
        produce(self.left, TOPIC, records(0, 20))
        commit_group(self.left, GROUP, TOPIC, 20)
        for flow in (self.there, self.back):
            self.cycle(flow)

    def cycle(self, flow: FlowSettings) -> None:
        started = int(time.time() * 1000)
        cycle(flow)
        with open_clusters(flow) as clusters:
            checkpoints.run(flow, clusters)
            publish.run(flow, clusters, f"cycle-{started}", None, started)
            audit.run(flow, clusters, LocalAuditRunner())

    def fail_over(self) -> str:
        """Promote the south as planned; return the name of the failover."""
        with open_clusters(self.there) as clusters, open_clusters(self.back) as back:
            tools = Tools(ThreadRunner, lambda _: Answer.YES, time.sleep, self.file, "sha")
            tools = replace(tools, reverse=Way(self.back, back))
            report = failover.run(self.there, clusters, failover.Request(Mode.PLANNED, "jo"), tools)
        assert "promoted" == report.state.value, report.steps
        return report.run

    def ledger(self, flow: FlowSettings) -> Ledger:
        with open_clusters(flow) as clusters:
            return read_ledger(flow, clusters.target)

    def phases(self) -> tuple[FlowPhase, FlowPhase]:
        return self.ledger(self.there).phase, self.ledger(self.back).phase


def logged(scheduler, run_id: str, task: str, dag: str = DAG, attempt: int = 1) -> str:
    return str(scheduler.api.get(f"dags/{dag}/dagRuns/{run_id}/taskInstances/{task}/logs/{attempt}"))


def events(scheduler) -> list[dict]:
    found = scheduler.api.get("assets/events?limit=200")["asset_events"]
    return [it["extra"] for it in found if it["uri"] == "twinlog://north/failback/south"]


def test_a_person_approves_and_clients_go_home(scheduler, cluster_a, cluster_b) -> None:
    """It saves without a change, waits for a choice about the tail, and goes home by a yes: each record on both sides."""
    world = World(scheduler, cluster_a, cluster_b)
    scheduler.api.pause(DAG, paused=False)
    world.begin()

    run_id = scheduler.api.trigger(DAG, home=True)
    assert "failed" == scheduler.finish(DAG, run_id)["preview"]
    assert "is not promoted: failback before failover" in logged(scheduler, run_id, "preview")
    run_id = scheduler.api.trigger(DAG, tail="keep")
    assert "failed" == scheduler.finish(DAG, run_id)["preview"]
    assert "tail is about the way home; turn home on" in logged(scheduler, run_id, "preview")

    failed_over = world.fail_over()
    produce(cluster_a, TOPIC, records(20, 3))  # of clients that were not switched
    produce(cluster_b, TOPIC, records(1000, 10))
    commit_group(cluster_b, GROUP, TOPIC, 30)

    run_id = scheduler.api.trigger(DAG, home=True, dry_run=True)
    assert SKIPPED == scheduler.finish(DAG, run_id)
    seen = scheduler.api.result(DAG, run_id, "preview")
    assert (3, 10, failed_over) == (seen["only_on_source"], seen["only_on_target"], seen["failover"])

    run_id = scheduler.api.trigger(DAG)
    shown = scheduler.answer(DAG, run_id, "Approve")
    assert f"on the source alone: 3 records\n  3 of {TOPIC}-0" in shown
    assert {**dict.fromkeys(TASKS, "success"), "home": "skipped"} == scheduler.finish(DAG, run_id)
    told = scheduler.api.result(DAG, run_id, "save")
    assert ("promoted", "admin", 3) == (told["state"], told["by"], told["only_on_source"])
    assert [20, 21, 22] == numbers_in(cluster_b, told["tail_topics"][0])
    assert (FlowPhase.PROMOTED, FlowPhase.ACTIVE) == world.phases()
    assert [] == events(scheduler)

    run_id = scheduler.api.trigger(DAG, home=True)
    shown = scheduler.answer(DAG, run_id, "Reject")
    assert "would wait: 3 records are on north alone" in shown
    assert {**SKIPPED, "preview": "success", "approve": "success"} == scheduler.finish(DAG, run_id)
    assert "not approved: nothing was changed" in logged(scheduler, run_id, "report")
    assert (FlowPhase.PROMOTED, FlowPhase.ACTIVE) == world.phases()

    run_id = scheduler.api.trigger(DAG, home=True)
    scheduler.answer(DAG, run_id, "Approve")
    states = scheduler.finish(DAG, run_id)
    assert ("failed", "upstream_failed") == (states["home"], states["report"])
    said = logged(scheduler, run_id, "home")
    assert "failback of north->south: waiting: bring-home: 3 records are on north alone" in said
    assert (FlowPhase.FAILING_BACK, FlowPhase.FAILING_OVER) == world.phases()

    run_id = scheduler.api.trigger(DAG, home=True, tail="keep")
    scheduler.answer(DAG, run_id, "Approve")
    assert {**dict.fromkeys(TASKS, "success"), "save": "skipped"} == scheduler.finish(DAG, run_id)
    told = scheduler.api.result(DAG, run_id, "report")
    assert ("following", "admin", failed_over) == (told["state"], told["by"], told["failover"])
    assert (FlowPhase.ACTIVE, FlowPhase.ACTIVE) == world.phases()
    (run,) = [it for it in world.ledger(world.there).recoveries if it.run == told["run"]]
    assert (True, "admin") == (run.cleared, run.by)
    every = [*range(23), *range(1000, 1010)]
    assert every == numbers_in(cluster_a) == numbers_in(cluster_b)
    with open_clusters(world.there) as clusters:
        place = clusters.source.committed_offsets([GROUP]).require()[GROUP][TopicPartition(TOPIC, 0)]
    assert 33 == place.offset  # behind all that it has read on either side, and the three that it reads on B
    assert [told["run"]] == [it["run"] for it in events(scheduler)]
