"""Over and home by Dags alone, with MM2's names, on an Airflow of its own whose workers are killed in the midst.

near->far keeps MM2's names, so what clients write to `near.orders` comes home by far.home->near.
"""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from urllib.request import Request, urlopen

import pytest
from there_and_back import records

from lab import commit_group, committed, configure, create_topic, cycle, produce, read_partitions
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.audit.request import AuditMode, AuditRequest
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.formats.ledger.recovery import RecoveryRun
from twinlog.groups import checkpoints
from twinlog.lab.demo.airflow_instance import AirflowInstance
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.monitoring import publish
from twinlog.recovery.ways_home import flow_called
from twinlog.state.ledger import Ledger, read_ledger

pytestmark = [pytest.mark.airflow, pytest.mark.integration, pytest.mark.long]

OVER, HOME, CYCLE = "failover", "failback", "replicate__far_home__near"
FLOW = {"flow": "near->far"}
STEPS = ("discover", "sync_topics", "plan_ranges", "copy", "offset_syncs", "checkpoints", "heartbeats")
SKIPPED = dict.fromkeys((*STEPS, "validate", "publish"), "skipped")
OVER_DONE = {
    *(("preview", "success"), ("begin", "success"), ("fence_producers", "success"), ("drain", "success")),
    *(("groups", "success"), ("audit", "success"), ("loss", "skipped"), ("gate", "success")),
    *(("approve", "success"), ("promote", "success"), ("rejected", "skipped"), ("switch_clients", "success")),
    *(("canary", "success"), ("report", "success")),
}
DEAD_AFTER_S = "20"
"""A task whose worker has not been heard of for so long is tried again."""


class World:
    """Both flows, a topic and a group, and what tests ask of them."""

    def __init__(self, near, far, file: Path, scheduler) -> None:
        self.near, self.far, self.scheduler = near, far, scheduler
        self.topic = file.parent.name
        self.copy, self.group = f"near.{self.topic}", f"readers-{self.topic}"
        configuration = load(file)
        self.there, self.back = configuration.flows["near->far"], flow_called(configuration, "far.home->near")

    def begin(self) -> None:
        """Twenty records on both sides, of which the group has read all; the flow has run."""
        create_topic(self.near, self.topic, retention_ms="604800000")
        produce(self.near, self.topic, records(0, 20))
        commit_group(self.near, self.group, self.topic, 20)
        started = int(time.time() * 1000)
        cycle(self.there)
        with open_clusters(self.there) as clusters:
            checkpoints.run(self.there, clusters)
            publish.run(self.there, clusters, f"cycle-{started}", None, started)
            audit.run(self.there, clusters, LocalAuditRunner())

    def ledger(self, *, home: bool = False) -> Ledger:
        """Read the ledger of near->far as of now, or that of the flow home."""
        flow = self.back if home else self.there
        with open_clusters(flow) as clusters:
            return read_ledger(flow, clusters.target)

    def run(self, name: str) -> RecoveryRun | None:
        """The failover or failback of this mode that is not over."""
        found = [it for it in self.ledger().recoveries if it.mode == name and not it.cleared]
        return found[-1] if found else None

    def numbers(self) -> tuple[list[int], list[int]]:
        """The records of both sides, by identity."""
        places = (self.near, self.topic), (self.far, self.copy)
        return tuple(sorted(int(it.value) for _, it in read_partitions(*place, [0])[0]) for place in places)  # type: ignore[return-value]

    def equal(self) -> bool:
        """Say whether an audit of everything finds the copy equal."""
        with open_clusters(self.there) as clusters:
            return audit.run(self.there, clusters, LocalAuditRunner(), AuditRequest(AuditMode.FULL)).equal

    def finish(self, dag: str, **form: object) -> dict[str, str]:
        """Trigger a Dag; return how its tasks ended."""
        return self.scheduler.finish(dag, self.scheduler.api.trigger(dag, **form), timeout_s=900)

    def kill(self, dag: str, run_id: str, task: str, mode: str, step: str, *, worker: bool) -> int:
        """Kill the process of a task once the step before has ended; with `worker`, all of its worker.

        The result is the number of the try that was killed.
        """
        place = f"dags/{dag}/dagRuns/{run_id}/taskInstances/{task}"

        def reached() -> bool:
            run = self.run(mode)
            return run is not None and bool(run.journal) and run.journal[-1].step == step

        self.scheduler.wait(step, reached)
        seen = self.scheduler.api.get(place)
        assert "running" == seen["state"], seen
        above = parent_of(seen["pid"])
        if worker:
            assert above in {it for it, _ in tree(self.scheduler.instance.sessions)}
            os.kill(above, signal.SIGKILL)
        for process, _ in reversed(list(tree([seen["pid"]]))):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return int(seen["try_number"])


