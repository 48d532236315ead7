"""The audit under a real scheduler: what is new by its timetable, and one topic in full by its form."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Seen, create_topic, cycle, produce
from twinlog.config.flow.load import load

pytestmark = [pytest.mark.airflow, pytest.mark.integration]

DAG = "audit__east__west"
NOW = int(time.time() * 1000)


@pytest.fixture(scope="module")
def topic(scheduler, cluster_a) -> str:
    """A topic of east->west, copied."""
    name = create_topic(cluster_a, f"yearly-audit-{time.time_ns():x}")
    produce(cluster_a, name, [Seen(b"%d" % n, b"value %d" % n, NOW) for n in range(50)])
    cycle(load(Path(scheduler.instance.environment["TWINLOG_CONFIG"])).flows["east->west"])
    return name


def of_topic(result: dict, topic: str, kind: str) -> list[dict]:
    return [it for it in result[kind] if it["topic"] == topic]


@pytest.fixture(scope="module", autouse=True)
def running(scheduler, topic: str) -> Iterator[None]:
    """The Dag is paused but for these tests: it would audit every minute.  Its first run finds the topic copied."""
    scheduler.api.pause(DAG, paused=False)
    yield
    scheduler.api.pause(DAG, paused=True)


def test_a_scheduled_run_audits_what_is_new(scheduler, topic) -> None:
    """Within a minute, by its own timetable; its result is an XCom."""
    run_id = scheduler.scheduled(DAG)
    states = scheduler.finish(DAG, run_id)
    result = scheduler.api.result(DAG, run_id, "compare")
    assert {"compare": "success" if result["equal"] else "failed"} == states
    (row,) = of_topic(result, topic, "partitions")
    assert ("incremental", 50, 1.0, 0) == (
        result["mode"],
        row["records"],
        row["coverage"],
        row["differences"],
    )


def test_the_form_audits_one_topic_in_full(scheduler, topic, cluster_b) -> None:
    """A stranger's record fails the task after one try, and is located without a word of what it holds."""
    produce(cluster_b, f"east.{topic}", [Seen(b"k", b"stranger", NOW)])
    run_id = scheduler.api.trigger(DAG, full=True, topics=[topic])
    assert "failed" == scheduler.finish(DAG, run_id)["compare"]
    result = scheduler.api.result(DAG, run_id, "compare")
    assert ("full", False, [topic]) == (
        result["mode"],
        result["equal"],
        [it["topic"] for it in result["partitions"]],
    )
    (found,) = result["differences"]
    assert ("extra", None, topic) == (found["kind"], found["upstream_offset"], found["topic"])
    assert found["downstream_offset"] >= 50
    assert "stranger" not in str(result)
    (task,) = (it for it in scheduler.api.tasks(DAG, run_id) if it["task_id"] == "compare")
    assert 1 == task["try_number"]
