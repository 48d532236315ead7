"""Show on stderr how far a copy is: bars on a terminal, an occasional line everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twinlog.cli.say import say

if TYPE_CHECKING:
    from twinlog.copying.progress import CopyProgress


@contextmanager
def shown() -> Iterator[Callable[[CopyProgress], None]]:
    """Yield a listener that shows a copy's progress on stderr."""
    if sys.stderr.isatty():
        with _bars() as listener:
            yield listener
    else:
        from twinlog.copying.progress import Lines

        yield Lines(say).tell


@contextmanager
def _bars() -> Iterator[Callable[[CopyProgress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
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
