"""A driver in the background that never gives up, and is never relieved of its work unnoticed."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

from lab import ThreadRunner, cycle
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FencedError, TwinlogError

PATIENCE_SECONDS = 150.0


class Copier:
    """Copies, cycle after cycle, until one says that there is nothing left, or that the target lost an end.

    `begun` is set when a lane runs; `fenced` counts the cycles that another driver ended, `lost` says which end was
    lost.
    """

    def __init__(self, flow: FlowSettings) -> None:
        self._flow = flow
        self._running: Future[bool] | None = None
        self.begun = threading.Event()
        self.fenced = 0
        self.lost = ""
        self.last_error: TwinlogError | None = None

    def start(self) -> None:
        """Copy in the background."""
        pool = ThreadPoolExecutor(1)
        self._running = pool.submit(self.drain)
        pool.shutdown(wait=False)

    @property
    def copying(self) -> bool:
        """Whether it is still at it in the background."""
        return self._running is not None and not self._running.done()

    def join(self) -> None:
        """Wait until the background is done.  One that hangs or gave up is a failure: a drain would hide it.

        Its last cycle may begin when its patience is nearly over, hence twice.
        """
        if self._running is not None:
            done = self._running.result(2 * PATIENCE_SECONDS)
            assert done, f"not done within {PATIENCE_SECONDS:g} s: {self.last_error!r}"

    def drain(self) -> bool:
        """Copy until nothing is left; return whether that came to pass in time."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                result = cycle(self._flow, ThreadRunner(before=lambda _: self.begun.set()))
                if lost := [it for it in result.stopped if it.code == "lost-marker"]:
                    self.lost = lost[0].message
                    return True
                if result.state in {"done", "nothing"}:
                    return True
            except TwinlogError as error:
                if error.code == "lost-marker":
                    self.lost = str(error)
                    return True
                self.fenced += isinstance(error, FencedError)
                self.last_error = error
                # Under a low limit two that came back at once would end each other before either commits.
                time.sleep(random.uniform(0.2, 2.0))
        return False
