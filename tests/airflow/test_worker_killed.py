"""A worker dies in the middle of a drill, a failover and a way home: Airflow tries again, and nothing is left over.

Cost: some five minutes on two busy cores.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from there_and_back import ThereAndBack, records

from lab import commit_group, produce
from twinlog.cluster.open import open_clusters
from twinlog.formats.ledger.drill import DrillState
from twinlog.formats.ledger.records import FlowPhase

pytestmark = [pytest.mark.airflow, pytest.mark.integration, pytest.mark.long]

DRILL, OVER, HOME = "drill__north__south", "failover__north__south", "failback__north__south"
DONE = "success"


class Worker:
    """The process of a running task."""

    def __init__(self, scheduler, dag: str, run_id: str, task: str) -> None:
        self.killed = 0
        self._scheduler, self._task = scheduler, f"dags/{dag}/dagRuns/{run_id}/taskInstances/{task}"

    def kill(self, once: Callable[[], Any]) -> None:
        """Kill it by SIGKILL once something is true."""
        self._scheduler.wait("the moment", once)
        found = self._scheduler.api.get(self._task)
        assert "running" == found["state"]
        self.killed = int(found["try_number"])
        os.kill(found["pid"], signal.SIGKILL)

    @property
    def tried_again(self) -> bool:
        """Whether another try has ended what the killed one began."""
        return int(self._scheduler.api.get(self._task)["try_number"]) > self.killed


def finished(scheduler, dag: str, run_id: str) -> dict[str, str]:
    states = scheduler.finish(dag, run_id, timeout_s=900)
    return {task: state for task, state in states.items() if state != "skipped"}


def events(scheduler, uri: str) -> list[str]:
    found = scheduler.api.get("assets/events?limit=200")["asset_events"]
    return [it["extra"]["run"] for it in found if it["uri"] == uri]


def test_the_next_try_goes_on(scheduler, cluster_a, cluster_b) -> None:
    """A drill leaves no clone; a failover is told of once; all records and the group are where they belong."""
    world = ThereAndBack(scheduler, cluster_a, cluster_b)
    for dag in (DRILL, OVER, HOME):
        scheduler.api.pause(dag, paused=False)
    world.begin()
    produce(cluster_a, world.topic, records(20, 5))
    world.cycle(world.there)  # the group has something to read on the south

    def clones() -> set[str]:
        with open_clusters(world.there) as clusters:
            return {it.group for it in clusters.target.groups() if it.group.endswith(f"-{world.group}")}

    run_id = scheduler.api.trigger(DRILL, groups=world.group)
    worker = Worker(scheduler, DRILL, run_id, "drill")
    worker.kill(clones)
    assert {"drill": DONE} == finished(scheduler, DRILL, run_id)
    assert (True, set()) == (worker.tried_again, clones())
    killed, passed = world.ledger(world.there).drills[-2:]
    assert (DrillState.KILLED, DrillState.PASSED) == (killed.state, passed.state)
    assert ((), ()) == (killed.clones, passed.clones)

    commit_group(cluster_a, world.group, world.topic, 25)
    run_id = scheduler.api.trigger(OVER)
    scheduler.answer(OVER, run_id, "Approve")
    worker = Worker(scheduler, OVER, run_id, "failover")
    worker.kill(lambda: world.ledger(world.there).phase is FlowPhase.PROMOTED)
    assert set(finished(scheduler, OVER, run_id).values()) == {DONE}
    told = scheduler.api.result(OVER, run_id, "report")
    run = world.ledger(world.there).present_recovery
    assert run is not None
    assert (True, run.run, True, "admin") == (worker.tried_again, told["run"], run.cleared, run.by)
    assert 1 == events(scheduler, "twinlog://south/failover/north").count(run.run)
    assert (list(range(25)), 25) == (world.numbers(cluster_b), world.place(on_south=True))

    produce(cluster_b, world.topic, records(1000, 10))
    commit_group(cluster_b, world.group, world.topic, 35)
    run_id = scheduler.api.trigger(HOME, home=True)
    scheduler.answer(HOME, run_id, "Approve")
    worker = Worker(scheduler, HOME, run_id, "home")
    worker.kill(lambda: world.ledger(world.there).phase is FlowPhase.FAILING_BACK)
    assert set(finished(scheduler, HOME, run_id).values()) == {DONE}
    told = scheduler.api.result(HOME, run_id, "report")
    assert (True, "following") == (worker.tried_again, told["state"])
    assert (FlowPhase.ACTIVE, FlowPhase.ACTIVE) == world.phases()
    assert 1 == events(scheduler, "twinlog://north/failback/south").count(told["run"])
    every = [*range(25), *range(1000, 1010)]
    assert every == world.numbers(cluster_a) == world.numbers(cluster_b)
    assert 35 == world.place()
