"""A real Airflow beside the shared clusters, started once.

Its flows have aliases that no other test uses, east for cluster A and west for cluster B, and so state of their own:
east->west copies on a warm Spark Connect server, west->east by spark-submit, each once a year, so that no scheduled
run comes in between.  Only the audit of east->west runs every minute, while it is not paused.  upper->lower, from A to
B as well, is continuous: a run begins each minute.  left->right, from A to B too, is drilled and failed over by its one
test.  north->south and south->north, with unchanged names, are failed over and go home.  day->night copies slowly, once
a day: people clear its runs.
"""

import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from fake_registry import FakeRegistry
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from twinlog.airflow.flows import BY_HAND, OF_A_FLOW
from twinlog.errors import ClusterUnreachable, TerminalError
from twinlog.lab.demo.airflow_instance import AirflowInstance
from twinlog.lab.demo.api import AirflowApi
from twinlog.lab.demo.processes import Processes
from twinlog.lab.kafka.ports import free_ports
from twinlog.shipped import folder

_running: list[AirflowInstance] = []

RUN_TIMEOUT_S = 600

CONFIGURATION = """\
clusters = east, west, upper, lower, left, right, north, south, day, night
east.bootstrap.servers = {a}
west.bootstrap.servers = {b}
upper.bootstrap.servers = {a}
lower.bootstrap.servers = {b}
left.bootstrap.servers = {a}
right.bootstrap.servers = {b}
left->right.enabled = true
left->right.topics = failing-.*
left->right.groups = readers-failing-.*
left->right.twinlog.spark.master = local[2]
left->right.twinlog.gate.free.disk.percent = 0
north.bootstrap.servers = {a}
south.bootstrap.servers = {b}
north->south.enabled = true
north->south.topics = both-.*
north->south.groups = readers-both-.*
north->south.replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
north->south.twinlog.spark.master = sc://127.0.0.1:{connect_port}
north->south.twinlog.gate.free.disk.percent = 0
south->north.enabled = true
south->north.topics = both-.*
south->north.groups = readers-both-.*
south->north.replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
south->north.twinlog.spark.master = sc://127.0.0.1:{connect_port}
south->north.twinlog.gate.free.disk.percent = 0
day.bootstrap.servers = {a}
night.bootstrap.servers = {b}
day->night.enabled = true
day->night.topics = daily-.*
day->night.groups = readers-daily-.*
day->night.sync.group.offsets.enabled = true
day->night.twinlog.spark.master = sc://127.0.0.1:{connect_port}
day->night.twinlog.schedule = 0 0 * * *
day->night.twinlog.bytes.per.second = 100000
upper->lower.enabled = true
upper->lower.topics = streamed-.*
upper->lower.twinlog.spark.master = local[2]
upper->lower.twinlog.schedule = @continuous
upper->lower.twinlog.follow.seconds = 4
east->west.enabled = true
east->west.topics = yearly-.*
east->west.twinlog.spark.master = sc://127.0.0.1:{connect_port}
east->west.twinlog.audit.schedule = * * * * *
west->east.enabled = true
west->east.topics = submitted-.*
west->east.twinlog.spark.master = local[2]
west->east.twinlog.metadata.approval = true
west->east.sync.group.offsets.enabled = true
west->east.groups = readers-submitted-.*
west.schema.registry.url = {on_west}
east.schema.registry.url = {on_east}
west->east.twinlog.schemas.subjects = submitted-.*
sync.topic.acls.enabled = false
sync.topic.configs.interval.seconds = 31536000
twinlog.schedule = 0 0 1 1 *
twinlog.gate.schedule = 0 0 1 1 *
twinlog.audit.schedule = 0 0 1 1 *
twinlog.gate.fence.seconds = 1
twinlog.reports.folder = {reports}
twinlog.alert.url = {alarm}
west->east.twinlog.rpo.seconds = 1
heartbeats.replication.enabled = false
replication.factor = 1
"""


