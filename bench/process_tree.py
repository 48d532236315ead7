"""CPU time and memory of a process and of all its children, by role, including dead ones."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import psutil

_EVERY_S = 0.1
JVM, WORKERS, DRIVER = "JVM", "workers", "driver"


@dataclass
class _Seen:
    role: str
    cpu_s: float = 0.0


@dataclass
class Peaks:
    """The most memory seen, in MiB: of all processes together, and of the largest Python worker."""

    total: float = 0.0
    worker: float = 0.0


@dataclass
class _State:
    processes: dict[tuple[int, float], _Seen] = field(default_factory=dict)
    peaks: Peaks = field(default_factory=Peaks)


class ProcessTree:
    """Samples every 0.1 s; the CPU time of a process after its last sample is missed."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._state = _State()
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

    def cpu_s(self) -> Counter[str]:
        """Return the user and system seconds of all processes seen so far, by role."""
        self._sample()
        with self._lock:
            result: Counter[str] = Counter()
            for seen in self._state.processes.values():
                result[seen.role] += seen.cpu_s  # type: ignore[assignment]
            return result

    def take_peaks(self) -> Peaks:
        """Return the most memory since the last call."""
        with self._lock:
            peaks, self._state.peaks = self._state.peaks, Peaks()
            return peaks

    def is_running(self) -> bool:
        """Say whether the root process lives."""
        return self._root.is_running() and self._root.status() != psutil.STATUS_ZOMBIE

    def pause(self) -> None:
        """Suspend all processes (SIGSTOP), the root first, so that it starts no more."""
        for process in [self._root, *self._root.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.suspend()

    def resume(self) -> None:
        """Resume them (SIGCONT), the root last."""
        for process in [*self._root.children(recursive=True), self._root]:
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._sample()

    def _sample(self) -> None:
        try:
            family = [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        total = worker = 0.0
        for process in family:
            try:
                with process.oneshot():
                    key = process.pid, process.create_time()
                    times, memory = process.cpu_times(), process.memory_info().rss / 2**20
                    seen = self._state.processes.get(key)
                    # A role is looked up again: a child is a copy of its parent until it runs its own program.
                    role = _role(process) if seen is None or seen.role == DRIVER else seen.role
            except psutil.NoSuchProcess:
                continue
            with self._lock:
                self._state.processes[key] = _Seen(role, times.user + times.system)
            total += memory
            worker = max(worker, memory if role == WORKERS else 0.0)
        with self._lock:
            peaks = self._state.peaks
            self._state.peaks = Peaks(max(peaks.total, total), max(peaks.worker, worker))


def _role(process: psutil.Process) -> str:
    command = " ".join(process.cmdline()[:4])
    if "spark.daemon" in command:  # pyspark.daemon, or twinlog.spark.daemon in its place
        return WORKERS
    return JVM if "java" in command.split(" ", 1)[0] else DRIVER
