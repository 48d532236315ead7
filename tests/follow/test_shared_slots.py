"""Flows share the slots of one runner: a part each, or in turn, the one that has waited longest next."""

from __future__ import annotations

import math
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.copying.ownership import Ownership
from twinlog.errors import TransientError
from twinlog.follow import follow
from twinlog.follow.generation import Following
from twinlog.follow.shared_slots import SharedSlots


def counted(slots: int, flows: int) -> SharedSlots:
    """The slots of a runner that has so many."""
    shared = SharedSlots(flows)
    runner: Any = SimpleNamespace(slots=slots)
    shared.count(runner)
    return shared


@given(slots=st.integers(0, 50), flows=st.integers(1, 20))
def test_each_flow_has_one_lane_at_least_and_all_together_no_more_than_slots(slots: int, flows: int) -> None:
    """Those with a turn, that is."""
    shared = counted(slots, flows)
    stop = threading.Event()
    turns = sum(shared.take(stop, 0.0) for _ in range(flows))
    assert (min(flows, max(1, slots)), True) == (turns, turns * shared.share <= max(1, slots))


@pytest.mark.parametrize(
    ("slots", "flows", "lanes", "wanted"), [(4, 2, 2, False), (3, 2, 2, True), (1, 1, 1, False)]
)
def test_a_flow_with_more_lanes_than_its_share_gives_back(
    slots: int, flows: int, lanes: int, wanted: bool
) -> None:
    """A worker has died, and another flow has counted the slots since."""
    assert wanted == counted(slots, flows).are_wanted(lanes)


def test_three_flows_have_two_slots_in_turn() -> None:
    """No more than two have a turn at once, and each has turns."""
    shared, stop = counted(2, 3), threading.Event()
    turns, at_once, seen = dict.fromkeys("ABC", 0), [0], set()
    mine = threading.Lock()

    def flow(name: str) -> None:
        while shared.take(stop, math.inf) and not stop.is_set():
            with mine:
                at_once[0] += 1
                turns[name] += 1
                seen.add(at_once[0] <= 2)
            while not shared.are_wanted(1) and not stop.is_set():
                time.sleep(0.001)
            with mine:
                at_once[0] -= 1
            shared.give()

    threads = [threading.Thread(target=flow, args=(name,), daemon=True) for name in turns]
    for it in threads:
        it.start()
    deadline = time.monotonic() + 20
    while min(turns.values()) <= 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    for it in threads:
        it.join(20)
    assert ({True}, True) == (seen, min(turns.values()) > 3)


def test_who_waits_hears_of_the_end() -> None:
    """Of its time, or because somebody stops it; it leaves no place in the queue behind."""
    shared, stop = counted(1, 2), threading.Event()
    assert shared.take(stop, math.inf)
    assert not shared.take(stop, time.monotonic())
    stop.set()
    assert not shared.take(stop, math.inf)
    assert (0, False) == (len(shared.waiting), shared.are_wanted(1))


def test_a_slot_that_comes_is_used() -> None:
    """A worker was started: whoever counts it lets the next flow begin."""
    shared, stop = counted(1, 2), threading.Event()
    assert shared.take(stop, math.inf)
    got: list[bool] = []
    waits = threading.Thread(target=lambda: got.append(shared.take(stop, math.inf)), daemon=True)
    waits.start()
    runner: Any = SimpleNamespace(slots=2)
    shared.count(runner)
    waits.join(5)
    assert [True] == got


def test_a_runner_that_does_not_tell_changes_nothing() -> None:
    """The number stays what it was."""

    class Dead:
        @property
        def slots(self) -> int:
            raise TransientError("Spark does not tell", code="spark-session")

    shared, dead = counted(4, 2), Dead()
    runner: Any = dead
    with pytest.raises(TransientError):
        shared.count(runner)
    assert 2 == shared.share


def test_a_flow_that_never_had_a_turn_has_not_done_its_work(
    flow: Any, clusters: Any, with_internal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends meanwhile: nothing is fenced, and the result does not say that there was nothing to copy."""

    def fenced(_: Following) -> None:
        raise AssertionError("not its turn")

    monkeypatch.setattr(Following, "run_lanes", fenced)
    monkeypatch.setattr(Ownership, "read_ahead", lambda _: None)
    shared, stop = counted(1, 2), threading.Event()
    assert shared.take(stop, math.inf)
    stop.set()
    runner: Any = SimpleNamespace(slots=1)
    result = follow.run(flow, clusters, runner, run_id="r", seconds=60, shared=shared, stop=stop)
    assert ("failed", "no-free-slot", True) == (result.state, result.error_code, result.broke_off)
