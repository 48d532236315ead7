"""Several processes started together, each with its descendants, stopped together, never orphaned.

A plain kill of Airflow's scheduler leaves its LocalExecutor workers behind, and they what they started.  So
every component leads a process group of its own; its descendants are remembered before it is told to end, and
what is still there afterwards is killed by id.  A watched set dies with its owner, SIGKILL included: a shell
waits on a pipe that closes when the owner is gone, and then kills the groups.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

_WATCHDOG = 'read _; for group; do kill -KILL -- "-$group"; done'


class Processes:
    """Named commands running in one environment, their output in `<logs>/<name>.log`."""

    def __init__(
        self, commands: Mapping[str, Sequence[str]], *, environment: Mapping[str, str], logs: Path
    ) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._watchdog: subprocess.Popen[bytes] | None = None
        try:
            for name, command in commands.items():
                with self.log(name).open("ab") as output:
                    self._running[name] = subprocess.Popen(
                        command,
                        env=dict(environment),
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                        start_new_session=True,
                    )
        except BaseException:
            self.stop()
            raise

    def log(self, name: str) -> Path:
        """Where the output of one of them is."""
        return self._logs / f"{name}.log"

    @property
    def pids(self) -> dict[str, int]:
        """Process id (and group) of each."""
        return {name: process.pid for name, process in self._running.items()}

    def dead(self) -> list[str]:
        """Names of those that have ended by themselves."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def watch(self) -> None:
        """From now on they are killed when this process ends, however it ends."""
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "watchdog", *map(str, self.pids.values())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self, patience_s: float = 8.0) -> None:
        """Terminate all of them, and kill what is left of them and their descendants after `patience_s`."""
        family = [member for pid in self.pids.values() for member in _family(pid)]
        for process in self._running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs(family, timeout=patience_s)
        for member in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        for process in self._running.values():
            process.wait()
        self._dismiss_watchdog()

    def _dismiss_watchdog(self) -> None:
        if self._watchdog is not None and self._watchdog.stdin is not None:
            # Kill before closing the pipe: a closed pipe is what makes it shoot.
            self._watchdog.kill()
            self._watchdog.wait()
            self._watchdog.stdin.close()
        self._watchdog = None


def _family(pid: int) -> list[psutil.Process]:
    try:
        head = psutil.Process(pid)
        return [head, *head.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def stop_groups(pids: Sequence[int]) -> None:
    """End process groups that another process of ours left running (`--keep`)."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGTERM)
