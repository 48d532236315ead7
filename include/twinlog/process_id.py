"""Identify a process of this machine beyond doubt, and end it: for what one command starts and another one stops."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass

import psutil

TERMINATE_WAIT_S = 5.0


@dataclass(frozen=True)
class ProcessId:
    """A process identified beyond doubt: its id and its time of birth (seconds since the epoch)."""

    pid: int
    born: float

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """Identify the process that has `pid` now; one already gone gets no birth and never counts as alive."""
        return cls(pid, born(pid) or 0.0)

    def is_alive(self) -> bool:
        """Say whether this very process lives, not a later one with its id."""
        birth = born(self.pid)
        return birth is not None and abs(birth - self.born) < 1.0


def born(pid: int) -> float | None:
    """Return when process `pid` was created (seconds since the epoch); None if there is none or it is a zombie.

    A pid alone does not identify a process, since ids are reused; a pid with its time of birth does.
    """
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return None


def stop_pid(pid: int) -> None:
    """Terminate a process that another process of ours started, then kill it after five seconds."""
    for number, patience_s in (
        (signal.SIGCONT, 0.0),
        (signal.SIGTERM, TERMINATE_WAIT_S),
        (signal.SIGKILL, 5.0),
    ):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + patience_s
        while patience_s and time.monotonic() < deadline:
            if born(pid) is None:
                return
            time.sleep(0.05)
