"""CPU time of a process and of all its children, the dead ones included."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

import psutil

_EVERY_S = 0.1


class ProcessTree:
    """Samples every 0.1 s; what a process does after its last sample is not seen."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._seen: dict[tuple[int, float], float] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def cpu_s(self) -> float:
        """User and system seconds of all processes seen so far."""
        self._sample()
        with self._lock:
            return sum(self._seen.values())

    def is_running(self) -> bool:
        """Whether the root process lives."""
        return self._root.is_running() and self._root.status() != psutil.STATUS_ZOMBIE

    def pause(self) -> None:
        """Stop the root process without ending it (SIGSTOP)."""
        self._root.suspend()

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        self._root.resume()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._sample()

    def _sample(self) -> None:
        try:
            family = [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in family:
            try:
                times = process.cpu_times()
                with self._lock:
                    self._seen[process.pid, process.create_time()] = times.user + times.system
            except psutil.NoSuchProcess:
                continue
