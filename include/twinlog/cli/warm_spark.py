"""A Spark session that is opened once there is something to copy, and kept for the cycles that follow."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from twinlog.cli.say import say
from twinlog.spark.session import without_options

if TYPE_CHECKING:
    from twinlog.copying.rounds import LaneRunner


class WarmSpark:
    """At most one open session: a second master in one process would silently get the first one's session."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._master: str | None = None
        self._runner: LaneRunner | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def runner(self, master: str) -> LaneRunner:
        """Return a runner on `master`.

        Raises UsageError if `master` is not one, TransientError if no session can be opened there.
        """
        if self._runner is None or master != self._master:
            from twinlog.spark.runner import open_runner

            self._open.close()
            say(f"opening a Spark session on {without_options(master)}")
            self._runner = self._open.enter_context(open_runner(master))
            self._master = master
        return self._runner
