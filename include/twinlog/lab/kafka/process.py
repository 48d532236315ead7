"""One Java process of ours: started with its output in a file, watched, stopped by its id, never orphaned.

Every process gets a session of its own, so that Ctrl-C in a terminal reaches its owner and not the broker.  A watched
process has a watchdog beside it: a shell that holds the reading end of a pipe whose writing end only the owner has.
However the owner dies, SIGKILL included, the pipe closes and the watchdog kills the process.  (PR_SET_PDEATHSIG would
do so when the *thread* that started it ends, and only on Linux.)
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from twinlog.process_id import TERMINATE_WAIT_S

_WATCHDOG = 'read _; kill -KILL "$1"'


class JavaProcess:
    """A running command.  If `watched`, it dies with us; otherwise it lives on until `stop` or `stop_pid`."""

    def __init__(self, command: Sequence[str | Path], log: Path, *, watched: bool = True) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._watchdog = _Watchdog(self._process.pid) if watched else None
        self._paused = False

    @property
    def pid(self) -> int:
        """Return the process id; it stays the same after the process has died."""
        return self._process.pid

    def is_running(self) -> bool:
        """Say whether it lives (a paused process does)."""
        if self._process.poll() is None:
            return True
        self._dismiss_watchdog()  # from now on other processes may get its target's id
        return False

    def pause(self) -> None:
        """Suspend it (SIGSTOP): connections stay open, but it does not answer."""
        self._signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """Resume a paused process (SIGCONT)."""
        self._signal(signal.SIGCONT)
        self._paused = False

    def terminate(self) -> None:
        """Ask it to end (SIGTERM) and do not wait; a paused one is resumed, since it could not react otherwise."""
        if self._paused:
            self.resume()
        self._signal(signal.SIGTERM)

    def stop(self, patience_s: float = TERMINATE_WAIT_S) -> None:
        """Terminate it, then kill it after `patience_s` seconds.  Does nothing if it is dead."""
        self.terminate()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._dismiss_watchdog()

    def kill(self) -> None:
        """Kill it (SIGKILL), and wait until it is gone."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._dismiss_watchdog()

    def output(self) -> str:
        """Return all it has printed so far, including earlier runs in the same log."""
        return self.log.read_text(errors="replace")

    def _signal(self, number: int) -> None:
        if self.is_running():
            self._process.send_signal(number)

    def _dismiss_watchdog(self) -> None:
        if self._watchdog:
            self._watchdog.dismiss()
            self._watchdog = None


class _Watchdog:
    """A shell that kills process `pid` when the pipe to it closes."""

    def __init__(self, pid: int) -> None:
        reading, writing = os.pipe()  # no program that we start inherits either end
        self._pipe = os.fdopen(writing, "wb")
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "watchdog", str(pid)],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(reading)
        # A forked child has our end too, and would keep the pipe open after our death.
        os.register_at_fork(after_in_child=self._pipe.close)

    def dismiss(self) -> None:
        # Kill before closing the pipe: a closed pipe makes the watchdog kill.
        self._shell.kill()
        self._shell.wait()
        self._pipe.close()
