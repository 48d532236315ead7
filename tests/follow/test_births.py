"""Which topics are followed by a lane of their own, beside lanes that go on, and which need another fence."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fake_cluster import FakeCluster
from followed import following_of

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import resolve
from twinlog.copying.ownership import Ownership, state_topics
from twinlog.follow.births import born_since, resolve_born
from twinlog.follow.generation import Following
from twinlog.follow.hold import HoldState
from twinlog.follow.lanes import OpenLanes
from twinlog.follow.report import Prepared, prepare
from twinlog.kafka_types import TopicPartition
from twinlog.lane.fence.fence import FenceLogs, Grant, GrantedLane
from twinlog.lane.spec import FenceMark, LaneOutcome, LaneReport, LaneSpec
from twinlog.lane.transaction import Writer
from twinlog.topics import pauses

USERS = TopicPartition("users", 0)


@pytest.fixture
def driver(flow, clusters, orders, monkeypatch: pytest.MonkeyPatch) -> Following:
    """A driver with three lanes from its last fence, behind which orders had progress; no broker has lost a marker."""
    monkeypatch.setattr(resolve, "without_lost_markers", lambda _, __, found, ___: found)
    return driver_of(flow, clusters, prepare(flow, clusters, None, "run"))


def driver_of(flow: FlowSettings, clusters: Clusters, prepared: Prepared) -> Following:
    state = state_topics(flow, clusters)
    owned = Ownership(flow, state, "run", 3, FenceLogs.of(state))
    lanes = tuple(GrantedLane(number, Writer(f"twinlog-{number}", 7 + number, 0)) for number in range(3))
    owned.grant = Grant("run", lanes, {("orders", 0): 2}, FenceMark("run", 7, 0))
    return following_of(flow, clusters=clusters, owned=owned, runner=Runner(3), prepared=prepared)


class Runner:
    """Keeps the lanes it is given; each ends when the test does."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.given: list[LaneSpec] = []
        self.over = threading.Event()

    def run(self, lanes: Any) -> tuple[LaneReport, ...]:
        self.given += lanes
        self.over.wait(10)
        return tuple(LaneReport(it.lane, LaneOutcome.DONE, ()) for it in lanes)

    def cancel(self, flow: str | None = None) -> None:
        self.over.set()


def bear(source: FakeCluster, target: FakeCluster, name: str = "users", partitions: int = 1) -> None:
    source.add_topic(name, partitions)
    target.add_topic(f"A.{name}", partitions)


def resolved(driver: Following, before: Prepared) -> list[str]:
    now = prepare(driver.followed.flow, driver.followed.clusters, None, "run")
    born = born_since(before, now)
    found = resolve_born(
        driver.owned, driver.followed.clusters, born, now.max_bytes, {TopicPartition("orders", 0)}
    )
    return [f"{it.topic}-{it.partition} from {it.start}" for it in found]


def test_a_topic_without_a_copy_is_born(driver, source, target) -> None:
    """Its ranges begin where the flow's topics begin."""
    bear(source, target, partitions=2)
    assert ["users-0 from 0", "users-1 from 0"] == resolved(driver, driver.topics.prepared)


def test_nothing_is_born_if_nothing_changed(driver) -> None:
    """And nothing is asked of the clusters."""
    assert () == born_since(driver.topics.prepared, driver.topics.prepared)
    assert () == resolve_born(driver.owned, driver.followed.clusters, (), {}, ())


@pytest.mark.parametrize("change", ["topic gone", "partition added", "limit", "paused flow"])
def test_another_change_beside_a_birth_needs_a_fence(driver, source, target, change: str) -> None:
    """Ranges may pass from one lane to another, or the open lanes would go on with what is outdated."""
    bear(source, target)
    before, now = driver.topics.prepared, prepare(driver.followed.flow, driver.followed.clusters, None, "run")
    assert ["users"] == [it.topic for it in born_since(before, now)]
    first, *rest = now.topics
    changed = {
        "topic gone": replace(now, topics=tuple(rest)),
        "partition added": replace(now, topics=(replace(first, partitions=()), *rest)),
        "limit": replace(now, max_bytes={**now.max_bytes, "A.orders": 1}),
        "paused flow": replace(now, discovery=replace(now.discovery, stands_by="paused")),
    }[change]
    assert () == born_since(before, changed)