PARSED_ONCE = {"AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600"}
"""Nobody changes these Dags: parsing them every 30 s takes a third of a core."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Airflow goes on when one of its tests comes."""
    _signal(signal.SIGCONT)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Behind its last test, and what fixtures ask of it then, Airflow is held: its loops would cost the other tests
    a third of a core.
    """
    yield
    if nextitem is not None and Path(__file__).parent not in nextitem.path.parents:
        _signal(signal.SIGSTOP)


def _signal(which: signal.Signals) -> None:
    for leader in (session for instance in _running for session in instance.sessions):
        os.kill(leader, which)


@pytest.fixture(autouse=True)
def a_file_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example's, for tests that read no flow of it."""
    monkeypatch.setenv("TWINLOG_CONFIG", str(folder("config") / "mm2.properties"))


@contextmanager
def _held_later(instance: AirflowInstance) -> Iterator[None]:
    _running.append(instance)
    try:
        yield
    finally:
        _signal(signal.SIGCONT)
        _running.remove(instance)


@dataclass(frozen=True)
class Scheduler:
    """A running Airflow, and what tests ask of it."""

    instance: AirflowInstance

    @property
    def api(self) -> AirflowApi:
        return self.instance.api

    def wait(self, what: str, found: Callable[[], Any], timeout_s: float = RUN_TIMEOUT_S) -> Any:
        """Ask until there is something, and return it."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.instance.check_alive()
            with suppress(ClusterUnreachable):  # an API server that is busy is asked again
                answer = found()
                if answer:
                    return answer
            time.sleep(0.5)
        raise AssertionError(f"{what}: not within {timeout_s} s")

    def finish(self, dag_id: str, run_id: str, timeout_s: float = RUN_TIMEOUT_S) -> dict[str, str]:
        """Wait for a run to end; return the states of its tasks."""
        self.wait(run_id, lambda: self.api.run(dag_id, run_id)["state"] in {"success", "failed"}, timeout_s)
        return {task["task_id"]: task["state"] for task in self.api.tasks(dag_id, run_id)}

    def unpause(self, dag_id: str) -> str:
        """Let a Dag run; return the id of the one scheduled run that this starts."""
        self.api.pause(dag_id, paused=False)
        return self.scheduled(dag_id)

    def answer(self, dag_id: str, run_id: str, choice: str, **form: str) -> str:
        """Wait for the request of task `approve`, answer it as a person would, and return what the person was shown."""
        task = self.asked(dag_id, run_id)
        request = self.api.get(f"{task}/-1/hitlDetails")
        self.api.patch(f"{task}/-1/hitlDetails", {"chosen_options": [choice], "params_input": form})
        return str(request["body"])

    def clear(self, dag_id: str, run_id: str, task: str) -> None:
        """Clear a task and all behind it."""
        what = {"dag_run_id": run_id, "task_ids": [task], "include_downstream": True, "only_failed": False}
        self.api.post(f"dags/{dag_id}/clearTaskInstances", {**what, "dry_run": False, "reset_dag_runs": True})

    def asked(self, dag_id: str, run_id: str) -> str:
        """Wait for the request of task `approve`; return the address of the task.

        Not before the scheduler has heard that the process that asked has ended: an answer in that moment goes astray
        (the task fails, and asks again).
        """
        task = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/approve"
        self.wait("the request", lambda: self.api.get(task)["state"] == "awaiting_input")
        heard = f"Received executor event with state success for task instance TaskInstanceKey(dag_id='{dag_id}', "
        heard += f"task_id='approve', run_id='{run_id}'"
        log = self.instance.home / "logs" / "scheduler.log"
        before = 2 * (int(self.api.get(task)["try_number"]) - 1)  # it was asked, and went on
        self.wait("the scheduler", lambda: log.read_text(errors="replace").count(heard) > before)
        return task

    def backfill(self, dag_id: str, *words: str) -> None:
        """Create a backfill.

        Refused by SQLite, because another process wrote meanwhile, it takes back the runs it has made, and a scheduler
        that has seen one of them ends: so it is held, and the backfill tried again.
        """
        attempts = Retrying(
            stop=stop_after_attempt(3), retry=retry_if_exception_type(TerminalError), reraise=True
        )
        attempts(self.instance.command_alone, "backfill", "create", "--dag-id", dag_id, *words)

    def scheduled(self, dag_id: str) -> str:
        """Wait for a run that the Dag's timetable makes; return its id."""
        runs = self.wait(
            dag_id, lambda: [it for it in self.api.runs(dag_id) if it["run_type"] == "scheduled"]
        )
        return str(runs[0]["dag_run_id"])


