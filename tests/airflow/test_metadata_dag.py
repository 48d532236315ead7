"""Metadata on a real scheduler: a plan waits for the person who applies it, and subjects are brought."""

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
DONE = dict.fromkeys(("plan", "schemas"), "success")


@pytest.fixture(scope="module")
def flow(scheduler) -> FlowSettings:
    """west->east, whose metadata plans a person applies."""
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


def test_a_plan_waits_for_the_person_who_applies_it(scheduler, unpaused, clusters, topic) -> None:
    """The Dag makes it, says so in its log, and changes nothing."""
    run_id = scheduler.api.trigger(unpaused)
    assert DONE == scheduler.finish(unpaused, run_id)
    assert "3600000" != segment_ms(clusters, topic)
    log = str(scheduler.api.get(f"dags/{DAG}/dagRuns/{run_id}/taskInstances/plan/logs/1"))
    assert "+ segment.ms: 3600000" in log
    assert "wait for a person: `twinlog metadata plan --save FILE`" in log


def test_nothing_to_change_is_skipped(scheduler, unpaused, clusters, flow) -> None:
    """The run ends after the plan."""
    from twinlog.metadata import sync

    sync.run(flow, clusters)
    time.sleep(0.5)
    run_id = scheduler.api.trigger(unpaused)
    assert DONE | {"plan": "skipped"} == scheduler.finish(unpaused, run_id)


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
    assert "failed" == states["schemas"]
    log = str(scheduler.api.get(f"dags/{DAG}/dagRuns/{run_id}/taskInstances/schemas/logs/1"))
    assert "submitted-key" in log
    assert "the other subjects are copied" in log
