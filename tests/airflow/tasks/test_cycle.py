"""What the last task of a cycle writes down."""

from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from seen_flow import seen_flow

from twinlog.airflow.tasks import cycle
from twinlog.airflow.tasks.frame import shown
from twinlog.airflow.versions import AirflowSkipException
from twinlog.copying.ranges import RangePlan
from twinlog.errors import ClusterUnreachable, TerminalError, UsageError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.lane.spec import RangeSpec
from twinlog.monitoring.exporter import Board
from twinlog.state.ledger import Ledger

REFUSED = {"sync_topics": {"refused": [{"name": "A.orders", "message": "no CREATE"}]}}
HELD = {"discover": {"stands_by": "paused by jo: brokers move"}}


class Published:
    """`publish` at the end of a run whose tasks left these results and states; it tells whether it reported a failure.

    `event` is the extra of the asset event, None if none was told.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, results: dict[str, Any], states: dict[str, str]
    ) -> None:
        self.told: list[bool] = []
        self.pushed: dict[str, Any] = {}
        self._events = {cycle.remote_cluster("B"): SimpleNamespace(extra=None)}
        ti = SimpleNamespace(
            try_number=1,
            get_task_states=lambda *_, run_ids: {run_ids[0]: states},
            xcom_pull=lambda *, task_ids, key="": results.get((task_ids, key) if key else task_ids),
            xcom_push=self.pushed.__setitem__,
        )
        dag_run = SimpleNamespace(dag_id="d", run_id="r", start_date=datetime.now(UTC))
        drills = SimpleNamespace(drill_age_seconds=None)
        flow = SimpleNamespace(
            name="A->B", homes=None, target=SimpleNamespace(alias="B"), tiers=(), failover=drills
        )

        @contextmanager
        def opened(_: object):
            yield SimpleNamespace(target=None)

        for name, value in {
            "get_current_context": lambda: {"dag_run": dag_run, "ti": ti, "params": {}},
            "flow_of": lambda _: flow,
            "opened": opened,
            "_request": lambda: SimpleNamespace(dry_run=False),
        }.items():
            monkeypatch.setattr(cycle, name, value)
        monkeypatch.setattr("twinlog.steps.publish.run", self._report)

    def _report(self, *_: object, failed: bool, **_of: object) -> dict[str, Any]:
        self.told.append(failed)
        counts = ("records", "bytes", "lag_records", "undecided_records", "unseen_partitions", "rpo_seconds")
        return dict.fromkeys(counts, 0) | {"flow": "A->B", "run_id": "r", "topics": [], "alarms": []}

    def publish(self) -> None:
        cycle.publish("A->B", self._events)

    @property
    def event(self) -> Any:
        return self._events[cycle.remote_cluster("B")].extra


@pytest.mark.parametrize(
    ("results", "states", "expected"),
    [({}, {"copy": "skipped"}, False), (REFUSED, {}, True), ({}, {"checkpoints": "failed"}, True)],
    ids=["idle", "refused topic", "failed task"],
)
def test_what_fails_a_run_is_in_its_report(
    monkeypatch: pytest.MonkeyPatch, results: dict[str, Any], states: dict[str, str], expected: bool
) -> None:
    """The gate reads the report, not Airflow."""
    run = Published(monkeypatch, results, states)
    if expected:
        with pytest.raises(TerminalError, match="the cycle is reported, but"):
            run.publish()
    else:
        run.publish()
    assert ([expected], expected) == (run.told, run.event is None)


@pytest.mark.parametrize("copied", [None, {"state": "nothing", "records": 0}])
def test_the_cycle_of_a_suspended_flow_is_reported_and_sends_no_event(
    monkeypatch: pytest.MonkeyPatch, copied: dict[str, Any] | None
) -> None:
    """Dags that are scheduled on the copy would take records for copied that wait on the source."""
    run = Published(monkeypatch, {**HELD, "copy": copied}, {"copy": "skipped"})
    with pytest.raises(AirflowSkipException, match=r"A->B is paused by jo: brokers move: nothing is copied"):
        run.publish()
    assert ([False], None, "A->B") == (run.told, run.event, run.pushed["return_value"]["flow"])


def test_a_flow_that_was_resumed_in_the_midst_sends_its_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its copy has copied."""
    run = Published(monkeypatch, {**HELD, "copy": {"state": "done", "records": 3}}, {"copy": "success"})
    run.publish()
    assert "A->B" == run.event["flow"]


