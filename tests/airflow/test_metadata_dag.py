"""Metadata plans on a real scheduler: made, approved by a person, applied; or rejected."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from twinlog.cluster.api import Clusters, open_clusters
from twinlog.cluster.values import NewTopic
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.lifecycle import sync_topics

pytestmark = [pytest.mark.airflow, pytest.mark.integration]

DAG = "sync_metadata__west__east"
DONE = dict.fromkeys(("plan", "approve", "apply", "schemas"), "success")


@pytest.fixture(scope="module")
def flow(scheduler) -> FlowSettings:
    """west->east, whose metadata plans a person approves."""
    return load(Path(scheduler.instance.environment["TWINLOG_CONFIG"])).flows["west->east"]


@pytest.fixture(scope="module")
def clusters(flow: FlowSettings) -> Iterator[Clusters]:
    with open_clusters(flow) as opened:
        yield opened


@pytest.fixture(scope="module")
def unpaused(scheduler) -> str:
    """The Dag, its one scheduled run done: there is nothing to change yet."""
    run_id = scheduler.unpause(DAG)
    scheduler.finish(DAG, run_id)
    return DAG


@pytest.fixture
def topic(flow: FlowSettings, clusters: Clusters) -> str:
    """A topic with a copy, of which one config differs."""
    name = f"submitted-{uuid.uuid4().hex[:6]}"
    clusters.source.create_topics([NewTopic(name, 1, 1)]).require()
    sync_topics.run(flow, clusters)
    clusters.source.alter_topic_configs({name: {"segment.ms": "3600000"}}).require()
    return name


def segment_ms(clusters: Clusters, topic: str) -> str | None:
    return clusters.target.topic_configs([f"west.{topic}"]).require()[f"west.{topic}"]["segment.ms"].value


def test_an_approved_plan_is_applied(scheduler, unpaused, clusters, topic) -> None:
    """Nothing changes until somebody has seen the diff and said yes."""
    run_id = scheduler.api.trigger(unpaused)
    before = segment_ms(clusters, topic)
    shown = scheduler.answer(DAG, run_id, "Approve")
    assert f"topic west.{topic}" in shown
    assert "+ segment.ms: 3600000" in shown
    assert "3600000" != before
    assert DONE == scheduler.finish(unpaused, run_id)
    assert "3600000" == segment_ms(clusters, topic)
    assert scheduler.api.result(unpaused, run_id, "apply")["complete"]


def test_a_rejected_plan_changes_nothing(scheduler, unpaused, clusters, topic) -> None:
    """The run ends well: to say no is an answer."""
    run_id = scheduler.api.trigger(unpaused)
    scheduler.answer(DAG, run_id, "Reject")
    assert DONE | {"apply": "skipped"} == scheduler.finish(unpaused, run_id)
    assert "3600000" != segment_ms(clusters, topic)


def test_a_plan_that_drifted_while_it_waited_is_refused(scheduler, unpaused, clusters, topic) -> None:
    """What was approved is not what would be done: the task fails and says why."""
    run_id = scheduler.api.trigger(unpaused)
    path = f"dags/{DAG}/dagRuns/{run_id}/taskInstances/plan"
    scheduler.wait("the plan", lambda: scheduler.api.get(path)["state"] == "success")
    clusters.target.alter_topic_configs({f"west.{topic}": {"segment.ms": "7200000"}}).require()
    scheduler.answer(DAG, run_id, "Approve")
    assert "failed" == scheduler.finish(unpaused, run_id)["apply"]
    log = str(scheduler.api.get(f"dags/{DAG}/dagRuns/{run_id}/taskInstances/apply/logs/1"))
    assert f"topic west.{topic}: segment.ms is 7200000 by now, not unset" in log
    assert "7200000" == segment_ms(clusters, topic)


def test_nothing_to_change_asks_nobody(scheduler, unpaused, clusters, flow) -> None:
    """The run ends after the plan."""
    from twinlog.metadata import sync

    sync.run(flow, clusters)
    time.sleep(0.5)
    run_id = scheduler.api.trigger(unpaused)
    assert DONE | dict.fromkeys(("plan", "approve", "apply"), "skipped") == scheduler.finish(unpaused, run_id)


def test_subjects_are_brought_by_a_task_of_their_own(scheduler, unpaused, registries) -> None:
    """A subject goes over with its id, and no one registers there; one that is in the way fails the task alone."""
    registries.west.ids[40] = "ids begin anywhere"
    given = registries.west.add("submitted-value", '"int"')
    run_id = scheduler.api.trigger(unpaused)
    assert "success" == scheduler.finish(unpaused, run_id)["schemas"]
    copied = registries.east.subjects["submitted-value"][1]
    assert (given, "READONLY") == (copied["id"], registries.east.own_modes["submitted-value"])
    registries.west.add("submitted-key", '"string"')
    registries.east.add("submitted-key", '"long"')
    run_id = scheduler.api.trigger(unpaused)
    states = scheduler.finish(unpaused, run_id)
    assert ("skipped", "failed") == (states["apply"], states["schemas"])
    log = str(scheduler.api.get(f"dags/{DAG}/dagRuns/{run_id}/taskInstances/schemas/logs/1"))
    assert "submitted-key" in log
    assert "the other subjects are copied" in log
