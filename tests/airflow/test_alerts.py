"""The alarm about a broken RPO."""

import json
import logging
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from types import SimpleNamespace

import pytest

from twinlog import clock
from twinlog.airflow.alerts import (
    DrillAlert,
    RpoAlert,
    rpo_deadline,
    sound_if_overdue,
    sound_if_standing_still,
)
from twinlog.airflow.flows import CONFIG_VARIABLE, read_configuration
from twinlog.errors import ClusterUnreachable, UsageError
from twinlog.formats.ledger.records import CycleReport, FlowPhase, FlowState
from twinlog.state.ledger import Ledger

HOUR_MS = 3_600_000


@pytest.fixture
def heard() -> Iterator[tuple[str, list[dict]]]:
    """An address that takes alarms, and what it took."""
    taken: list[dict] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(500 if "broken" in self.path else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", taken
    server.shutdown()


@pytest.fixture
def configure(tmp_path, monkeypatch):
    """Write a file with these lines beside a flow A->B, and let Airflow work from it."""

    def write(*lines: str):
        file = tmp_path / "mm2.properties"
        ends = ["clusters=A,B", "A.bootstrap.servers=a:1", "B.bootstrap.servers=b:1", "A->B.enabled=true"]
        file.write_text("\n".join([*ends, *lines]) + "\n")
        monkeypatch.setenv(CONFIG_VARIABLE, str(file))
        return read_configuration().flows["A->B"]

    return write


def test_the_alarm_goes_to_the_address(configure, heard) -> None:
    """As JSON with a text, which chat hooks show."""
    url, taken = heard
    configure(f"twinlog.alert.url={url}/hook")
    RpoAlert(flow="A->B", text="orders waits").notify({"dag_run": {"run_id": "scheduled__1"}})
    assert [{"text": "twinlog A->B: orders waits", "flow": "A->B", "run": "scheduled__1"}] == taken


@pytest.mark.airflow
def test_the_address_may_be_in_a_connection(configure, heard, monkeypatch) -> None:
    """It is a secret, and asked for when the alarm sounds."""
    url, taken = heard
    monkeypatch.setenv("AIRFLOW_CONN_ALARM", json.dumps({"conn_type": "http", "password": f"{url}/hook"}))
    configure("twinlog.alert.url=${airflow:alarm}")
    RpoAlert(flow="A->B", text="orders waits").notify({})
    assert ["twinlog A->B: orders waits"] == [it["text"] for it in taken]


@pytest.mark.airflow
def test_an_address_that_cannot_be_looked_up_stops_nothing(configure, caplog) -> None:
    """The alarm is in the log, and so is why it went nowhere else."""
    configure("twinlog.alert.url=${airflow:no_such_alarm}")
    with caplog.at_level(logging.ERROR):
        RpoAlert(flow="A->B", text="orders waits").notify({})
    assert "RPO ALERT A->B: orders waits" in caplog.text
    assert "where the alarm goes is not known" in caplog.text
    assert "no_such_alarm" in caplog.text


@pytest.mark.parametrize("address", ["{url}/broken?token=geheim", "http://127.0.0.1:1/geheim"])
def test_an_address_that_does_not_take_it_stops_nothing(configure, heard, caplog, address) -> None:
    """It is logged without the address, which may be a secret."""
    configure("twinlog.alert.url=" + address.format(url=heard[0]))
    with caplog.at_level(logging.ERROR):
        RpoAlert(flow="A->B", text="orders waits").notify({})
    assert "RPO ALERT A->B: orders waits" in caplog.text
    assert "was not taken" in caplog.text
    assert "geheim" not in caplog.text


def test_without_an_address_it_is_logged(configure, caplog) -> None:
    """At the level that people look at."""
    configure()
    with caplog.at_level(logging.ERROR):
        RpoAlert(flow="A->B", text="orders waits").notify({})
    assert "RPO ALERT A->B: orders waits" in caplog.text


def test_a_cycle_must_end_within_the_strictest_rpo(configure) -> None:
    """Counted from when it was queued."""
    flow = configure("twinlog.tier.gold.topics=orders", "twinlog.tier.gold.rpo.seconds=45")
    assert timedelta(seconds=45) == rpo_deadline(flow).interval
    assert "twinlog.airflow.alerts.RpoAlert" == rpo_deadline(flow).callback.path


def test_a_backfill_misses_no_deadline(configure, heard) -> None:
    """Its runs wait for each other, queued all at once; what is at risk other runs tell."""
    url, taken = heard
    configure(f"twinlog.alert.url={url}/hook")
    late = {"dag_run": {"dag_run_id": "backfill__2026-01-01T00:00:00+00:00"}}
    RpoAlert(flow="A->B", text="a cycle has not ended").notify(late)
    assert [] == taken


@pytest.mark.parametrize(
    ("seconds", "ago_ms", "told"),
    [(301, 60_000, False), (299, 60_000, True), (301, 3_600_000, True), (None, 0, True)],
)
def test_a_cycle_that_is_late_again_is_told_once_an_hour(
    configure, heard, monkeypatch, seconds, ago_ms, told
) -> None:
    """By the cycle before: it was over the RPO of 300 s, and ended in this hour; without a ledger, it is told."""
    url, taken = heard
    configure(f"twinlog.alert.url={url}/hook", "twinlog.rpo.seconds=300")
    now_ms = 480_000 * HOUR_MS + HOUR_MS // 2
    last = CycleReport("before", {"seconds": seconds}, now_ms - ago_ms)

    def ledger(*_: object) -> Ledger:
        if seconds is None:
            raise ClusterUnreachable("B does not answer", cluster="B")
        return Ledger(last_report=last)

    monkeypatch.setattr("twinlog.state.ledger.read_ledger", ledger)
    monkeypatch.setattr(
        "twinlog.state.own_clusters.open_own_clusters", lambda _: nullcontext(SimpleNamespace(target=None))
    )
    monkeypatch.setattr(clock, "now_ms", lambda: now_ms)
    RpoAlert(flow="A->B", text="a cycle has not ended").notify({"dag_run": {"run_id": "scheduled__1"}})
    assert told is bool(taken)


def test_a_run_that_follows_may_last_as_long_as_it_does(configure) -> None:
    """Its deadline tells of one that hangs: 35 minutes, and what may be at risk behind it."""
    flow = configure("twinlog.schedule=@continuous", "twinlog.rpo.seconds=45")
    assert timedelta(minutes=35, seconds=45) == rpo_deadline(flow).interval


def test_a_drill_that_fails_is_told_with_its_reason(configure, heard, caplog) -> None:
    """Also one that could not say why, and that none has passed for too long."""
    url, taken = heard
    flow = configure(f"twinlog.alert.url={url}/hook")
    alert = DrillAlert(flow="A->B")
    with caplog.at_level(logging.ERROR):
        alert.notify({"exception": ValueError("drill failed: read"), "dag_run": {"run_id": "r1"}})
    alert.notify({})
    sound_if_overdue(["no drill has passed"], flow, {})
    assert "DRILL ALERT A->B: drill failed: read" in caplog.text
    assert [("twinlog A->B: drill failed: read", "r1")] == [(it["text"], it["run"]) for it in taken[:1]]
    assert "its worker may have died" in taken[1]["text"]
    assert "twinlog A->B: no drill has passed" == taken[2]["text"]


def test_a_mistake_in_the_form_of_a_drill_wakes_nobody(configure, heard) -> None:
    """The person who filled it in sees the task fail; a scheduled drill has no form, and always sounds the alarm."""
    url, taken = heard
    configure(f"twinlog.alert.url={url}/hook")
    runs = ("manual__2026-11-27T00:00:00+00:00", "scheduled__2026-11-27T00:00:00+00:00")
    for run_id in runs:
        error = UsageError("groups: no group matches")
        DrillAlert(flow="A->B").notify({"exception": error, "dag_run": {"run_id": run_id}})
    assert [runs[1]] == [it["run"] for it in taken]


def test_the_next_look_of_another_dag_tells_of_a_paused_one(configure, heard) -> None:
    """No deadline does, for no run begins.  A flow that was failed over copies nothing."""
    url, taken = heard
    flow = configure(f"twinlog.alert.url={url}", "twinlog.rpo.seconds=60")
    report = CycleReport("r", {"state": "done"}, clock.now_ms() - 3_600_000)
    promoted = FlowState(FlowPhase.PROMOTED, 1, "jo", "")
    for ledger in (Ledger(), Ledger(last_report=report, flow_state=promoted), Ledger(last_report=report)):
        sound_if_standing_still(flow, ledger, {})
    assert ["A->B"] == [it["flow"] for it in taken]
    assert "no report for 360" in taken[0]["text"]
