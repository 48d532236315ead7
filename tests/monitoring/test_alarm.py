"""What is over an RPO, and when people are told of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.monitoring import publish
from twinlog.monitoring.alarm import REMINDER_MS, held_back, news, over_budget, stands_still
from twinlog.monitoring.cycle_report import TopicReport
from twinlog.state.ledger import read_ledger

Configure = Callable[..., FlowSettings]
HOUR_MS = 3_600_000


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    """Return a flow A->B with these lines."""

    def write(*lines: str) -> FlowSettings:
        file = tmp_path / "mm2.properties"
        ends = ["clusters=A,B", "A.bootstrap.servers=a:1", "B.bootstrap.servers=b:1", "A->B.enabled=true"]
        file.write_text("\n".join([*ends, *lines]) + "\n")
        return load(file).flows["A->B"]

    return write


def waiting(name: str, seconds: float | None) -> TopicReport:
    return TopicReport(name, f"A.{name}", (), seconds)


def test_topics_over_their_budget_are_named(configure: Configure) -> None:
    """Each against its own tier; an age that nobody knows is over none."""
    flow = configure("twinlog.tier.gold.topics=orders", "twinlog.tier.gold.rpo.seconds=45")
    topics = [waiting("orders", 50.2), waiting("users", 50.2), waiting("unseen", None)]
    assert {"orders": "orders: a record waits for 50 s, its RPO is 45 s"} == over_budget(flow, topics)


def test_transactions_that_hold_records_back_are_told(configure: Configure) -> None:
    """For longer than they may, or for nobody knows how long; also where the RPO allows more."""
    flow = configure("twinlog.undecided.seconds=600", "twinlog.rpo.seconds=86400")
    held: list[Any] = [
        SimpleNamespace(
            topic="orders", partition=it, message=f"{it} is held", hint="abort it", seconds=seconds
        )
        for it, seconds in enumerate((601.0, 600.0, None))
    ]
    assert {"orders-0": "0 is held; abort it", "orders-2": "2 is held; abort it"} == held_back(flow, held)


def test_many_fit_a_line() -> None:
    """Ten are named."""
    lines, _ = news({f"t{it:02}": "late" for it in range(13)}, {}, 0)
    assert ("late", "and 3 topics or partitions more") == lines[-2:]


@given(st.lists(st.tuples(st.integers(1, 30), st.frozensets(st.sampled_from("abc"))), max_size=60))
def test_a_fault_is_told_when_it_begins_and_once_an_hour(cycles: list[tuple[int, frozenset[str]]]) -> None:
    """Not in between, unless there is one more; whoever hears of one hears of all."""
    told: Any = {}
    now = last = 0
    before: frozenset[str] = frozenset()
    for minutes, faults in cycles:
        now += minutes * 60_000
        lines, told = news({it: it for it in sorted(faults)}, told, now)
        due = bool(faults) and (bool(faults - before) or now - last >= REMINDER_MS)
        assert (tuple(sorted(faults)) if due else ()) == lines
        last, before = now if due else last, faults


def test_a_report_tells_what_the_one_before_did_not(
    flow: FlowSettings, clusters: Any, orders: Any, copied: Callable[..., object]
) -> None:
    """The ledger remembers what was told; a report that nobody passes on neither tells nor forgets."""
    copied(orders, 0, 3)
    tier = replace(flow.tiers[0], rpo_seconds=1)
    flow = replace(flow, tiers=(tier,))
    told = [
        bool(publish.run(flow, clusters, "run", None, 0, tells=tells).alarms)
        for tells in (False, True, False, True)
    ]
    assert [False, True, False, False] == told
    last = read_ledger(flow, clusters.target).last_report
    assert last is not None
    assert ["orders"] == last.summary["told"]["faults"]


@pytest.mark.parametrize(
    ("schedule", "age_s", "expected"),
    [
        ("* * * * *", 361, True),  # the minute's cycle has been due for longer than 300 s
        ("* * * * *", 299, False),
        ("0 * * * *", 55 * 60, False),  # the next one is due in five minutes
        ("0 * * * *", 57 * 60, False),  # it has been due for two minutes
        ("0 * * * *", 61 * 60, True),
        ("0 0 1 1 *", 40 * 24 * 3600, False),  # none has been due: it is a year's schedule
        ("@continuous", 300 + 2 * 15 * 60 + 299, False),  # two runs, and the time to take over
        ("@continuous", 300 + 2 * 15 * 60 + 301, True),
    ],
)
def test_standing_still_is_a_cycle_that_was_due(
    configure: Configure, schedule: str, age_s: int, expected: bool
) -> None:
    """By the flow's own rhythm, and its strictest RPO: here that of 300 s."""
    flow = configure(f"twinlog.schedule={schedule}", "twinlog.rpo.seconds=300")
    hour_ms = 480_000 * HOUR_MS + HOUR_MS  # an hour of October 2024, whole
    reported = hour_ms - 55 * 60 * 1000 if schedule.startswith("0 *") else hour_ms
    assert expected is stands_still(flow, reported, reported + age_s * 1000)


def test_a_process_that_follows_reports_each_minute(configure: Configure) -> None:
    """Whatever the schedule of the Dag."""
    flow = configure("twinlog.schedule=0 0 1 1 *", "twinlog.rpo.seconds=300")
    assert [False, True] == [stands_still(flow, 0, seconds * 1000, followed=True) for seconds in (360, 361)]
