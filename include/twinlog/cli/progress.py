"""How far a copy is, on stderr: bars on a terminal, a line now and then everywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twinlog.cli.say import say

if TYPE_CHECKING:
    from twinlog.steps.copy_progress import CopyProgress

LINE_SECONDS = 10.0


@contextmanager
def shown() -> Iterator[Callable[[CopyProgress], None]]:
    """Give a listener for a copy's progress that shows it to whoever watches stderr."""
    if sys.stderr.isatty():
        with _bars() as listener:
            yield listener
    else:
        yield _Lines().tell


class _Lines:
    """A line every LINE_SECONDS: a log is not a terminal."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def tell(self, progress: CopyProgress) -> None:
        if time.monotonic() - self._last >= LINE_SECONDS:
            self._last = time.monotonic()
            say(f"{progress.flow}: {line(progress)}")


def line(progress: CopyProgress) -> str:
    """Say in a line how far all lanes and each of them are."""
    lanes = ", ".join(f"lane {it.lane} {it.done * 100 // max(it.total, 1)}%" for it in progress.lanes)
    size = f", {progress.bytes_per_second / 1e6:,.1f} MB/s" if progress.bytes_per_second else ""
    return (
        f"{progress.done:,} records copied, {progress.total - progress.done:,} to go,"
        f" {progress.records_per_second:,.0f} records/s{size} ({lanes})"
    )


@contextmanager
def _bars() -> Iterator[Callable[[CopyProgress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    tasks: dict[int, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:

        def tell(copy: CopyProgress) -> None:
            for it in copy.lanes:
                speed = f"{it.done / copy.seconds:,.0f}/s, {it.bytes / copy.seconds / 1e6:,.1f} MB/s"
                if it.lane not in tasks:
                    name = f"{copy.flow} lane {it.lane} ({it.partitions} partitions)"
                    tasks[it.lane] = progress.add_task(name, speed=speed)
                progress.update(tasks[it.lane], completed=it.done, total=it.total, speed=speed)

        yield tell
