"""Processes of ours: a shell stands in for Java."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from twinlog.lab.kafka.process import JavaProcess
from twinlog.process_id import born, stop_pid


def wait_until_gone(pid: int, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while born(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    return born(pid) is None


def test_output_goes_to_the_log(tmp_path):
    """What a process prints on stdout and stderr is in its log, after what was there."""
    log = tmp_path / "log"
    log.write_text("before\n")
    process = JavaProcess(["/bin/sh", "-c", "echo out; echo err >&2"], log)
    wait_until_gone(process.pid)
    assert "before\nout\nerr\n" == process.output()


def test_stop_terminates_and_kills_what_does_not_listen(tmp_path):
    """SIGTERM is enough for most; a process that ignores it is killed when patience ends."""
    deaf = JavaProcess(
        ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"], tmp_path / "log"
    )
    while not deaf.output():
        time.sleep(0.01)
    deaf.stop(patience_s=0.3)
    assert not deaf.is_running()


def test_a_paused_process_can_be_stopped(tmp_path):
    """Stopping wakes a paused process first, or it could not hear SIGTERM."""
    process = JavaProcess(["/bin/sleep", "100"], tmp_path / "log")
    process.pause()
    began = time.monotonic()
    process.stop()
    assert not process.is_running()
    assert time.monotonic() - began < 8


def test_stopping_twice_and_killing_the_dead_do_nothing(tmp_path):
    """Every way to end a process may be called again."""
    process = JavaProcess(["/bin/sleep", "100"], tmp_path / "log")
    process.kill()
    process.kill()
    process.stop()
    process.pause()
    assert not process.is_running()


def test_a_forked_child_does_not_keep_the_process_alive(tmp_path):
    """When the owner is killed, a child that it had forked (and that lives on) does not hold the watchdog back."""
    script = (
        "import os, sys, time; from pathlib import Path; from twinlog.lab.kafka.process import JavaProcess\n"
        "p = JavaProcess(['/bin/sleep', '100'], Path(sys.argv[1]))\n"
        "child = os.fork()\n"
        "if child: print(p.pid, child, flush=True)\n"
        "time.sleep(100)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "log")]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    pid, child = map(int, owner.stdout.readline().split())
    owner.kill()
    owner.wait()
    assert wait_until_gone(pid, seconds=5)
    assert born(child) is not None
    os.kill(child, signal.SIGKILL)
    owner.stdout.close()


@pytest.mark.parametrize("watched", [True, False])
def test_only_a_watched_process_dies_with_its_owner(tmp_path, watched):
    """SIGKILL of the owner ends a watched process and leaves an unwatched one alone."""
    script = (
        "import sys, time; from pathlib import Path; from twinlog.lab.kafka.process import JavaProcess\n"
        f"p = JavaProcess(['/bin/sleep', '100'], Path(sys.argv[1]), watched={watched})\n"
        "print(p.pid, flush=True); time.sleep(100)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        pid = int(owner.stdout.readline())
        os.kill(owner.pid, signal.SIGKILL)
    assert watched == wait_until_gone(pid, seconds=5 if watched else 0.5)
    stop_pid(pid)
    assert wait_until_gone(pid)


def test_a_watchdog_ends_with_its_process_and_shoots_nobody(tmp_path):
    """Once a process is seen dead its watchdog is gone, so that the id's next owner is safe."""
    process = JavaProcess(["/bin/true"], tmp_path / "log")
    while process.is_running():
        time.sleep(0.01)
    shells = [child for child in psutil.Process().children() if "watchdog" in child.cmdline()]
    assert [] == [shell.pid for shell in shells if str(process.pid) in shell.cmdline()]


def test_nobody_has_a_birth_after_death(tmp_path):
    """A process that has ended, and an id nobody has, are not alive."""
    process = JavaProcess(["/bin/sleep", "100"], tmp_path / "log")
    assert born(process.pid) is not None
    process.kill()
    assert (None, None) == (born(process.pid), born(2**22 + 1))
