"""A failover by the form, on a real scheduler: shown, rejected, approved, done on Spark, told of."""

from __future__ import annotations

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
from twinlog.formats.ledger.records import FlowPhase
from twinlog.groups import checkpoints
from twinlog.jsonable import to_json
from twinlog.monitoring import publish
from twinlog.state.ledger import Ledger, read_ledger

pytestmark = [pytest.mark.airflow, pytest.mark.integration]

DAG = "failover__left__right"
DRILL = "drill__left__right"


def ledger_of(flow: FlowSettings) -> Ledger:
    with open_clusters(flow) as clusters:
        return read_ledger(flow, clusters.target)


def records(first: int, count: int) -> list[Seen]:
    now = int(time.time() * 1000)
    return [Seen(b"k", b"%d" % n, now) for n in range(first, first + count)]


def drill_it(scheduler, flow: FlowSettings, cluster, group: str, alarms: list[dict]) -> None:
    """Drill by the form: one passes and tells of it, mistakes in the form send no alarm, one that fails does."""
    scheduler.api.pause(DRILL, paused=False)
    with open_clusters(flow) as clusters:
        before = set(clusters.target.groups())
    run_id = scheduler.api.trigger(DRILL, groups="readers-failing-.*")
    assert {"drill": "success"} == scheduler.finish(DRILL, run_id)
    told = scheduler.api.result(DRILL, run_id, "drill")
    assert ("passed", "admin", [group]) == (told["state"], told["by"], told["drilled"])
    assert ["right"] == [it["found"] for it in told["groups"]]
    with open_clusters(flow) as clusters:
        assert before == set(clusters.target.groups())
    events = scheduler.api.get("assets/events?limit=200")["asset_events"]
    drilled = [it["extra"] for it in events if it["uri"] == "twinlog://right/drill/left"]
    assert [(told["run"], 1)] == [(it["run"], it["groups"]) for it in drilled]

    mistaken = [scheduler.api.trigger(DRILL, groups=typed) for typed in ("nobody", "(")]
    assert [{"drill": "failed"}] * 2 == [scheduler.finish(DRILL, run_id) for run_id in mistaken]

    late = create_topic(cluster, f"failing-late-{uuid.uuid4().hex[:6]}")
    commit_group(cluster, f"readers-{late}", late, 0)
    run_id = scheduler.api.trigger(DRILL, groups=f"readers-{late}")
    assert {"drill": "failed"} == scheduler.finish(DRILL, run_id)
    heard = scheduler.wait("the alarm", lambda: [it for it in alarms if it["run"] == run_id])
    assert ["left->right"] == [it["flow"] for it in heard]
    assert not [it for it in alarms if it["run"] in mistaken]
    delete_topic(cluster, late)


def test_a_person_approves_and_the_target_is_promoted(scheduler, cluster_a, cluster_b, alarms) -> None:
    """A drill leaves nothing behind, a dry run and a rejection change nothing; a yes is in the journal by name."""
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
    produce(cluster_a, topic, records(20, 5))
    commit_group(cluster_a, group, topic, 25)
    scheduler.api.pause(DAG, paused=False)

    run_id = scheduler.api.trigger(DAG, dry_run=True)
    skipped = dict.fromkeys(("preview", "approve", "failover", "report"), "skipped")
    assert skipped == scheduler.finish(DAG, run_id)
    assert 5 == scheduler.api.result(DAG, run_id, "preview")["at_risk_records"]

    run_id = scheduler.api.trigger(DAG)
    scheduler.answer(DAG, run_id, "Reject")
    assert {**skipped, "preview": "success", "approve": "success"} == scheduler.finish(DAG, run_id)
    said = str(scheduler.api.get(f"dags/{DAG}/dagRuns/{run_id}/taskInstances/report/logs/1"))
    assert "not approved: nothing was promoted, and left->right is as it was" in said
    ledger = ledger_of(flow)
    assert (FlowPhase.ACTIVE, ()) == (ledger.phase, ledger.recoveries)

    run_id = scheduler.api.trigger(DAG)
    shown = scheduler.answer(DAG, run_id, "Approve")
    assert f"5 of {topic}-0, copy left.{topic}" in shown
    assert dict.fromkeys(skipped, "success") == scheduler.finish(DAG, run_id)
    told = scheduler.api.result(DAG, run_id, "report")
    ledger = ledger_of(flow)
    (run,) = ledger.recoveries
    assert (FlowPhase.PROMOTED, run.run, True) == (ledger.phase, told["run"], run.cleared)
    assert {"admin"} == {told["by"], run.by, *(it.by for it in run.journal)}
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

    run_id = scheduler.api.trigger(DAG)
    states = scheduler.finish(DAG, run_id)
    assert ("failed", "upstream_failed") == (states["preview"], states["approve"])
    assert {"drill": "skipped"} == scheduler.finish(DRILL, scheduler.api.trigger(DRILL))
