"""Keep an answer that is asked for in the background, so that whoever looks at it never waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Start = Callable[[Callable[[], None]], Any]


def in_a_thread(work: Callable[[], None]) -> None:
    """Do work that may hang for a minute without keeping a process from its end."""
    Thread(target=work, daemon=True, name="twinlog-page").start()


class Background(Generic[T]):
    """The last answer of `ask`.

    It is asked anew if somebody looks and the last answer is older than `every_s`, by one thread at a time; nobody
    waits.  If nobody looks, nothing is asked.  `ask` must not raise.
    """

    def __init__(
        self,
        ask: Callable[[], T],
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
        start: Start = in_a_thread,
    ) -> None:
        self._ask = ask
        self._every_s = every_s
        self._clock = clock
        self._start = start
        self._lock = Lock()
        self._busy = False
        self._answered: float | None = None
        self._answer: T | None = None

    def get(self) -> T | None:
        """Return the last answer, None before the first one."""
        with self._lock:
            old = self._answered is None or self._clock() - self._answered >= self._every_s
            due, self._busy = old and not self._busy, self._busy or old
        if due:
            self._start(self._renew)
        return self._answer

    def _renew(self) -> None:
        try:
            self._answer = self._ask()
        finally:
            with self._lock:
                self._answered, self._busy = self._clock(), False
