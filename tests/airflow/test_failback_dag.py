"""Home again by the form, on a real scheduler: shown, saved, rejected, waiting for a choice, done on Spark, told of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from there_and_back import ThereAndBack, records

from lab import commit_group, produce
from twinlog.formats.ledger.records import FlowPhase

pytestmark = [pytest.mark.airflow, pytest.mark.integration]

DAG = "failback"
FLOW = {"flow": "north->south"}
UP_TO_THE_YES = (
    *("preview", "begin", "bring_home", "fence_producers", "drain", "groups", "audit", "gate", "approve"),
)
BEHIND = ("promote", "follow", "switch_clients", "canary", "report")
SKIPPED = dict.fromkeys((*UP_TO_THE_YES, *BEHIND, "save", "rejected"), "skipped")
SAVED = SKIPPED | dict.fromkeys(("preview", "gate", "approve", "save", "report"), "success")
TURNED_BACK = SKIPPED | dict.fromkeys((*UP_TO_THE_YES, "rejected"), "success")
HOME = SKIPPED | dict.fromkeys((*UP_TO_THE_YES, *BEHIND), "success")


def logged(scheduler, run_id: str, task: str) -> str:
    """What the last try of a task has said."""
    place = f"dags/{DAG}/dagRuns/{run_id}/taskInstances/{task}"
    number = scheduler.api.get(place)["try_number"]
    return str(scheduler.api.get(f"{place}/logs/{number}"))


def events(scheduler) -> list[dict]:
    found = scheduler.api.get("assets/events?limit=200")["asset_events"]
    return [it["extra"] for it in found if it["uri"] == "twinlog://north/failback/south"]


@pytest.mark.long
def test_a_person_approves_and_clients_go_home(scheduler, cluster_a, cluster_b) -> None:
    """It saves, waits for a choice about the tail, and goes home by a yes: each record is on both sides."""
    world = ThereAndBack(scheduler, cluster_a, cluster_b)
    world.begin()

    run_id = scheduler.api.trigger(DAG, **FLOW, home=True)
    assert "failed" == scheduler.finish(DAG, run_id, timeout_s=900)["preview"]
    assert "is not promoted: failback before failover" in logged(scheduler, run_id, "preview")
    run_id = scheduler.api.trigger(DAG, **FLOW, tail="keep")
    assert "failed" == scheduler.finish(DAG, run_id, timeout_s=900)["preview"]
    assert "tail is about the way home; turn home on" in logged(scheduler, run_id, "preview")

    failed_over = world.fail_over()
    produce(cluster_a, world.topic, records(20, 3))  # of clients that were not switched
    produce(cluster_b, world.topic, records(1000, 10))
    commit_group(cluster_b, world.group, world.topic, 30)

    run_id = scheduler.api.trigger(DAG, **FLOW, home=True, dry_run=True)
    assert SKIPPED == scheduler.finish(DAG, run_id, timeout_s=900)
    seen = scheduler.api.result(DAG, run_id, "preview")
    assert (3, 10, failed_over) == (seen["only_on_source"], seen["only_on_target"], seen["failover"])

    run_id = scheduler.api.trigger(DAG, **FLOW)
    shown = scheduler.answer(DAG, run_id, "Approve")
    assert "| on the source alone | 3 records |" in shown
    assert SAVED == scheduler.finish(DAG, run_id, timeout_s=900)
    told = scheduler.api.result(DAG, run_id, "save")
    assert ("promoted", "admin", 3) == (told["state"], told["by"], told["only_on_source"])
    (tail,) = [it for it in told["tail_topics"] if world.topic in it]
    assert [20, 21, 22] == world.numbers(cluster_b, tail)
    assert (FlowPhase.PROMOTED, FlowPhase.ACTIVE) == world.phases()
    assert [] == events(scheduler)

    run_id = scheduler.api.trigger(DAG, **FLOW, home=True)
    states = scheduler.finish(DAG, run_id, timeout_s=900)
    assert ("failed", "upstream_failed") == (states["bring_home"], states["report"])
    said = logged(scheduler, run_id, "bring_home")
    assert "failback of north->south: waiting: bring-home: 3 records are on north alone" in said
    assert (FlowPhase.FAILING_BACK, FlowPhase.FAILING_OVER) == world.phases()

    run_id = scheduler.api.trigger(DAG, **FLOW, home=True, tail="keep")
    shown = scheduler.answer(DAG, run_id, "Reject")
    assert "| a yes costs | nothing is lost |" in shown
    assert TURNED_BACK == scheduler.finish(DAG, run_id, timeout_s=900)
    assert "not approved: nothing was changed" in logged(scheduler, run_id, "report")
    assert (FlowPhase.PROMOTED, FlowPhase.ACTIVE) == world.phases()

    run_id = scheduler.api.trigger(DAG, **FLOW, home=True, tail="keep")
    scheduler.answer(DAG, run_id, "Approve")
    assert HOME == scheduler.finish(DAG, run_id, timeout_s=900)
    told = scheduler.api.result(DAG, run_id, "report")
    assert ("following", "admin", failed_over) == (told["state"], told["by"], told["failover"])
    assert (FlowPhase.ACTIVE, FlowPhase.ACTIVE) == world.phases()
    (run,) = [it for it in world.ledger(world.there).recoveries if it.run == told["run"]]
    evidence = json.loads(Path(told["evidence"]).read_text())["payload"]["recovery"]
    assert [(world.topic, world.group)] == [
        (topic["topic"], group["group"]) for topic in evidence["topics"] for group in evidence["groups"]
    ]
    assert (True, "admin") == (run.cleared, run.by)
    every = [*range(23), *range(1000, 1010)]
    assert every == world.numbers(cluster_a) == world.numbers(cluster_b)
    assert 20 == world.place()  # it has not read the three that only north had, and they lie before the ten
    assert [told["run"]] == [it["run"] for it in events(scheduler)]
