"""What a window of follow mode opens when not all that was prepared can be seen, or may be copied, behind the fence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cluster import FakeCluster
from followed import following_of

from twinlog.cluster.api import Clusters
from twinlog.cluster.values import Answers, PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.mend import copies
from twinlog.copying.ownership import Ownership, state_topics
from twinlog.copying.packing import fixed_lanes
from twinlog.errors import ClusterRefused, ClusterUnreachable, TerminalError, TransientError, TwinlogError
from twinlog.follow.generation import Following, Opening
from twinlog.follow.hold import Hold, HoldState
from twinlog.follow.lanes import OpenLanes
from twinlog.follow.report import RunState, prepare
from twinlog.kafka_types import TopicPartition
from twinlog.lane.fence.fence import FenceLogs, Grant
from twinlog.lane.spec import FenceMark, LaneOutcome, LaneReport, RangeReport
from twinlog.topics import pauses

SILENT = ClusterUnreachable("no answer")


class Stammers(FakeCluster):
    """A cluster that answers for `orders` `answers` times more, and then does not; None: always."""

    answers: int | None = None

    def offsets(self, partitions: Iterable[TopicPartition]) -> Answers[TopicPartition, PartitionOffsets]:
        if self.answers == 0:
            self.refuse("offsets", "orders", SILENT)
        if self.answers is not None:
            self.answers -= 1
        return super().offsets(partitions)


@pytest.fixture
def flow(base_flow: FlowSettings, monkeypatch: pytest.MonkeyPatch) -> FlowSettings:
    """No broker is asked for the ends of transactions: none is lost here."""
    monkeypatch.setattr(copies, "without_lost_markers", lambda _, __, ___, resolved, *____: resolved)
    return base_flow


@pytest.fixture
def source() -> FakeCluster:
    return Stammers("A")


@pytest.fixture
def opened(flow, clusters, source, orders, with_internal) -> Callable[..., Opening]:
    """`opened(meanwhile, progress)` is what a window opens that was prepared before `meanwhile`."""
    source.add_topic("users")
    with_internal.add_topic("A.users")

    def opening(meanwhile: Callable[[], object], progress: int = 2) -> Opening:
        driver = following(flow, clusters, RunState("run", 0), progress)
        meanwhile()
        return driver._resolve()

    return opening


def owned(flow: FlowSettings, clusters: Clusters, progress: int) -> Ownership:
    state = state_topics(flow, clusters)
    found = Ownership(flow, state, "run", 1, FenceLogs.of(state))
    found.grant = Grant("run", (), {("orders", 0): progress}, FenceMark("run", 7, 0))
    return found


def summary(opening: Opening) -> tuple[list[str], list[tuple[str, str]], bool]:
    """Topics with a range, topics that stopped with the code, and whether it is partial."""
    return (
        [it.topic for it in opening.ranges],
        [(it.topic, it.code) for it in opening.stopped],
        opening.partial,
    )


def test_a_whole_window_is_not_partial(opened) -> None:
    """It goes on until there is something else to follow."""
    assert (["orders", "users"], [], False) == summary(opened(lambda: None))


@pytest.mark.parametrize(
    "error", [SILENT, ClusterRefused("no DESCRIBE"), TerminalError("gone", code="unknown-topic")]
)
def test_a_partition_whose_ends_are_not_told_is_stopped(opened, source, error: TwinlogError) -> None:
    """The others are followed, and the next look tries it again."""
    assert (["users"], [("orders", "partition-unavailable")], True) == summary(
        opened(lambda: source.refuse("offsets", "orders", error))
    )


def test_a_source_that_answers_for_nothing_is_waited_for(opened, source) -> None:
    """A window without lanes would last to the end of the run."""

    def silence() -> None:
        source.refuse("offsets", "orders", SILENT)
        source.refuse("offsets", "users", SILENT)

    with pytest.raises(ClusterUnreachable, match="no answer"):
        opened(silence)


def test_a_window_without_an_answer_is_over_at_once(
    flow, clusters, source, orders, with_internal, monkeypatch
) -> None:
    """The next one may open its lanes; it is not taken for a flow without topics."""
    monkeypatch.setattr(Hold, "open", lambda _: None)
    opening = following(flow, clusters, RunState("run", 0))
    source.refuse("offsets", "orders", SILENT)
    assert SILENT == opening.run_lanes().failure


def test_trouble_is_told_until_it_is_over(flow, clusters, source, orders, with_internal, monkeypatch) -> None:
    """What passes by itself may come again: only lanes that have gone on behind their own look are well."""
    monkeypatch.setattr(Hold, "open", lambda _: None)
    monkeypatch.setattr(Ownership, "progress_now", lambda _: {})
    run_state = RunState("run", 0)
    driver = following(flow, clusters, run_state)
    codes = {"orders": "source-lost", "gone": "topic-deleted"}
    ended = [
        RangeReport(it, f"A.{it}", 0, 3, 3, 3, error_code=code, error=code) for it, code in codes.items()
    ]
    driver.tally.totals.add(LaneReport(0, LaneOutcome.FAILED, tuple(ended)))
    driver._open()
    told = [run_state.errors]
    runner: Any = None
    for age in (flow.copy.follow_seconds - 1, flow.copy.follow_seconds + 1):
        driver._take_stock(OpenLanes.start(runner, ()), time.monotonic() - age)
        told.append(run_state.errors)
    lost = {("orders", 0): "source-lost"}
    assert [lost, lost, {}] == told


def following(
    flow: FlowSettings,
    clusters: Clusters,
    run_state: RunState,
    progress: int = 2,
    runner: Any = None,
    sharers: int = 1,
) -> Following:
    """A driver that has looked, and is about to open a window."""
    prepared = prepare(flow, clusters, None, "run")
    mine = owned(flow, clusters, progress)
    return following_of(
        flow,
        clusters=clusters,
        owned=mine,
        runner=runner,
        prepared=prepared,
        run_state=run_state,
        sharers=sharers,
    )


@pytest.mark.parametrize(
    ("slots", "sharers", "lanes", "fences"),
    [(4, 1, 4, False), (3, 1, 3, False), (9, 1, 9, True), (1, 2, 1, False)],
)
def test_lanes_follow_the_slots(
    flow: FlowSettings, clusters: Clusters, slots: int, sharers: int, lanes: int, fences: bool
) -> None:
    """Fewer slots or more than the four of before; for more lanes than a fence has granted there must be another."""
    runner = SimpleNamespace(slots=slots)
    driver = following(flow, clusters, RunState("run", 0), runner=runner, sharers=sharers)
    driver.owned.lanes, driver.hold.state = 4, HoldState.FENCED
    driver._count_slots()
    assert (lanes, not fences) == (driver.owned.lanes, driver.hold.state is HoldState.FENCED)


def test_a_spark_that_does_not_tell_gets_as_many_lanes_as_before(
    flow: FlowSettings, clusters: Clusters
) -> None:
    """If it has died, the job of the lanes says so, and that ends the run in the end; nothing else would."""

    class Dead:
        @property
        def slots(self) -> int:
            raise TransientError("Spark does not tell", code="spark-session")

    driver = following(flow, clusters, RunState("run", 0), runner=Dead())
    driver.owned.lanes, driver.hold.state = 4, HoldState.FENCED
    driver._count_slots()
    assert (4, HoldState.FENCED) == (driver.owned.lanes, driver.hold.state)


def test_a_partition_whose_end_is_not_told_again_is_stopped(opened, source) -> None:
    """Progress lies beyond the end that was seen: a log that lost records, or a leader that was behind."""
    expected = (["users"], [("orders", "partition-unavailable")], True)
    assert expected == summary(opened(lambda: setattr(source, "answers", 1), progress=9))


def test_a_topic_that_was_paused_meanwhile_is_left_out_until_the_next_look(opened, flow, target) -> None:
    """It is nobody's trouble; but it may be resumed by then, and look as if it had never been paused."""
    assert (["users"], [], True) == summary(
        opened(lambda: pauses.pause(flow, target, topics=["orders"], by="jo", reason="load"))
    )


@pytest.mark.parametrize(
    ("configured", "rate", "lanes"),
    [(None, None, None), (None, 1000, 1), (2, None, 2), (2, 1000, 2), (9, None, 4)],
)
def test_lanes_are_fixed_by_whoever_chose_and_by_a_throttle(
    flow: FlowSettings, configured: int | None, rate: int | None, lanes: int | None
) -> None:
    """At most as many as there may be."""
    chosen = replace(flow, copy=replace(flow.copy, lanes=configured, bytes_per_second=rate))
    assert lanes == fixed_lanes(chosen, 4)
