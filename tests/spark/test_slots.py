"""What a session takes of a standalone master, and what is said while it has no slot."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.errors import TransientError
from twinlog.spark import slots
from twinlog.spark.slots import CORES_MAX, Slots, cores_wanted, patiently

MASTER = "spark://master:7077"


@pytest.mark.parametrize(
    ("master", "chosen", "wanted", "cores"),
    [
        (MASTER, {}, 3, "3"),
        (MASTER, {"spark.task.cpus": "2"}, 3, "6"),
        (MASTER, {"spark.executor.cores": "4"}, 3, "4"),
        (MASTER, {"spark.executor.cores": "2"}, 3, "4"),
        (MASTER, {}, None, None),
        (MASTER, {CORES_MAX: "9"}, 3, None),
        ("local[4]", {}, 3, None),
        ("yarn", {}, 3, None),
    ],
)
def test_a_session_takes_the_cores_of_its_lanes(
    master: str, chosen: dict[str, str], wanted: int | None, cores: str | None
) -> None:
    """Whole executors of them, and only of a standalone master, which would give all; what a user says stays."""
    assert ({} if cores is None else {CORES_MAX: cores}) == cores_wanted(master, chosen, wanted)


def test_who_waits_is_told() -> None:
    """Soon, then each so many seconds, and when the wait is over."""
    told: list[bool] = []
    over = threading.Event()

    def tell(seconds: float, free: bool) -> None:
        told.append(free)
        if len(told) == 3:
            over.set()

    assert patiently(lambda: over.wait(10), tell, 0.05, 0.2)
    assert [False, False, False, True] == told


def test_a_job_that_is_done_at_once_is_not_told_of() -> None:
    """Its result, or its error, is all there is."""
    told: list[object] = []
    assert 7 == patiently(lambda: 7, lambda *it: told.append(it), 9, 9)
    with pytest.raises(TimeoutError, match="of its own"):
        patiently(lambda: exec('raise TimeoutError("of its own")'), lambda *it: told.append(it), 9, 9)
    assert [] == told


class Cluster:
    """A classic session: its executors come when a job has waited for them."""

    def __init__(self, *executors: int) -> None:
        self.executors = list(executors)
        self.context = SimpleNamespace(
            master=MASTER, _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: self))
        )

    @property
    def session(self) -> Any:
        return SimpleNamespace(sparkContext=self.context)

    def executorList(self, active: bool) -> Any:
        assert active
        each = [("driver", 0), *enumerate(self.executors)]
        known = [SimpleNamespace(id=lambda it=it: it[0], maxTasks=lambda it=it: it[1]) for it in each]
        return SimpleNamespace(size=lambda: len(known), apply=known.__getitem__)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "PAUSE_SECONDS", 0.0)


@pytest.mark.parametrize(("executors", "found"), [((1,), 1), ((2, 1), 3)])
def test_registered_executors_are_counted_without_a_job(executors: tuple[int, ...], found: int) -> None:
    """One core is one slot; Spark's own measure says two."""
    assert found == Slots(Cluster(*executors).session, MASTER).now()


@pytest.mark.parametrize(("wanted", "said"), [(3, [f"{MASTER}: 3 slots are wanted, 2 are there"]), (2, [])])
def test_fewer_slots_than_wanted_are_told_once(
    wanted: int, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """At the first question."""
    found = Slots(Cluster(2).session, MASTER, wanted)
    assert [2, 2] == [found.now(), found.now()]
    assert said == [it.getMessage() for it in caplog.records]


def test_the_first_slot_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What follows a source is told how many are wanted and, after two minutes, that the master has none."""
    monkeypatch.setattr(slots, "FIRST_WORD_SECONDS", 0.02)
    monkeypatch.setattr(slots, "NO_SLOT_SECONDS", 0.1)
    cluster = Cluster()

    def job(_: Slots) -> int:
        while len(caplog.records) < 2:
            threading.Event().wait(0.01)
        cluster.executors.append(2)
        return 2

    monkeypatch.setattr(Slots, "_asked", job)
    with caplog.at_level(logging.WARNING):
        assert 2 == Slots(cluster.session, "spark://master:7077;token=x", 2, patient=True).now()
    first, named, free = [it.getMessage() for it in caplog.records]
    assert f"{MASTER}: 2 slots are wanted, 0 are free; the run waits for one" == first
    assert named.startswith(f"no free slot: {MASTER} has given this run none for ")
    assert free.startswith(f"{MASTER} has a free slot after ")


@pytest.mark.parametrize("executors", [(), (1,)], ids=["none", "one"])
def test_a_job_ends_with_the_executors(monkeypatch: pytest.MonkeyPatch, executors: tuple[int, ...]) -> None:
    """If all have gone for long it is cancelled, by its tag; while one is there it may take as long as it likes."""
    monkeypatch.setattr(slots, "FIRST_WORD_SECONDS", 0.01)
    monkeypatch.setattr(slots, "NO_SLOT_SECONDS", 0.05)
    cluster, over = Cluster(*executors), threading.Event()
    cancelled: list[str] = []
    cluster.context.cancelJobsWithTag = lambda tag: (cancelled.append(tag), over.set())
    attended = Slots(cluster.session, MASTER)
    if executors:
        assert not attended.attend(lambda: over.wait(0.3), "mine")
        assert [] == cancelled
    else:
        with pytest.raises(TransientError, match="no free slot: ") as raised:
            attended.attend(lambda: over.wait(10), "mine")
        assert ("no-slot", ["mine"]) == (raised.value.code, cancelled)