@pytest.mark.parametrize(
    ("phase", "error"),
    [
        (FlowPhase.PROMOTED, AirflowSkipException),
        (FlowPhase.FAILING_OVER, AirflowSkipException),
        (FlowPhase.PAUSED, ClusterUnreachable),
        (FlowPhase.ACTIVE, ClusterUnreachable),
    ],
)
def test_a_lost_source_fails_no_cycle_of_a_flow_that_was_failed_over(
    monkeypatch: pytest.MonkeyPatch, phase: FlowPhase, error: type[Exception]
) -> None:
    """Each run would be red, and tried again, until the source is back; of any other flow it is news."""
    ledger = Ledger(flow_state=FlowState(phase, 1, "jo", ""))
    monkeypatch.setattr(cycle, "flow_of", lambda _: SimpleNamespace(name="A->B"))
    monkeypatch.setattr(cycle, "opened", lambda _: nullcontext(SimpleNamespace(target=None)))
    monkeypatch.setattr("twinlog.state.ledger.read_ledger", lambda *_: ledger)
    monkeypatch.setattr("twinlog.recovery.reverse.as_noted", lambda flow, _: flow)
    with pytest.raises(error, match="A does not answer"), cycle.working("A->B"):
        raise ClusterUnreachable("A does not answer")


def test_a_form_that_cannot_be_used_is_no_failed_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt topic would otherwise turn the flow's page red, and its alarms on."""
    results = {("discover", cycle.REFUSED_KEY): "A->B does not replicate ordres: no such topic"}
    run = Published(monkeypatch, results, {"discover": "failed", "copy": "upstream_failed"})
    with pytest.raises(UsageError, match="no cycle is reported: A->B does not replicate ordres"):
        run.publish()
    assert [] == run.told


def test_a_log_says_of_a_plan_what_people_ask(caplog: pytest.LogCaptureFixture) -> None:
    """The log names ranges; the XCom also has what lanes need to know."""
    part = RangeSpec("orders", "id", "A.orders", 1, 5, 9, 1_000_000)
    plan = RangePlan("A->B", None, (part,), (), (("orders-1",),), 4)
    with caplog.at_level("INFO"):
        document = shown(plan, ranges=cycle.ranges_told(plan))
    assert "  topic=orders partition=1 start=5 end=9 remote_topic=A.orders" in caplog.messages
    assert 1_000_000 == document["ranges"][0]["max_message_bytes"]


def test_checks_and_groups_of_other_tasks_are_among_the_metrics(tmp_path: Path) -> None:
    """Each task has a process of its own, and one of them writes the file: alerts look for all of them there."""
    checks = [
        {"severity": "critical", "passed": False},
        {"severity": "critical", "passed": True},
        {"severity": "warning", "passed": False},
    ]
    board = Board(seen_flow().flow)
    states = {"synced": 4, "wrongly-not": 2}
    cycle.tell_others(board, {"checks": checks}, {"groups": 3, "states": states, "latency_ms": None})
    told = board.write(tmp_path).read_text()
    for line in (
        'twinlog_failed_checks{flow="A->B",severity="critical"} 1.0',
        'twinlog_failed_checks{flow="A->B",severity="warning"} 1.0',
        'twinlog_group_positions{flow="A->B",state="wrongly-not"} 2.0',
        'twinlog_groups{flow="A->B"} 3.0',
    ):
        assert line in told.splitlines()
    silent = Board(seen_flow().flow)
    cycle.tell_others(silent, None, None)
    assert () == silent.now()
