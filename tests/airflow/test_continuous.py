"""A continuous Dag under a real scheduler: runs that follow the source, and relieve each other."""

import time
from collections.abc import Iterator
from threading import Event, Thread

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from twinlog.lab.demo.comparison import compare_topic

pytestmark = [pytest.mark.airflow, pytest.mark.integration]

DAG = "replicate__upper__lower"


@pytest.fixture
def stream(cluster_a, unique_topic) -> Iterator[tuple[str, Event]]:
    """A topic of A that gets twenty records a second until the event is set."""
    topic, over = unique_topic("streamed"), Event()
    admin = AdminClient({"bootstrap.servers": cluster_a.bootstrap_servers})
    [created] = admin.create_topics([NewTopic(topic, 2, 1)]).values()
    created.result(20)

    def produce() -> None:
        producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "linger.ms": 0})
        number = 0
        while not over.wait(0.05):
            producer.produce(topic, b"%d" % number, partition=number % 2)
            number += 1
        assert 0 == producer.flush(20)

    thread = Thread(target=produce)
    thread.start()
    yield topic, over
    over.set()
    thread.join()


@pytest.fixture
def following(scheduler) -> Iterator[str]:
    """The first run of the Dag; at the end whatever still runs is ended, as a person would from the page."""
    yield scheduler.unpause(DAG)
    scheduler.api.pause(DAG, paused=True)
    for run in scheduler.api.runs(DAG):
        if run["state"] in {"running", "queued"}:
            scheduler.api.patch(f"dags/{DAG}/dagRuns/{run['dag_run_id']}", {"state": "failed"})


@pytest.mark.long
def test_runs_relieve_each_other_and_leave_a_run_by_hand_nothing_to_copy(
    scheduler, cluster_a, cluster_b, stream, following: str
) -> None:
    """The first run ends well, relieved by the second, which had begun before; what was written meanwhile is there."""
    topic, over = stream

    def equal() -> bool:
        return compare_topic(
            cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, topic, f"upper.{topic}"
        ).equal

    def copying() -> str:
        states = {it["task_id"]: it["state"] for it in scheduler.api.tasks(DAG, following)}
        return states["copy"] if states["copy"] == "running" else ""

    scheduler.wait("the first copy", copying)
    time.sleep(20)  # its Spark session starts, and fences
    by_hand = scheduler.api.trigger(DAG)
    assert {"copy": "skipped", "publish": "success"}.items() <= scheduler.finish(DAG, by_hand).items()

    assert {"success"} == set(scheduler.finish(DAG, following).values())
    relieved = scheduler.api.result(DAG, following, "copy")
    _, second, attempt = relieved["taken_over_by"].split("/")
    assert ("done", "1") == (relieved["state"], attempt)
    first_run, second_run = (scheduler.api.run(DAG, run_id) for run_id in (following, second))
    assert second_run["start_date"] < first_run["end_date"]
    over.set()
    scheduler.wait("an equal copy", equal, 60)
