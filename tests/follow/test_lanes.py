"""Lanes as jobs of their own: what a driver hears of them."""

import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from followed import following_of

from twinlog.errors import ClusterRefused, ClusterUnreachable, FencedError, TerminalError, TransientError
from twinlog.follow import generation
from twinlog.follow.generation import Following
from twinlog.follow.hold import Hold
from twinlog.follow.lanes import OpenLanes
from twinlog.follow.topics import Topics
from twinlog.lane.spec import LaneOutcome, LaneReport


class Runner:
    """Ends lane n when `ends[n]` is set, with the state that `says` has for it; an error is raised."""

    slots = 2

    def __init__(self, **says) -> None:
        self.says = says
        self.ends = {name: threading.Event() for name in says}

    def run(self, lanes):
        (spec,) = lanes
        self.ends[spec.lane].wait(30)
        if isinstance(self.says[spec.lane], Exception):
            raise self.says[spec.lane]
        return (LaneReport(spec.lane, LaneOutcome(self.says[spec.lane]), ()),)

    def cancel(self, flow: str | None = None) -> None:
        raise AssertionError("not asked for")


def opened(**says) -> tuple[OpenLanes, Runner]:
    runner = Runner(**says)
    return OpenLanes.start(runner, [SimpleNamespace(lane=name, ranges=(name,)) for name in says]), runner


def died(lanes: OpenLanes) -> list[object]:
    """Return the lanes that died without a report."""
    return [spec.lane for spec in lanes.unreported()]


def test_each_lane_is_heard_of_when_it_ends() -> None:
    """One in order is no doubt, and the other goes on."""
    lanes, runner = opened(a="done", b="failed")
    assert (False, False) == (lanes.over, lanes.some_ended)
    runner.ends["a"].set()
    lanes.wait(30)
    assert (False, True, False) == (lanes.over, lanes.some_ended, lanes.in_doubt)
    runner.ends["b"].set()
    assert ["done", "failed"] == [report.state for report in lanes.reports()]
    assert (True, False, False) == (lanes.over, lanes.in_doubt, lanes.some_fenced)


def test_a_lane_that_was_fenced_is_in_doubt() -> None:
    """Somebody may have taken the flow over."""
    lanes, runner = opened(a="fenced")
    runner.ends["a"].set()
    lanes.wait()
    assert lanes.in_doubt
    assert lanes.some_fenced


def test_the_reports_of_the_others_count_when_one_dies() -> None:
    """And it is known whose ranges nobody reported."""
    death = TransientError("killed", code="tasks-died")
    lanes, runner = opened(a=death, b="done")
    for end in runner.ends.values():
        end.set()
    assert ["done"] == [report.state for report in lanes.reports()]
    assert (death, ["a"], True) == (lanes.death(), died(lanes), lanes.in_doubt)


def test_a_lane_that_spark_began_anew_has_not_reported() -> None:
    """Its second try writes nothing, and says so without ranges; a lane in order may have had nothing to report."""
    lanes, runner = opened(a="fence-again", b="done")
    for end in runner.ends.values():
        end.set()
    assert ["a"] == died(lanes)


def test_no_lanes_are_over_at_once() -> None:
    """A flow without a topic yet."""
    lanes, _ = opened()
    assert (True, (), None) == (lanes.over, lanes.reports(), lanes.death())


def test_a_lane_that_stands_still_is_killed_behind_the_fence(flow, monkeypatch) -> None:
    """Its process was frozen: it hears of no fence, and Spark sees nothing; the driver goes on."""
    monkeypatch.setattr(generation, "LAST_WORD_SECONDS", 0.05)
    monkeypatch.setattr(Hold, "fence", lambda _: "granted")
    lanes, runner = opened(a="done", b=TransientError("killed", code="tasks-died"))
    runner.ends["a"].set()
    runner.cancel = lambda _flow: runner.ends["b"].set()
    assert following_of(flow, runner=runner)._call_back(lanes)
    assert (["done"], ["b"]) == ([it.state for it in lanes.reports()], died(lanes))


