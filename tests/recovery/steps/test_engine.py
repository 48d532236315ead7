"""An engine that may run on, though nothing moves, is never taken for a stopped one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_cluster import FakeCluster

from twinlog.cluster.admin.group_members import ConnectWorkers
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import CopiedBy, FailoverSettings, FlowSettings, GateSettings
from twinlog.errors import ClusterRefused
from twinlog.formats.mm2.connect_offset import offset_value, source_offset_key
from twinlog.kafka_types import TopicPartition
from twinlog.procedure import Outcome
from twinlog.recovery.procedure import Actor
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps import engine, planned
from twinlog.recovery.steps.world import LOOKING, Found, Request, World


@pytest.fixture
def world(flow: FlowSettings) -> World:
    """A flow that MirrorMaker 2 copies, of two clusters where nothing moves; a person says that it was stopped."""
    settings = replace(
        flow,
        copied_by=CopiedBy.MIRROR_MAKER,
        heartbeats_interval_seconds=0,
        gate=GateSettings(fence_seconds=0),
        failover=FailoverSettings(wait_seconds=0, stop_command="true"),
    )
    clusters = Clusters(FakeCluster("A"), FakeCluster("B"))
    for topic in (flow.ledger_topic, flow.offsets_topic, flow.offset_map_topic):
        clusters.target.add_topic(topic, configs={"cleanup.policy": "compact"})
    return World.of(Way(settings, clusters), Request("jo"), LOOKING, Actor("jo", ""), "run-1")


def told(world: World) -> tuple[str, str]:
    outcome: Outcome = engine.stop(world)
    return outcome.state.value, outcome.message


def test_what_nobody_saw_run_may_run_unseen(world: World) -> None:
    """Nothing moves, and no worker was there at any time: the step says what it has looked for."""
    state, message = told(world)
    assert "done" == state
    assert "no Kafka Connect worker of B and A was seen to run MirrorSourceConnector" in message
    assert "an idle mirrormaker2 that runs elsewhere looks the same" in message


@pytest.mark.parametrize("side", ["target", "source"])
def test_a_worker_that_is_there_runs(world: World, side: str) -> None:
    """Although nothing moves: of its own group, or of a Connect cluster on either side."""
    group = "A-mm2" if side == "target" else "connect"
    getattr(world.clusters, side).workers[group] = ConnectWorkers(1, {"MirrorSourceConnector": 2})
    expected = {
        "target": "its worker group A-mm2 on B has 1 member(s)",
        "source": "workers of connect on A run 2 task(s) of MirrorSourceConnector",
    }[side]
    state, message = told(world)
    assert ("waiting", True) == (state, expected in message), message
    proved = replace(world, found=Found(drained=True))
    assert f"mirrormaker2 runs again: {expected}" == planned.moved_since(proved)[0]


def test_not_being_told_is_not_stopped(world: World) -> None:
    """A cluster that does not say who is in the group."""
    world.clusters.target.refuse("connect_workers", "A-mm2", ClusterRefused("grant DESCRIBE"))
    assert ("waiting", True) == (told(world)[0], "nobody knows whether" in told(world)[1])


def test_without_a_list_of_groups_a_connect_cluster_may_run_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step waits until the engine is known, and says what was refused."""

    def groups() -> None:
        raise ClusterRefused("ListGroups is refused")

    monkeypatch.setattr(world.clusters.target, "groups", groups)
    state, message = told(world)
    assert ("waiting", True) == (state, "no list of groups on B: ListGroups is refused" in message), message
    named = replace(world, flow=replace(world.flow, connector_name="mirror-other"))
    assert ("done", True) == (told(named)[0], "not told: no list of groups on B" in told(named)[1])


def test_tasks_of_connectors_may_be_its_own_until_its_connector_is_known(world: World) -> None:
    """By its name in the file, or by positions under the name that dedicated workers use."""
    target = world.clusters.target
    target.workers["connect"] = ConnectWorkers(1, {"mirror-orders": 3})
    state, message = told(world)
    assert ("waiting", True) == (state, "connect on B runs 3 task(s) of mirror-orders" in message), message
    named = replace(world, flow=replace(world.flow, connector_name="mirror-other"))
    assert "done" == told(named)[0]
    assert "done" == told(replace(world, flow=replace(world.flow, copied_by=CopiedBy.OTHER)))[0]
    key = source_offset_key("MirrorSourceConnector", "A", 0, "orders")
    target.append(TopicPartition(world.flow.offsets_topic, 0), key=key, value=offset_value(7))
    assert "done" == told(world)[0]