def parent_of(pid: int) -> int:
    """The process that started another."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


def tree(roots: list[int]) -> Iterator[tuple[int, int]]:
    """Yield processes and all that they started, each with its parent."""
    every: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            every[int(entry.name)] = parent_of(int(entry.name))
    found = list(roots)
    for pid in found:
        yield pid, every.get(pid, 0)
        found += [it for it, above in every.items() if above == pid]


@pytest.fixture(scope="module")
def scheduled(
    cluster_a, connect_port: int, watching, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """A running Airflow, and the world of its one flow; its target may be killed."""
    folder = tmp_path_factory.mktemp(f"homing-{uuid.uuid4().hex[:6]}-")
    with EmbeddedKafka("far", folder / "kafka") as far:
        yield from _airflow(folder, cluster_a, far, connect_port, watching)


def _airflow(folder: Path, near, far, connect_port: int, watching) -> Iterator[World]:
    file = configure(
        folder,
        {"near": near, "far": far},
        ["near->far"],
        topics=folder.name,
        groups=f"readers-{folder.name}",
        sync__topic__acls__enabled="false",
        heartbeats__replication__enabled="false",
        twinlog__spark__master=f"sc://127.0.0.1:{connect_port}",
        twinlog__schedule="0 0 1 1 *",
        twinlog__gate__schedule="0 0 1 1 *",
        twinlog__audit__schedule="0 0 1 1 *",
        twinlog__gate__fence__seconds="3",
        twinlog__failover__wait__seconds="5",
        twinlog__gate__free__disk__percent="0",
        twinlog__reports__folder=str(folder / "reports"),
    )
    settings = {
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": DEAD_AFTER_S,
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    }
    with AirflowInstance(folder / "airflow", file, settings=settings) as instance:
        instance.wait_until_healthy()
        running = watching(instance)
        running.wait("Dags", lambda: {OVER, HOME, CYCLE} <= instance.api.dag_ids())
        instance.api.pause(CYCLE, paused=False)
        world = World(near, far, file, running)
        world.begin()
        yield world


@contextmanager
def writing(cluster, topic: str, first: int) -> Iterator[list[int]]:
    """A client that writes a record each 0.2 s; what it wrote, once it was stopped."""
    over, written = Event(), []

    def write() -> None:
        while not over.wait(0.2):
            produce(cluster, topic, records(first + len(written), 1))
            written.append(first + len(written))

    thread = Thread(target=write)
    thread.start()
    try:
        yield written
    finally:
        over.set()
        thread.join()


def test_over_and_home_by_dags_though_workers_are_killed(scheduled: World) -> None:
    """Killed in the midst of steps, a Dag goes on by itself; cycles bring home what comes while the way home waits."""
    world, api = scheduled, scheduled.scheduler.api
    assert {**SKIPPED, "brings_home": "success"} == world.finish(CYCLE)
    assert Ledger() == world.ledger(home=True)

    produce(world.near, world.topic, records(20, 5))
    commit_group(world.near, world.group, world.topic, 25)
    run_id = api.trigger(OVER, **FLOW)
    world.scheduler.answer(OVER, run_id, "Approve")
    tries = [
        world.kill(OVER, run_id, "promote", "planned", "begin", worker=False),
        world.kill(OVER, run_id, "promote", "planned", "audit", worker=True),
    ]
    assert OVER_DONE == set(world.scheduler.finish(OVER, run_id, timeout_s=900).items())
    (run,) = world.ledger().recoveries
    assert ([1, 2], "promoted", True) == (tries, world.ledger().phase, run.cleared)
    names = [it.step for it in run.journal]
    assert (4, 1, 1) == (names.count("begin"), names.count("promote"), names.count("report"))
    assert (list(range(25)),) * 2 == world.numbers()
    behind_the_last = read_partitions(world.far, world.copy, [0])[0][-1][0] + 1
    assert behind_the_last == committed(world.far, world.group, world.copy)

    with writing(world.far, world.copy, 1000) as written:
        run_id = api.trigger(HOME, **FLOW, home=True)
        killed = world.kill(HOME, run_id, "bring_home", "failback", "write-files", worker=False)
        assert "failed" == world.scheduler.finish(HOME, run_id, timeout_s=900)["fence_producers"]
        waits = world.run("failback")
        assert (1, "fence-producers", "waiting") == (
            killed,
            waits.journal[-1].step,
            waits.journal[-1].state,
        )
        assert {*SKIPPED, "brings_home"} == set(states := world.finish(CYCLE))
        assert {"success"} == set(states.values())
        known = len(written)
    page = world.scheduler.wait("the page", lambda: seen(world))
    assert ("failing-over", CYCLE) == (page["status"]["state"], page["dag_id"])
    world.finish(CYCLE)
    assert sorted([*range(25), *written]) == world.numbers()[0]
    assert 0 < known <= len(written)

    commit_group(
        world.far, world.group, world.copy, read_partitions(world.far, world.copy, [0])[0][-1][0] + 1
    )
    run_id = api.trigger(HOME, **FLOW, home=True)
    world.scheduler.answer(HOME, run_id, "Approve")
    world.kill(HOME, run_id, "promote", "failback", "audit", worker=True)
    states = world.scheduler.finish(HOME, run_id, timeout_s=900)
    assert {"save": "skipped", "rejected": "skipped"} == {
        name: it for name, it in states.items() if it != "success"
    }
    assert ("active", "active") == (world.ledger().phase, world.ledger(home=True).phase)
    every = sorted([*range(25), *written])
    assert (every, every) == world.numbers()
    behind_the_last = read_partitions(world.near, world.topic, [0])[0][-1][0] + 1
    assert behind_the_last == committed(world.near, world.group, world.topic)
    assert {**SKIPPED, "brings_home": "success"} == world.finish(CYCLE)
    cycle(world.there)
    assert (every, every) == world.numbers()
    assert world.equal()

    states = world.finish(OVER, flow="far.home->near", mode="source-dead")
    assert ("failed", "upstream_failed") == (states["preview"], states["begin"])
    run_id = api.trigger(OVER, **FLOW)
    world.scheduler.answer(OVER, run_id, "Approve")
    assert OVER_DONE == set(world.scheduler.finish(OVER, run_id, timeout_s=900).items())


def seen(world: World) -> dict:
    """Return what the page says of the flow home, once it was read."""
    with suppress(Exception):
        api = world.scheduler.api
        asked = Request(f"{api.url}/twinlog/status.json", headers={"Authorization": f"Bearer {api.token}"})
        with urlopen(asked) as answer:
            found = json.load(answer)["flows"]
        return next((it for it in found if it["flow"] == "far.home->near" and it["status"]), {})
    return {}
