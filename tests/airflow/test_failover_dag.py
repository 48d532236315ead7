"""A failover by the form, on a real scheduler: shown, rejected, approved, done on Spark, told of."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import pytest

from lab import Seen, commit_group, create_topic, cycle, delete_topic, produce, read_with_offsets
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.groups import checkpoints
from twinlog.jsonable import to_json
from twinlog.monitoring import publish
from twinlog.state.ledger import Ledger, read_ledger

pytestmark = [pytest.mark.airflow, pytest.mark.integration]

DAG, DRILL, CYCLE = "failover", "drill", "replicate__left__right"
FLOW = {"flow": "left->right"}
UP_TO_THE_YES = ("preview", "begin", "fence_producers", "drain", "groups", "audit", "gate", "approve")
SKIPPED = dict.fromkeys(
    (*UP_TO_THE_YES, "loss", "promote", "switch_clients", "canary", "rejected", "report"), "skipped"
)


def logged(scheduler, run_id: str, task: str, dag: str = DAG) -> str:
    """What the last try of a task has said."""
    place = f"dags/{dag}/dagRuns/{run_id}/taskInstances/{task}"
    number = scheduler.api.get(place)["try_number"]
    return str(scheduler.api.get(f"{place}/logs/{number}"))


def ledger_of(flow: FlowSettings) -> Ledger:
    with open_clusters(flow) as clusters:
        return read_ledger(flow, clusters.target)


def records(first: int, count: int) -> list[Seen]:
    now = int(time.time() * 1000)
    return [Seen(b"k", b"%d" % n, now) for n in range(first, first + count)]


def drill_it(scheduler, flow: FlowSettings, cluster, group: str, alarms: list[dict]) -> None:
    """Drill by the form: one passes and tells of it, mistakes in the form send no alarm, one that fails does."""
    with open_clusters(flow) as clusters:
        before = set(clusters.target.groups())
    run_id = scheduler.api.trigger(DRILL, **FLOW, groups="readers-failing-.*")
    assert {"drill": "success"} == scheduler.finish(DRILL, run_id)
    told = scheduler.api.result(DRILL, run_id, "drill")
    assert ("passed", "admin", [group]) == (told["state"], told["by"], told["drilled"])
    assert ["right"] == [it["found"] for it in told["groups"]]
    with open_clusters(flow) as clusters:
        assert before == set(clusters.target.groups())
    events = scheduler.api.get("assets/events?limit=200")["asset_events"]
    drilled = [it["extra"] for it in events if it["uri"] == "twinlog://right/drill/left"]
    assert [(told["run"], 1)] == [(it["run"], it["groups"]) for it in drilled]

    mistaken = [scheduler.api.trigger(DRILL, **FLOW, groups=typed) for typed in ("nobody", "(")]
    assert [{"drill": "failed"}] * 2 == [scheduler.finish(DRILL, run_id) for run_id in mistaken]

    late = create_topic(cluster, f"failing-late-{uuid.uuid4().hex[:6]}")
    commit_group(cluster, f"readers-{late}", late, 0)
    run_id = scheduler.api.trigger(DRILL, **FLOW, groups=f"readers-{late}")
    assert {"drill": "failed"} == scheduler.finish(DRILL, run_id)
    heard = scheduler.wait("the alarm", lambda: [it for it in alarms if it["run"] == run_id])
    assert ["left->right"] == [it["flow"] for it in heard]
    assert not [it for it in alarms if it["run"] in mistaken]
    delete_topic(cluster, late)


def test_a_person_approves_and_the_target_is_promoted(scheduler, cluster_a, cluster_b, alarms) -> None:
    """A drill leaves nothing behind, and a dry run; a no takes all back, or waits; a yes is in the journal by name."""
    flow = load(Path(scheduler.instance.environment["TWINLOG_CONFIG"])).flows["left->right"]
    topic = create_topic(cluster_a, f"failing-{uuid.uuid4().hex[:6]}", retention_ms="604800000")
    group = f"readers-{topic}"
    produce(cluster_a, topic, records(0, 20))
    commit_group(cluster_a, group, topic, 15)
    started = int(time.time() * 1000)
    copied = cycle(flow)
    with open_clusters(flow) as clusters:
        checkpoints.run(flow, clusters)
        publish.run(flow, clusters, uuid.uuid4().hex, to_json(copied), started)
        audit.run(flow, clusters, LocalAuditRunner())
    drill_it(scheduler, flow, cluster_a, group, alarms)
    scheduler.api.pause(CYCLE, paused=False)
    cycled = scheduler.api.trigger(CYCLE)
    assert "success" == scheduler.finish(CYCLE, cycled)["publish"]
    produce(cluster_a, topic, records(20, 5))
    commit_group(cluster_a, group, topic, 25)

    run_id = scheduler.api.trigger(DAG, **FLOW, dry_run=True)
    assert SKIPPED == scheduler.finish(DAG, run_id)
    assert 5 == scheduler.api.result(DAG, run_id, "preview")["at_risk_records"]

    with pytest.raises(TerminalError, match="flow"):
        scheduler.api.trigger(DAG)  # none is taken for granted
    run_id = scheduler.api.trigger(DAG, **FLOW)
    scheduler.asked(DAG, run_id)
    beside = scheduler.api.trigger(DAG, **FLOW)
    assert "failed" == scheduler.finish(DAG, beside)["preview"]
    assert f"run {run_id} is at work for this flow, or waits for an answer" in logged(
        scheduler, beside, "preview"
    )
    shown = scheduler.answer(DAG, run_id, "Reject")
    assert "| a yes costs | nothing is lost |" in shown
    assert r"| missing | 0 records are not on the target now |" in shown
    assert r"records looked at\, 100\.0 \% of the copy proved |" in shown
    asked = {**SKIPPED, **dict.fromkeys(UP_TO_THE_YES, "success")}
    assert {**asked, "rejected": "success"} == scheduler.finish(DAG, run_id)
    assert "not approved: nothing was promoted, and left->right is as it was" in logged(
        scheduler, run_id, "report"
    )
    ledger = ledger_of(flow)
    assert (FlowPhase.ACTIVE, ["aborted"]) == (ledger.phase, [it.state for it in ledger.recoveries])

    run_id = scheduler.api.trigger(DAG, **FLOW)
    scheduler.answer(DAG, run_id, "Reject", if_rejected="wait")
    assert {**asked, "rejected": "success"} == scheduler.finish(DAG, run_id)
    assert "nothing was promoted, and it waits: clear `approve` to be asked again" in logged(
        scheduler, run_id, "report"
    )
    assert FlowPhase.FAILING_OVER is ledger_of(flow).phase
    scheduler.clear(DAG, run_id, "audit")
    shown = scheduler.answer(DAG, run_id, "Approve")
    assert "nothing is lost" in shown
    done = {**dict.fromkeys(SKIPPED, "success"), "loss": "skipped", "rejected": "skipped"}
    assert done == scheduler.finish(DAG, run_id)
    told = scheduler.api.result(DAG, run_id, "report")
    ledger = ledger_of(flow)
    run = ledger.recoveries[-1]
    assert (FlowPhase.PROMOTED, run.run, True) == (ledger.phase, told["run"], run.cleared)
    assert {"admin"} == {told["by"], run.by, *(it.by for it in run.journal)}
    evidence = json.loads(Path(told["evidence"]).read_text())["payload"]["recovery"]
    assert [topic] == [it["topic"] for it in evidence["topics"]]
    assert [group] == [it["group"] for it in evidence["groups"]]
    copy = read_with_offsets(cluster_b, f"left.{topic}")
    assert [b"%d" % n for n in range(25)] == [it.value for _, it in copy]
    with open_clusters(flow) as clusters:
        there = clusters.target.committed_offsets([group]).require()[group]
    behind_the_last = copy[-1][0] + 1
    assert [behind_the_last] == [it.offset for at, it in there.items() if at.topic == f"left.{topic}"]
    events = scheduler.api.get("assets/events?limit=200")["asset_events"]
    assert [told["run"]] == [
        it["extra"]["run"] for it in events if it["uri"] == "twinlog://right/failover/left"
    ]

    scheduler.clear(CYCLE, cycled, "copy")
    states = scheduler.finish(CYCLE, cycled)
    assert ("skipped", "skipped") == (states["copy"], states["publish"])
    said = logged(scheduler, cycled, "copy", CYCLE)
    assert "left->right is promoted by admin: failover, planned: nothing is copied" in said

    scheduler.clear(DAG, run_id, "drain")
    scheduler.finish(DAG, run_id)
    said = logged(scheduler, run_id, "drain")
    assert "left->right is promoted: nothing is done before that any more" in said
    assert run == ledger_of(flow).recoveries[-1]

    run_id = scheduler.api.trigger(DAG, **FLOW)
    states = scheduler.finish(DAG, run_id)
    assert ("failed", "upstream_failed") == (states["preview"], states["begin"])
    assert {"drill": "skipped"} == scheduler.finish(DRILL, scheduler.api.trigger(DRILL, **FLOW))
