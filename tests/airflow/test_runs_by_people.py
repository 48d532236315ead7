"""What people do with runs in Airflow, between real clusters: nothing is lost, nothing is doubled.

Records of a topic are compared on both sides, and the record at which its group goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, commit_group, committed, create_topic, cycle, produce, read, read_with_offsets
from twinlog.config.flow.load import load

pytestmark = [pytest.mark.airflow, pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1200)]

DAG = "replicate__day__night"
DAY_MS = 86_400_000
FIRST_OF_2025_MS = 1_735_689_600_000


@dataclass(frozen=True)
class Copied:
    """A topic of day, with a group that reads it, and its copy on night."""

    day: Any
    night: Any
    topic: str

    def write(self, count: int, timestamp: int = FIRST_OF_2025_MS) -> None:
        """Write records that do not compress: the flow copies 300 of them in a second."""
        produce(self.day, self.topic, [Seen(os.urandom(8), os.urandom(300), timestamp) for _ in range(count)])

    def read_up_to(self, offset: int) -> None:
        """Commit a position of the group on day."""
        commit_group(self.day, f"readers-{self.topic}", self.topic, offset)

    def copied(self) -> int:
        """Count the records on night."""
        return len(read(self.night, f"day.{self.topic}"))

    def prove(self, count: int) -> None:
        """Both sides hold these many equal records, and the group goes on at the same one."""
        group, copy = f"readers-{self.topic}", f"day.{self.topic}"
        theirs, ours = read(self.day, self.topic), read_with_offsets(self.night, copy)
        assert count == len(theirs)
        assert theirs == [seen for _, seen in ours]
        at, there = committed(self.day, group, self.topic), committed(self.night, group, copy)
        assert theirs[at:] == [seen for offset, seen in ours if offset >= there >= 0]


@pytest.fixture
def topic(cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str]) -> Copied:
    """300 records, of which the group has read 100."""
    made = Copied(cluster_a, cluster_b, create_topic(cluster_a, unique_topic("daily")))
    made.write(300)
    made.read_up_to(100)
    return made


@pytest.fixture(scope="module")
def people(scheduler: Any) -> Iterator[Any]:
    """The scheduler, its Dag unpaused and the scheduled run done."""
    scheduler.finish(DAG, scheduler.unpause(DAG))
    yield scheduler
    scheduler.api.pause(DAG, paused=True)


def run(people: Any) -> str:
    """Run a cycle to its end, which is good."""
    run_id: str = people.api.trigger(DAG)
    states = people.finish(DAG, run_id)
    assert {"success"} == set(states.values()), states
    return run_id


def clear_run(people: Any, run_id: str) -> None:
    people.api.post(f"dags/{DAG}/dagRuns/{run_id}/clear", {"dry_run": False, "only_failed": False})


def test_cleared_tasks_and_runs(people: Any, topic: Copied) -> None:
    """A task of a finished run, and a whole old run, copy what has come since, and move no group back."""
    old = run(people)
    topic.write(200)
    topic.read_up_to(350)
    run(people)
    topic.prove(500)

    what = {"dag_run_id": old, "task_ids": ["copy"], "include_downstream": False, "only_failed": False}
    people.api.post(f"dags/{DAG}/clearTaskInstances", {**what, "dry_run": False, "reset_dag_runs": True})
    assert {"success"} == set(people.finish(DAG, old).values())
    topic.prove(500)

    topic.write(100)
    topic.read_up_to(550)
    clear_run(people, old)
    assert {"success"} == set(people.finish(DAG, old).values())
    topic.prove(600)


def test_two_runs_at_once(people: Any, topic: Copied) -> None:
    """A second run waits for the first; beside both another process takes the copy over, and they go on behind it."""
    topic.write(4700)
    topic.read_up_to(4000)
    first = people.api.trigger(DAG)
    people.wait("the copy", lambda: topic.copied() > 0)
    second = people.api.trigger(DAG)
    flow = load(Path(people.instance.environment["TWINLOG_CONFIG"])).flows["day->night"]
    assert 0 < cycle(flow).records < 5000
    for run_id in (first, second):
        assert {"success"} == set(people.finish(DAG, run_id).values()) - {"skipped"}
    topic.prove(5000)


def copying(people: Any, topic: Copied) -> str:
    """Return a run in the middle of its copy, which takes half a minute."""
    topic.write(9700)
    topic.read_up_to(4000)
    run_id: str = people.api.trigger(DAG)
    people.wait("the copy", lambda: topic.copied() > 0)
    return run_id


@pytest.mark.parametrize("state", ["success", "failed"])
def test_a_copy_that_is_marked(people: Any, topic: Copied, state: str) -> None:
    """Its process ends, and the next run copies the rest."""
    run_id = copying(people, topic)
    people.api.patch(f"dags/{DAG}/dagRuns/{run_id}/taskInstances/copy", {"new_state": state})
    assert state == people.finish(DAG, run_id)["copy"]
    assert topic.copied() < 10_000
    run(people)
    topic.prove(10_000)


def test_a_pause_in_the_middle(people: Any, topic: Copied) -> None:
    """The task that copies ends well, the others wait; unpaused, the run goes on."""
    run_id = copying(people, topic)
    people.api.pause(DAG, paused=True)
    copy = f"dags/{DAG}/dagRuns/{run_id}/taskInstances/copy"
    people.wait("its end", lambda: people.api.get(copy)["state"] == "success")
    topic.write(100)
    assert "running" == people.api.run(DAG, run_id)["state"]
    people.api.pause(DAG, paused=False)
    assert {"success"} == set(people.finish(DAG, run_id).values())
    run(people)
    topic.prove(10_100)


def test_a_backfill_of_three_days(people: Any, topic: Copied) -> None:
    """Its runs copy up to the end of their days, three at once; what came on the fourth day stays."""
    for day in (1, 2, 3):
        topic.write(100 * day, FIRST_OF_2025_MS + day * DAY_MS)
    days = ("--from-date", "2025-01-01", "--to-date", "2025-01-03")
    people.backfill(DAG, *days, "--max-active-runs", "3")
    runs = [it["dag_run_id"] for it in people.api.runs(DAG) if it["run_type"] == "backfill"]
    assert 3 == len(runs)
    for run_id in runs:
        assert {"success"} == set(people.finish(DAG, run_id).values()) - {"skipped"}
    assert 600 == topic.copied()
