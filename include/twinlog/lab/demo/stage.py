"""The stage of the demo: two clusters, a warm Spark, a configuration file and an Airflow, all in one folder."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import platformdirs

from twinlog.errors import UsageError
from twinlog.lab.demo.airflow_instance import AirflowInstance
from twinlog.lab.demo.processes import stop_sessions, watched
from twinlog.lab.demo.workload import BROKER_SETTINGS
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lab.kafka.fleet import stop_clusters
from twinlog.process_id import ProcessId
from twinlog.spark.server import FOLDER_VARIABLE, start, stop

SOURCE, TARGET = "A", "B"
DAG_ID = f"replicate__{SOURCE}__{TARGET}"
_KEPT = "airflow-sessions.json"
_SPARK = "spark"

_CONFIGURATION = """\
# Written by `twinlog machine demo`.
clusters = {source.name}, {target.name}
{source.name}.bootstrap.servers = {source.bootstrap_servers}
{target.name}.bootstrap.servers = {target.bootstrap_servers}

{source.name}->{target.name}.enabled = true
{source.name}->{target.name}.topics = .*
{target.name}->{source.name}.enabled = false

replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset.storage.replication.factor = 1
"""


@dataclass(frozen=True)
class Machinery:
    """Both clusters, the file that names them, and the variables by which commands find the warm Spark."""

    folder: Path
    source: EmbeddedKafka
    target: EmbeddedKafka
    config: Path
    variables: Mapping[str, str]


@dataclass(frozen=True)
class Stage(Machinery):
    """The machinery, and the Airflow that works from its file."""

    airflow: AirflowInstance


@contextmanager
def open_machinery() -> Iterator[Machinery]:
    """Start both clusters and a warm Spark; at the end, in any case, stop them and remove their folder."""
    with tempfile.TemporaryDirectory(prefix="twinlog-demo-") as name, contextlib.ExitStack() as running:
        yield _start_machinery(Path(name), running, keep=False)


@contextmanager
def open_stage(*, keep: bool = False) -> Iterator[Stage]:
    """Start both clusters, a warm Spark and Airflow; at the end, in any case, stop them and remove their folder.

    With `keep` they run on, from the user's data folder, until `stop_kept`.  Raises UsageError if Airflow is not
    installed or a kept demo still runs, and what the clusters and Airflow raise.
    """
    if find_spec("airflow") is None:
        raise UsageError(
            "Airflow is not installed",
            hint="pip install 'twinlog[airflow] @ file:...', or twinlog machine demo --without-airflow",
            code="not-installed",
        )
    folder = _kept_folder() if keep else Path(tempfile.mkdtemp(prefix="twinlog-demo-"))
    finished = False
    try:
        with contextlib.ExitStack() as running:
            made = _start_machinery(folder, running, keep=keep)
            airflow = AirflowInstance(
                folder / "airflow", made.config, settings=made.variables, watched=not keep
            )
            running.callback(airflow.stop)
            airflow.start()
            if keep:
                _note_leaders(folder, airflow.sessions)
            yield Stage(folder, made.source, made.target, made.config, made.variables, airflow)
            finished = True
            if keep:
                running.pop_all()
    finally:
        if not (keep and finished):
            shutil.rmtree(folder, ignore_errors=True)


def stop_kept() -> bool:
    """End the demo that `twinlog machine demo --keep` left running, and remove its data; False if there is none."""
    folder = _default_folder()
    if not folder.exists():
        return False
    if (folder / _KEPT).exists():
        stop_sessions(_living_leaders(folder))
    stop(folder / _SPARK)
    stop_clusters(folder)
    shutil.rmtree(folder)
    return True


def _note_leaders(folder: Path, sessions: Sequence[int]) -> None:
    (folder / _KEPT).write_text(json.dumps([asdict(ProcessId.of(leader)) for leader in sessions]))


def _living_leaders(folder: Path) -> list[int]:
    """Return the sessions that are still ours: after a reboot their ids may belong to other processes."""
    noted = [ProcessId(**each) for each in json.loads((folder / _KEPT).read_text())]
    return [leader.pid for leader in noted if leader.is_alive()]


def _default_folder() -> Path:
    return platformdirs.user_data_path("twinlog") / "demo"


def _kept_folder() -> Path:
    folder = _default_folder()
    if folder.exists():
        raise UsageError(
            f"a demo was kept in {folder}", hint="end it first: twinlog machine demo --stop", code="demo-kept"
        )
    folder.mkdir(parents=True)
    return folder


def _start_machinery(folder: Path, running: contextlib.ExitStack, *, keep: bool) -> Machinery:
    """Start both clusters and Spark side by side; `running` stops what has started, also if another one failed."""
    source, target = clusters = [
        EmbeddedKafka(name, folder / name, settings=BROKER_SETTINGS, outlives_us=keep)
        for name in (SOURCE, TARGET)
    ]
    for cluster in clusters:
        # Their data is deleted with them: waiting for an orderly end gains nothing.
        running.callback(cluster.kill)
    running.callback(stop, folder / _SPARK)
    with ThreadPoolExecutor(len(clusters) + 1) as pool:
        spark = pool.submit(start, folder / _SPARK)
        for starting in [pool.submit(cluster.start) for cluster in clusters]:
            starting.result()
        process = spark.result().server.process
    if not keep:
        running.enter_context(watched([process.pid]))
    config = folder / "mm2.properties"
    config.write_text(_CONFIGURATION.format(source=source, target=target))
    return Machinery(folder, source, target, config, {FOLDER_VARIABLE: str(folder / _SPARK)})
