"""Start several processes together, each with its descendants, and stop them together without orphans.

A plain kill of Airflow's scheduler leaves its LocalExecutor workers behind, and they leave the Spark jobs they
started, in process groups of their own.  All of them keep the session.  So every component leads a session, and the
processes still in it after the component was told to end are killed.  A watched set dies with its owner, SIGKILL
included: this module, run as a program, waits on a pipe that closes when the owner is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

POLL_S = 0.1

_AGAIN = (
    """trap 'kill $child 2> /dev/null; exit' TERM; while :; do "$@" & child=$!; wait $child; sleep 2; done"""
)
"""Starts a command again whenever it ends, until it is told to end itself."""


class Processes:
    """Named commands running in one environment, their output in `<logs>/<name>.log`.

    If `watched`, they are killed when this process ends, however it ends.  Otherwise they live until `stop`, here or
    in another process by `stop_sessions`, and one that dies is started again: nobody else is there to do it.
    """

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]],
        *,
        environment: Mapping[str, str],
        logs: Path,
        watched: bool = True,
    ) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._watchdog: subprocess.Popen[bytes] | None = None
        try:
            for name, command in commands.items():
                again = () if watched else ("sh", "-c", _AGAIN, name)
                self._running[name] = self._start(name, (*again, *command), environment)
            if watched:
                self._watchdog = _watch(self.sessions)
        except BaseException:
            self.stop()
            raise

    def log(self, name: str) -> Path:
        """Return the log file of one of them."""
        return self._logs / f"{name}.log"

    @property
    def sessions(self) -> tuple[int, ...]:
        """Return the session ids, which are the process ids of the commands."""
        return tuple(process.pid for process in self._running.values())

    def dead(self) -> list[str]:
        """Return the names of those that have ended by themselves."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Suspend one of them (SIGSTOP) while the context lasts."""
        process = self._running[name]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Terminate all of them; a few seconds later kill the processes left in their sessions."""
        stop_sessions(self.sessions)
        for process in self._running.values():
            process.wait()
        if self._watchdog is not None:
            _dismiss(self._watchdog)
        self._watchdog = None

    def _start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        with self.log(name).open("ab") as output:
            return subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )


def stop_sessions(sessions: Collection[int], patience_s: float = 6.0) -> None:
    """Terminate the leaders of these sessions, wait, then kill every process still in one of them."""
    for leader in sessions:
        with contextlib.suppress(ProcessLookupError):
            os.kill(leader, signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    while _members(sessions) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    kill_sessions(sessions)


def kill_sessions(sessions: Collection[int]) -> None:
    """Kill every process of these sessions, including those started meanwhile."""
    while members := _members(sessions):
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)


def _members(sessions: Collection[int]) -> list[int]:
    """Return the living processes of these sessions; one that only waits to be reaped counts as dead."""
    members = []
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getsid(pid) in sessions and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                members.append(pid)
    return members


def _watch(sessions: Sequence[int]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", __name__, *map(str, sessions)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@contextlib.contextmanager
def watched(sessions: Sequence[int]) -> Iterator[None]:
    """Kill these sessions if this process ends, however it ends, while the context lasts."""
    watchdog = _watch(sessions)
    try:
        yield
    finally:
        _dismiss(watchdog)


def _dismiss(watchdog: subprocess.Popen[bytes]) -> None:
    """End a watchdog; killed before the pipe is closed, since a closed pipe makes it kill."""
    watchdog.kill()
    watchdog.wait()
    assert watchdog.stdin is not None
    watchdog.stdin.close()


if __name__ == "__main__":
    sys.stdin.read()
    kill_sessions([int(word) for word in sys.argv[1:]])
