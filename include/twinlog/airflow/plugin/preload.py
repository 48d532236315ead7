"""Import once, in the process that forks Airflow's tasks, what each of them would import again.

Great Expectations, airflow.sdk and the clients take most of the CPU of a small task.  A forked task finds them loaded.
The scheduler loads plugins before its LocalExecutor forks, if `[core] lazy_load_plugins` is false, and a Celery worker
does before it forks; no other component gains, so no other one pays.

twinlog itself is loaded as well.  If its files have changed since, a forked task forgets it and imports it anew: an
upgrade counts from the next task on, as without this module.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import twinlog

log = logging.getLogger(__name__)

FORKING = (("scheduler",), ("standalone",), ("celery", "worker"))
"""The `airflow` commands whose processes fork tasks."""

MODULES = (
    "airflow.sdk.execution_time.task_runner",
    "great_expectations.expectations",
    "pandas",
    "pyspark.sql.connect.session",
    "twinlog.airflow.operators.copy",
    "twinlog.airflow.operators.submit",
    "twinlog.airflow.tasks.cycle",
    "twinlog.checks.data_docs",
    "twinlog.checks.great_expectations",
    "twinlog.cluster.api",
    "twinlog.spark.application",
    "twinlog.spark.steps.audit",
    "twinlog.spark.steps.copy",
    "twinlog.spark.steps.follow",
    "twinlog.steps.checkpoints",
    "twinlog.steps.discover",
    "twinlog.steps.heartbeats",
    "twinlog.steps.offset_syncs",
    "twinlog.steps.plan_ranges",
    "twinlog.steps.publish",
    "twinlog.steps.sync_topics",
    "twinlog.steps.validate",
)

Print = Mapping[str, tuple[int, int]]
"""When each file of twinlog was written, in nanoseconds, and its size."""


def preload(words: Sequence[str] = ()) -> bool:
    """Import the modules if this process is to fork tasks; return whether it is.

    `words` is the command line, by default this process's.  A module that cannot be imported is left to the tasks,
    whose log says why.
    """
    if not forks_tasks(words or sys.argv):
        return False
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process with threads must not fork
    for name in MODULES:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001  the scheduler works without
            log.warning("%s is not imported beforehand: %s", name, error)
    folder = Path(twinlog.__file__).parent
    before = print_of(folder)
    os.register_at_fork(after_in_child=lambda: forget_changed(folder, before))
    return True


def forks_tasks(words: Sequence[str]) -> bool:
    """Say whether a command line (`airflow scheduler ...`) is that of a process which forks tasks."""
    return any(tuple(words[1 : 1 + len(command)]) == command for command in FORKING)


def print_of(folder: Path) -> Print:
    """Return what tells whether a file was changed, of every Python file below a folder (a few ms)."""
    stats = ((str(path), path.stat()) for path in folder.rglob("*.py"))
    return {path: (stat.st_mtime_ns, stat.st_size) for path, stat in stats}


def forget_changed(folder: Path, before: Print) -> None:
    """Forget every module of twinlog if any of its files is not what it was; then they are imported anew."""
    try:
        same = print_of(folder) == before
    except OSError:  # a file went away meanwhile
        same = False
    if not same:
        for name in [name for name in sys.modules if name.partition(".")[0] == "twinlog"]:
            del sys.modules[name]