def copied_before(driver: Following, target: FakeCluster) -> None:
    driver.owned.grant = replace(driver.owned.grant, progress={("users", 0): 4})


def not_empty(driver: Following, target: FakeCluster) -> None:
    target.append(TopicPartition("A.users", 0), key=b"k", value=b"v", timestamp=1)


def emptied(driver: Following, target: FakeCluster) -> None:
    not_empty(driver, target)
    target.delete_records(TopicPartition("A.users", 0), 1)


def paused(driver: Following, target: FakeCluster) -> None:
    pauses.pause(driver.followed.flow, target, topics=["users"], by="jo", reason="load")


@pytest.mark.parametrize("meanwhile", [copied_before, not_empty, emptied, paused])
def test_what_may_have_been_copied_or_may_not_be_needs_a_fence(
    driver, source, target, meanwhile: Callable[..., None]
) -> None:
    """Behind a fence it is looked at with all lanes stopped."""
    before = driver.topics.prepared
    bear(source, target)
    now = prepare(driver.followed.flow, driver.followed.clusters, None, "run")
    meanwhile(driver, target)
    assert () == resolve_born(
        driver.owned, driver.followed.clusters, born_since(before, now), now.max_bytes, ()
    )


def test_a_partition_that_a_lane_has_followed_already_needs_a_fence(driver, source, target) -> None:
    """It was gone and is there again: that lane may have written progress since the fence."""
    before = driver.topics.prepared
    bear(source, target)
    now = prepare(driver.followed.flow, driver.followed.clusters, None, "run")
    assert () == resolve_born(
        driver.owned, driver.followed.clusters, born_since(before, now), now.max_bytes, {USERS}
    )


def test_a_topic_that_may_be_copied_both_ways_needs_a_fence(driver, source, target) -> None:
    """Its copy has its own name: what comes from the reverse flow is left out by all lanes, from the same moment on."""
    before = driver.topics.prepared
    bear(source, target)
    now = prepare(driver.followed.flow, driver.followed.clusters, None, "run")
    (born,) = born_since(before, now)
    same = replace(born, remote_topic=born.topic)
    assert () == resolve_born(driver.owned, driver.followed.clusters, (same,), now.max_bytes, ())


def test_each_birth_gets_the_next_granted_lane_while_there_is_one(driver, source, target) -> None:
    """The third has none left, and waits for a fence."""
    runner: Any = driver.followed.runner
    specs, _ = opened(driver)
    lanes = OpenLanes.start(runner, specs)
    beside = []
    for name in ("users", "visits", "clicks"):
        bear(source, target, name)
        before, driver.topics.prepared = (
            driver.topics.prepared,
            prepare(driver.followed.flow, driver.followed.clusters, None, "run"),
        )
        beside.append(driver._open_beside(lanes, before, time.monotonic()))
    runner.over.set()
    lanes.wait()
    given = sorted((it.lane, it.transactional_id, [one.topic for one in it.ranges]) for it in runner.given)

    assert [True, True, False] == beside
    assert [(0, "twinlog-0", ["orders"]), (1, "twinlog-1", ["users"]), (2, "twinlog-2", ["visits"])] == given
    assert ["orders", "users", "visits"] == [it.topic for it in driver.ranges]
    assert 3 == len(driver.loads.lanes) == len(driver.loads.behind)


def test_without_a_free_slot_a_birth_waits_for_a_fence(driver, source, target) -> None:
    """A lane that waits for a slot would copy nothing, for ever."""
    specs, _ = opened(driver)
    driver.followed = replace(driver.followed, runner=cast(Any, SimpleNamespace(slots=1)))
    bear(source, target)
    before, driver.topics.prepared = (
        driver.topics.prepared,
        prepare(driver.followed.flow, driver.followed.clusters, None, "run"),
    )
    job: Any = SimpleNamespace(done=lambda: False)
    lanes = OpenLanes(tuple(specs), (job,))

    assert not driver._open_beside(lanes, before, time.monotonic())
    assert 1 == len(lanes.specs)


def look_again(driver: Following) -> Prepared:
    """Read the topics anew; return what was known before."""
    before = driver.topics.prepared
    assert driver.topics.refresh() is None
    return before


def opened(driver: Following) -> Any:
    """Open the first lanes, behind the fence that the driver has."""
    driver.hold.state = HoldState.FENCED
    return driver._open()