def test_a_window_whose_lanes_are_overdue_has_to_end(flow) -> None:
    """They end by themselves long before; one that does not is frozen."""
    lanes, runner = opened(a="done")
    driver = following_of(flow)
    overdue = generation.STRETCHES * flow.copy.follow_seconds + generation.LAST_WORD_SECONDS
    assert [False, True] == [driver._has_to_end(lanes, age) for age in (overdue - 1, overdue)]
    runner.ends["a"].set()


def following(flow, runner: Runner, owned: Any = None) -> Following:
    """A driver that looks at once, and again every second."""
    often = replace(flow, copy=replace(flow.copy, follow_seconds=1))
    return following_of(often, owned=owned, runner=runner)


def specs(*names: str) -> list[SimpleNamespace]:
    return [SimpleNamespace(lane=name, ranges=(name,)) for name in names]


REFUSED = ClusterRefused("rights were taken away")
PAUSE = TerminalError("paused by jo", code="paused")
TAKEN = FencedError("another twinlog took over")


def raising(error: Exception) -> Callable[[object], object]:
    def fail(_: object) -> object:
        raise error

    return fail


def test_a_look_that_cannot_go_on_calls_the_lanes_back(flow, monkeypatch) -> None:
    """They copy on as if nothing were wrong, and end by themselves only after fifteen looks."""
    runner = Runner(a="done")
    monkeypatch.setattr(Topics, "refresh", raising(REFUSED))
    monkeypatch.setattr(Hold, "fence", lambda _: runner.ends["a"].set())
    with pytest.raises(ClusterRefused, match="rights"):
        following(flow, runner)._run(specs("a"), renew=False)
    assert runner.ends["a"].is_set()


@pytest.mark.parametrize("fence", [REFUSED, PAUSE, TAKEN, RuntimeError("nobody foresaw it")])
def test_lanes_that_nothing_calls_back_are_killed(flow, monkeypatch, fence: Exception) -> None:
    """At once where there is no fence; where there is one, but they are deaf to it, after a while."""
    monkeypatch.setattr(generation, "LAST_WORD_SECONDS", 0.05)
    monkeypatch.setattr(Topics, "refresh", raising(REFUSED))
    monkeypatch.setattr(Hold, "fence", raising(fence))
    runner = Runner(a=TransientError("killed", code="tasks-died"))
    runner.cancel = lambda _flow: runner.ends["a"].set()
    with pytest.raises(type(fence), match=str(fence)):
        following(flow, runner)._run(specs("a"), renew=False)
    assert runner.ends["a"].is_set()


def test_who_fenced_a_lane_is_asked_until_the_target_answers(flow, monkeypatch) -> None:
    """Otherwise the other lanes would go on without anybody who attends to them."""
    monkeypatch.setattr(generation, "FENCE_AGAIN_SECONDS", 0.05)
    runner = Runner(a="fenced", b="done")
    runner.ends["a"].set()
    monkeypatch.setattr(Hold, "fence", lambda _: runner.ends["b"].set())
    silences = [ClusterUnreachable("B does not answer")] * 2

    def require_not_taken() -> None:
        if silences:
            raise silences.pop()

    owned = SimpleNamespace(require_not_taken=require_not_taken)
    lanes = OpenLanes.start(runner, specs("a", "b"))
    lanes.jobs[0].result()
    assert following(flow, runner, owned)._call_back(lanes)
    assert [] == silences


def test_where_nothing_can_be_followed_the_topics_are_read_again_soon(flow, monkeypatch) -> None:
    """All leaders were away when the lanes were to open: the next look does not wait for twinlog.follow.seconds."""
    monkeypatch.setattr(generation, "SHORTEST_SECONDS", 0.01)
    looked = []
    monkeypatch.setattr(Topics, "refresh", lambda _: looked.append("looked"))
    lanes, runner = opened()
    seldom = replace(flow, copy=replace(flow.copy, follow_seconds=10_000))
    alike = SimpleNamespace(asks_for_lanes_unlike=lambda _: False)
    driver = following_of(seldom, runner=runner, prepared=alike)
    driver._attend(lanes, renew=True)
    assert ["looked"] == looked
