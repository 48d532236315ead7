"""Write down what each Python process cost, and its imports: bench.cycle puts this folder on PYTHONPATH.

A forked process counts from its fork.  At the end of a process one JSON line is appended to the file that
TWINLOG_BENCH_CLOCK names.  Airflow's tasks end by os._exit, which runs no exit functions, so that is wrapped.
"""

import _frozen_importlib
import _thread
import atexit
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

_load = _frozen_importlib._find_and_load  # type: ignore[attr-defined]
_importing: set[int] = set()
_spent = {"imports": 0.0}


def _timed(name: str, import_: Any) -> Any:
    """Load a module that is not loaded yet, and count the CPU time of the outermost import of each thread."""
    thread = _thread.get_ident()
    if thread in _importing:
        return _load(name, import_)
    _importing.add(thread)
    began = time.thread_time()
    try:
        return _load(name, import_)
    finally:
        _spent["imports"] += time.thread_time() - began
        _importing.discard(thread)


def _write() -> None:
    """Append the line of this process; CPU time of children counts once they have been waited for."""
    import json

    used = os.times()
    line = {
        "pid": os.getpid(),
        "words": sys.argv[:4],
        "task": os.environ.get("AIRFLOW_CTX_TASK_ID", ""),
        "run": os.environ.get("AIRFLOW_CTX_DAG_RUN_ID", ""),
        "cpu_s": used.user + used.system,
        "children_cpu_s": used.children_user + used.children_system,
        "imports_cpu_s": _spent["imports"],
    }
    with pathlib.Path(os.environ["TWINLOG_BENCH_CLOCK"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _exit(code: int, end: Callable[[int], Any] = os._exit) -> None:
    _write()
    end(code)


def _begin_again() -> None:
    """Forget what the parent imported; a child forked amid an import imports anew."""
    _importing.clear()
    _spent["imports"] = 0.0


if os.environ.get("TWINLOG_BENCH_CLOCK"):
    _frozen_importlib._find_and_load = _timed  # type: ignore[attr-defined]
    os._exit = _exit  # type: ignore[assignment]
    os.register_at_fork(after_in_child=_begin_again)
    atexit.register(_write)
