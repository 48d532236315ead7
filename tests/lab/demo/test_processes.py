import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from twinlog.lab.demo.processes import Processes

CHILD = """\
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import os, time; os.setpgrp(); time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def child_of(log: Path) -> psutil.Process:
    """The grandchild, in a process group of its own, whose pid its parent printed."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        words = log.read_text().split()
        if words:
            return psutil.Process(int(words[0]))
        time.sleep(0.05)
    raise AssertionError("the child did not start")


def is_gone(process: psutil.Process) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_stop_ends_grandchildren_in_groups_of_their_own(tmp_path: Path) -> None:
    """A scheduler that is told to end leaves its workers' jobs behind; the session still has them."""
    processes = Processes({"x": [sys.executable, "-c", CHILD]}, environment=os.environ, logs=tmp_path)
    child = child_of(processes.log("x"))

    processes.stop()

    assert is_gone(child)


def test_they_die_with_their_owner(tmp_path: Path) -> None:
    """Even when it is killed without a chance to clean up."""
    owner = f"""\
import os, pathlib, sys, time
from twinlog.lab.demo.processes import Processes
Processes({{"x": [sys.executable, "-c", {CHILD!r}]}}, environment=os.environ, logs=pathlib.Path({str(tmp_path)!r}))
time.sleep(600)
"""
    killed = subprocess.Popen([sys.executable, "-c", owner])
    log = tmp_path / "x.log"
    while not log.exists():
        time.sleep(0.05)
    child = child_of(log)
    time.sleep(1)  # the watchdog is a moment younger than what it watches

    killed.send_signal(signal.SIGKILL)
    killed.wait()

    assert is_gone(child)


def test_those_that_ended_by_themselves_are_named(tmp_path: Path) -> None:
    """So that waiting for a dead component ends at once."""
    processes = Processes(
        {"short": [sys.executable, "-c", ""], "long": [sys.executable, "-c", "import time; time.sleep(600)"]},
        environment=os.environ,
        logs=tmp_path,
    )
    try:
        deadline = time.monotonic() + 20
        while not processes.dead() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert ["short"] == processes.dead()
    finally:
        processes.stop()


def test_what_is_watched_dies_with_its_owner() -> None:
    """A warm Spark of the demo is no component of Airflow; it must not outlive a demo that was killed either."""
    owner = (
        "import subprocess, sys, time\n"
        "from twinlog.lab.demo.processes import watched\n"
        "program = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "child = subprocess.Popen(program, start_new_session=True)\n"
        "with watched([child.pid]):\n"
        "    print(child.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", owner], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
    deadline = time.monotonic() + 60
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_what_outlives_its_owner_is_started_again_until_it_is_stopped(tmp_path: Path) -> None:
    """The kept demo's scheduler dies if SQLite is locked for too long, and nobody watches it."""
    each = "import os, sys; print(os.getppid(), flush=True); sys.exit(1)"
    processes = Processes(
        {"x": [sys.executable, "-c", each]}, environment=os.environ, logs=tmp_path, watched=False
    )
    log = processes.log("x")
    try:
        deadline = time.monotonic() + 60
        while len(log.read_text().split()) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        processes.stop()
    started = log.read_text().split()
    assert {str(it) for it in processes.sessions} == set(started)
    assert len(started) > 1
    time.sleep(3)
    assert started == log.read_text().split()