@pytest.fixture(scope="session")
def watching() -> type[Scheduler]:
    """`watching(instance)` is how tests ask an Airflow of their own."""
    return Scheduler


@pytest.fixture(scope="session")
def connect_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a warm Spark Connect server."""
    port = next(free_ports())
    command = [
        str(Path(sys.executable).parent / "spark-submit"),
        *("--master", "local[2]"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
        *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
        *("--conf", "spark.driver.host=127.0.0.1"),
        *("--conf", "spark.ui.enabled=false"),
        *("--conf", "spark.task.maxFailures=1"),
        "spark-internal",
    ]
    processes = Processes(
        {"connect": command}, environment=os.environ, logs=tmp_path_factory.mktemp("connect")
    )
    try:
        deadline = time.monotonic() + 300
        while not _listens(port):
            assert not processes.dead(), processes.log("connect").read_text()
            assert time.monotonic() < deadline, "the Connect server did not start"
            time.sleep(0.3)
        yield port
    finally:
        processes.stop()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="session")
def alarms() -> list[dict[str, Any]]:
    """What was posted to twinlog.alert.url, in order."""
    return []


@pytest.fixture(scope="session")
def alarm_address(alarms: list[dict[str, Any]]) -> Iterator[str]:
    """Where twinlog.alert.url leads."""

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            alarms.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook"
    server.shutdown()


@dataclass(frozen=True)
class Registries:
    """The schema registries of west and of east, and where they listen."""

    west: FakeRegistry
    east: FakeRegistry
    on_west: str
    on_east: str


@pytest.fixture(scope="session")
def registries() -> Iterator[Registries]:
    west, east = FakeRegistry(), FakeRegistry()
    with west.listening() as on_west, east.listening() as on_east:
        yield Registries(west, east, on_west, on_east)


@pytest.fixture(scope="session")
def scheduler(
    cluster_a,
    cluster_b,
    connect_port: int,
    alarm_address: str,
    registries: Registries,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scheduler]:
    """The running Airflow, with its Dags parsed and paused."""
    folder = tmp_path_factory.mktemp("scheduler")
    config = folder / "mm2.properties"
    config.write_text(
        CONFIGURATION.format(
            a=cluster_a.bootstrap_servers,
            b=cluster_b.bootstrap_servers,
            connect_port=connect_port,
            reports=folder / "reports",
            alarm=alarm_address,
            on_west=registries.on_west,
            on_east=registries.on_east,
        )
    )
    with AirflowInstance(folder / "airflow", config, settings=PARSED_ONCE) as instance, _held_later(instance):
        instance.wait_until_healthy()
        running = Scheduler(instance)
        kinds = set(OF_A_FLOW) - {"drill"}
        flows = ["east__west", "west__east", "upper__lower", "left__right", "north__south", "south__north"]
        flows.append("day__night")
        dags = {f"{kind}__{flow}" for kind in kinds for flow in flows}
        running.wait("Dags", lambda: dags | set(BY_HAND) <= instance.api.dag_ids())
        yield running


@pytest.fixture
def browser() -> Iterator:
    """Headless Chromium, the machine's own."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()
