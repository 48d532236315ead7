"""Measure what one cycle costs: by hand (`twinlog run --once`), and task by task through a real Airflow.

    python -m bench.cycle [--spark cold warm] [--through hand airflow] [--cycles 3] [--flows 20]

A cycle has nothing to copy but a heartbeat, 50,000 records, a gigabyte, or a few records in 10 of 1,000 partitions; the
last two not with a cold Spark.  "cold" starts Spark for each copy, "warm" uses the server of `twinlog machine
spark start`, whose own CPU time is counted, too.  Wall seconds say as much of the machine as of twinlog; CPU-seconds,
of imports apart, are what to compare.  At last, a cycle of so many `--flows`, with nothing but heartbeats, by one
command.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench import load, pages
from bench.process_tree import JVM, WORKERS, ProcessTree
from bench.side_by_side import Clusters
from bench.topics import Kind
from twinlog.batches import codec
from twinlog.errors import ClusterUnreachable
from twinlog.lab.demo.airflow_instance import AirflowInstance
from twinlog.lab.demo.stage import DAG_ID
from twinlog.lab.kafka.broker import EmbeddedKafka

CLOCK = Path(__file__).parent / "clock"
TOPIC, WIDE_TOPIC = "cycle", "wide"
BUSY, PARTITIONS = 10, 1_000
RUN_TIMEOUT_S = 900
TASKS = (
    *("discover", "sync_topics", "plan_ranges", "copy", "offset_syncs"),
    *("checkpoints", "heartbeats", "validate", "publish"),
)

CONFIGURATION = """\
clusters = A, B
A.bootstrap.servers = {a}
B.bootstrap.servers = {b}
A->B.enabled = true
A->B.topics = .*
B->A.enabled = false
twinlog.schedule = 0 0 1 1 *
twinlog.audit.schedule = 0 0 1 1 *
twinlog.gate.schedule = 0 0 1 1 *
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset.storage.replication.factor = 1
"""


@dataclass(frozen=True)
class Volume:
    """Name how many records of 1,000 bytes a cycle finds new, about, and how many a batch has (0: 256 KiB).

    They are in one topic, or if `wide` in BUSY of the PARTITIONS of another, which each later cycle has to look at.
    """

    name: str
    records: int
    batch: int = 50
    wide: bool = False

    def write(self, clusters: Clusters) -> None:
        """Write the records."""
        servers = clusters.source.bootstrap_servers
        if self.wide:
            batch = load.batch_of(self.batch, 1000, codec.NONE)
            rounds = self.records // (self.batch * BUSY)
            load.produce(servers, ({(WIDE_TOPIC, it): batch for it in range(BUSY)} for _ in range(rounds)))
        elif self.records:
            load.fill(servers, Kind("cycle", 1000, self.batch), TOPIC, self.records, clusters.source_data)


SMALL = (Volume("a heartbeat", 0), Volume("50,000 records", 50_000))
LARGE = Volume("1 GB", 1_000_000, batch=0)
WIDE = Volume(f"{BUSY} busy of {PARTITIONS:,} partitions", 1_000, batch=10, wide=True)

COLD, WARM = "cold", "warm"
"""A Spark of each cycle's own (`twinlog.spark.master = local[2]`), or the server of `twinlog machine spark start`."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """The clusters, the folder of files, how many cycles count, and the processes of a warm Spark."""

    clusters: Clusters
    folder: Path
    cycles: int
    spark: str
    server: psutil.Process | None = None

    @property
    def config(self) -> Path:
        """Write the configuration file, and return its path."""
        file = self.folder / f"{self.spark}.properties"
        a, b = (each.bootstrap_servers for each in (self.clusters.source, self.clusters.target))
        session = "twinlog.spark.master = local[2]\n" if self.spark == COLD else ""
        file.write_text(CONFIGURATION.format(a=a, b=b) + session)
        return file

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which every Python process writes down its cost."""
        path = os.pathsep.join(filter(None, [str(CLOCK), os.environ.get("PYTHONPATH", "")]))
        return {"PYTHONPATH": path, "TWINLOG_BENCH_CLOCK": str(self.clock)}

    @property
    def clock(self) -> Path:
        """Return the file to which the processes append."""
        return self.folder / f"clock-{self.spark}.jsonl"

    def written(self) -> list[Row]:
        """Return what processes have written down since the last call."""
        if not self.clock.exists():
            return []
        rows = [json.loads(line) for line in self.clock.read_text().splitlines()]
        self.clock.unlink()
        return rows

    def server_cpu_s(self) -> float:
        """Return what the warm Spark has used so far, its Python workers included."""
        return tree_cpu_s([self.server] if self.server else [])


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--spark", nargs="+", choices=(COLD, WARM), default=(COLD, WARM))
    parser.add_argument("--through", nargs="+", choices=("hand", "airflow"), default=("hand", "airflow"))
    parser.add_argument("--cycles", type=int, default=3, help="cycles that count, after one that does not")
    parser.add_argument(
        "--flows", type=int, default=20, help="flows of which one command runs a cycle; 0 for none"
    )
    pages.add_arguments(parser)
    given = parser.parse_args()
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        EmbeddedKafka("A") as source,
        EmbeddedKafka("B") as target,
    ):
        clusters = Clusters(source, target)
        load.create(source.bootstrap_servers, Kind("cycle", 1000, 50), TOPIC)
        ways = {"hand": by_hand, "airflow": through_airflow}
        for spark, volumes in ((COLD, SMALL), (WARM, (*SMALL, LARGE)), (WARM, (WIDE,))):
            if spark not in given.spark:
                continue
            if WIDE in volumes:
                load.create_topic(source.bootstrap_servers, WIDE_TOPIC, PARTITIONS)
            with warm_server(spark) as server:
                bench = Bench(clusters, Path(folder), given.cycles, spark, server)
                for way in given.through:
                    for row in ways[way](bench, volumes):
                        rows.append(row)
                        print(row, flush=True)
        if given.flows:
            with warm_server(WARM) as server:
                bench = Bench(clusters, Path(folder), given.cycles, WARM, server)
                rows.append(many_by_hand(bench, given.flows))
                print(rows[-1], flush=True)
    pages.write("cycle", rows, markdown(rows), given)


@contextmanager
def warm_server(spark: str) -> Iterator[psutil.Process | None]:
    """Run the server of `twinlog machine spark start` if cycles are to use one; refuse one that is there already."""
    if spark == COLD:
        yield None
        return
    started = twinlog("machine", "spark", "start", "--output", "json")
    if started.returncode:
        raise SystemExit(f"the warm Spark did not start:\n{started.stderr}")
    try:
        yield psutil.Process(json.loads(started.stdout)["pid"])
    finally:
        twinlog("machine", "spark", "stop")


def twinlog(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a twinlog command."""
    command = [sys.executable, "-m", "twinlog", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def by_hand(bench: Bench, volumes: Sequence[Volume]) -> Iterator[Row]:
    """Yield the median cost of `twinlog run --once` for each volume."""
    for volume in volumes:
        measured = [_one_by_hand(bench, volume, bench.config) for _ in range(bench.cycles + 1)][1:]
        names = measured[0].keys()
        middle = {name: statistics.median(each[name] for each in measured) for name in names}
        yield {"through": "hand", "spark": bench.spark, "volume": volume.name, "task": "", **middle}


def _one_by_hand(bench: Bench, volume: Volume, config: Path) -> Row:
    volume.write(bench.clusters)
    before, began = bench.server_cpu_s(), time.monotonic()
    command = [sys.executable, "-m", "twinlog", "run", "--once", "--output", "json", "--config", str(config)]
    environment = {**os.environ, **bench.environment}
    log = bench.folder / "run.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
        ProcessTree(process.pid) as tree,
    ):
        output, _ = process.communicate()
        sampled = tree.cpu_s()
    wall, server = time.monotonic() - began, bench.server_cpu_s() - before
    if process.returncode:
        raise SystemExit(f"the cycle ended with {process.returncode}:\n{log.read_text()[-2000:]}")
    copied = json.loads(output)["flows"][0]["records"]
    if copied < max(1, volume.records * 9 // 10):
        raise SystemExit(f"the cycle copied {copied} records, and there were about {volume.records}")
    own = [it for it in bench.written() if "run" in it["words"]]
    if len(own) != 1:
        raise SystemExit(f"{len(own)} processes wrote down what the cycle cost, not 1")
    # Sampled: nobody waits for the JVM, so that no process knows what it used.
    spark = server + sampled[JVM] + sampled[WORKERS]
    return {
        "wall_s": wall,
        "cpu_s": own[0]["cpu_s"] + spark,
        "imports_cpu_s": own[0]["imports_cpu_s"],
        "spark_cpu_s": spark,
    }


def tree_cpu_s(roots: Sequence[psutil.Process]) -> float:
    """Return the CPU seconds of processes and all their descendants, ended ones included if somebody waited."""
    total = 0.0
    for root in roots:
        for process in [root, *root.children(recursive=True)]:
            try:
                total += sum(process.cpu_times()[:4])
            except psutil.NoSuchProcess:
                continue
    return total


def through_airflow(bench: Bench, volumes: Sequence[Volume]) -> Iterator[Row]:
    """Yield the cost of each task, and of the whole run, for each volume: medians."""
    airflow = AirflowInstance(
        bench.folder / f"airflow-{uuid.uuid4().hex[:6]}", bench.config, settings=bench.environment
    )
    with airflow:
        airflow.wait_until_healthy(RUN_TIMEOUT_S)
        _wait(lambda: DAG_ID in airflow.api.dag_ids(), "Airflow has not found the Dag")
        airflow.api.pause(DAG_ID, paused=False)
        for volume in volumes:
            runs = [_one_run(bench, airflow, volume) for _ in range(bench.cycles + 1)][1:]
            for task in (*TASKS, ""):
                each = [run[task] for run in runs]
                middle = {name: statistics.median(row[name] for row in each) for name in each[0]}
                yield {
                    "through": "Airflow",
                    "spark": bench.spark,
                    "volume": volume.name,
                    "task": task,
                    **middle,
                }


@dataclass(frozen=True)
class Finished:
    """A run of a Dag: its id and seconds, what its tasks wrote down, and CPU-seconds of all of Airflow and of Spark."""

    run: str
    wall_s: float
    airflow_cpu_s: float
    tasks: Sequence[Row]
    spark_cpu_s: float


def _finished(bench: Bench, airflow: AirflowInstance, dag_id: str) -> Finished:
    """Trigger a run of a Dag, and return what it cost."""
    bench.written()
    components = [psutil.Process(pid) for pid in airflow.sessions]
    before, server = tree_cpu_s(components), bench.server_cpu_s()
    run = airflow.api.trigger(dag_id)
    _wait(lambda: airflow.api.run(dag_id, run)["state"] in {"success", "failed"}, f"{run} did not end")
    seen = airflow.api.run(dag_id, run)
    if seen["state"] != "success":
        raise SystemExit(f"{run} failed: see {airflow.home / 'logs'}")
    time.sleep(1)  # the last task's process writes its line after its state is known
    everything, server = tree_cpu_s(components) - before, bench.server_cpu_s() - server
    mine = [it for it in bench.written() if it["run"] == run]
    return Finished(run, float(seen["duration"]), everything, mine, server)


def _one_run(bench: Bench, airflow: AirflowInstance, volume: Volume) -> dict[str, Row]:
    """Run one cycle; return the cost of its tasks by name, and under "" that of the run."""
    volume.write(bench.clusters)
    done = _finished(bench, airflow, DAG_ID)
    rows = {}
    for task in airflow.api.tasks(DAG_ID, done.run):
        mine = [it for it in done.tasks if it["task"] == task["task_id"]]
        rows[task["task_id"]] = {
            "wall_s": float(task["duration"] or 0.0),
            "cpu_s": sum(it["cpu_s"] + it["children_cpu_s"] for it in mine),
            "imports_cpu_s": sum(it["imports_cpu_s"] for it in mine),
            "spark_cpu_s": sum(it["children_cpu_s"] for it in mine),
            "airflow_cpu_s": 0.0,
        }
    rows["copy"]["spark_cpu_s"] += done.spark_cpu_s
    rows["copy"]["cpu_s"] += done.spark_cpu_s
    names = ("cpu_s", "imports_cpu_s", "spark_cpu_s")
    total = {name: sum(row[name] for row in rows.values()) for name in names}
    airflows = max(0.0, done.airflow_cpu_s + done.spark_cpu_s - total["cpu_s"])
    rows[""] = {"wall_s": done.wall_s, **total, "airflow_cpu_s": airflows}
    return rows


def many_by_hand(bench: Bench, flows: int) -> Row:
    """Return what a cycle of so many flows costs in all, by one command."""
    sources = [f"S{number:02}" for number in range(1, flows + 1)]
    servers = [f"{it}.bootstrap.servers = {bench.clusters.source.bootstrap_servers}" for it in sources]
    enabled = [f"{it}->B.enabled = true\n{it}->B.topics = {TOPIC}" for it in sources]
    lines = bench.config.read_text().splitlines()
    kept = [it for it in lines if not it.startswith(("clusters", "A.", "A->B", "B->A"))]
    file = bench.folder / "many.properties"
    file.write_text("\n".join([f"clusters = {', '.join(sources)}, B", *servers, *enabled, *kept]) + "\n")
    measured = [_one_by_hand(bench, SMALL[0], file) for _ in range(bench.cycles + 1)][1:]
    middle = {name: statistics.median(each[name] for each in measured) for name in ("wall_s", "cpu_s")}
    return {"flows": flows, **middle}


def _wait(found: Any, what: str) -> None:
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while time.monotonic() < deadline:
        with suppress(ClusterUnreachable):  # an API server that is busy is asked again
            if found():
                return
        time.sleep(0.5)
    raise SystemExit(f"{what} within {RUN_TIMEOUT_S} s")


def markdown(rows: Sequence[Row]) -> str:
    """Return a table of cycles, and one of the tasks."""
    lines = [
        "A cycle, CPU-seconds with all children, Spark's included:",
        "",
        "| through | Spark | to copy | s | CPU-s | of it imports | Spark | Airflow itself, besides |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in (it for it in rows if "task" in it):
        if not row["task"]:
            apart = f"{row['airflow_cpu_s']:.1f}" if "airflow_cpu_s" in row else "-"
            lines.append(
                f"| {row['through']} | {row['spark']} | {row['volume']} | {_numbers(row)} | {apart} |"
            )
    tasks = [row for row in rows if row.get("task") and row["volume"] == "a heartbeat"]
    if tasks:
        lines += [
            "",
            "Its tasks in Airflow, with nothing but a heartbeat to copy:",
            "",
            "| task | Spark | s | CPU-s | of it imports | Spark |",
            "|---|---|---:|---:|---:|---:|",
            *(f"| {it['task']} | {it['spark']} | {_numbers(it)} |" for it in tasks),
        ]
    many = [row for row in rows if "flows" in row]
    if many:
        lines += [
            "",
            "Many flows at the same time, with a warm Spark and nothing but heartbeats; CPU-seconds in all:",
            "",
            "| flows | s | CPU-s |",
            "|---:|---:|---:|",
            *(f"| {it['flows']} | {it['wall_s']:.1f} | {it['cpu_s']:.1f} |" for it in many),
        ]
    return "\n".join(lines) + "\n"


def _numbers(row: Row) -> str:
    return " | ".join(f"{row[name]:.1f}" for name in ("wall_s", "cpu_s", "imports_cpu_s", "spark_cpu_s"))


if __name__ == "__main__":
    main()
