"""The one way a result reaches people and programs: as tables, as one JSON document, or as a file beside the answer.

A command hands over its frozen result and the grids that show it to people.  The JSON document is the result itself
(`twinlog.jsonable.to_json`), so that the two forms cannot disagree.  Files are tested before the work, so that no work
is lost.  Lines and questions for people stand on stderr, and so does how far a copy is: bars on a terminal, an
occasional line everywhere else.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from twinlog.errors import UsageError
from twinlog.jsonable import Json, to_json
from twinlog.visible import singular, visible, visible_json

if TYPE_CHECKING:
    from twinlog.copying.progress import CopyProgress
    from twinlog.gate.accepting import Person
    from twinlog.procedure import Outcome, StepReport


Cell = str | int | float | bool | None

PIPE_WIDTH = 200
"""Columns of a table that goes into a pipe or a file: wide enough that names are not folded."""


class Output(StrEnum):
    """Name what stdout carries: tables for people, or one JSON document."""

    TABLE = "table"
    JSON = "json"


OUTPUT = ContextVar("output", default=Output.TABLE)
"""What the line asks for; `main` reads it once for every command."""


@dataclass(frozen=True, slots=True)
class Grid:
    """One table for people: a title, the column headings, and as many cells in each row.

    A grid without rows prints `empty` in their place, and is not shown at all if that is "".
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    empty: str = ""

    @classmethod
    def of(
        cls, title: str, columns: str, items: Iterable[Any], empty: str = "", **made: Callable[[Any], Cell]
    ) -> Grid:
        """Show items, results or JSON documents, a row each; a partition is a name, not a number.

        `columns` is the head of the table: the fields to show, each behind its heading if that says more, as in
        `topic | partition | goes on at: next_offset`.  `made` gives fields that items do not have as they are shown.
        """
        heads = [part.rpartition(":") for part in columns.split("|")]
        fields = [field.strip() for _, _, field in heads]
        rows = [
            tuple(made[field](item) if field in made else _cell(item, field) for field in fields)
            for item in items
        ]
        headings = (
            heading.strip() if colon else field.replace("_", " ").strip() for heading, colon, field in heads
        )
        return cls(title, tuple(headings), rows, empty)


def _cell(item: Any, field: str) -> Cell:
    found = item[field] if isinstance(item, Mapping) else getattr(item, field)
    return str(found) if field == "partition" else found


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines to be copied as they are, such as commands: never folded, without a frame."""

    title: str
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Diff:
    """Lines whose colour has a meaning: pairs of a rich style and the text it is for."""

    lines: Iterable[tuple[str, str]]


def show(result: Any, grids: Iterable[Grid | Lines | Diff] = ()) -> None:
    """Write a result to stdout.  If the reader has gone away (`| head`), that is no error."""
    try:
        if OUTPUT.get() is Output.JSON:
            sys.stdout.write(document(result))
        else:
            _draw(grids)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout once more when it exits: give it somewhere to write to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def document(result: Any) -> str:
    """Return the JSON document of a result, ending in a newline."""
    return visible_json(json.dumps(to_json(result), indent=2, ensure_ascii=False)) + "\n"


LONGEST = 250
"""Characters of a word that are shown: a topic's name has no more, a group's may have 32,767 (Kafka's STRING)."""


def text_of(cell: Cell) -> str:
    """Write a cell for people: counts with separators, times with one decimal, - for nothing."""
    match cell:
        case None:
            return "-"
        case bool():
            return "yes" if cell else "no"
        case int():
            return f"{cell:,}"
        case float():
            return f"{cell:,.1f}"
        case str():
            return " ".join(map(_word, visible(cell).split(" ")))


def _word(word: str) -> str:
    """Cut a word that no line holds."""
    left = len(word) - LONGEST
    return f"{word[:LONGEST]} ... and {left:,} characters more (--output json)" if left > 0 else word


def _draw(grids: Iterable[Grid | Lines | Diff]) -> None:
    from rich.console import Console

    # Topic names and regexes are full of brackets: markup is off.
    console = Console(
        file=sys.stdout,
        markup=False,
        highlight=False,
        emoji=False,
        width=None if sys.stdout.isatty() else PIPE_WIDTH,
    )
    with console.capture() as captured:
        for grid in grids:
            match grid:
                case Grid() if grid.rows or grid.empty:
                    # Not the table's own title, which is folded to the table's width.
                    if grid.title:
                        console.print(singular(visible(grid.title)), style="bold", soft_wrap=True)
                    console.print(
                        _table(grid) if grid.rows else f"  {visible(grid.empty)}", soft_wrap=not grid.rows
                    )
                case Lines(title, lines):
                    console.print(*map(visible, (title, *lines)), "", sep="\n", soft_wrap=True)
                case Diff(lines):
                    for style, line in lines:
                        console.print(visible(line), style=style, soft_wrap=True)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


_NOTHING = (None, "")
"""Leave a column out if all its cells are one of these."""


def _table(grid: Grid) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    said = [it for it in range(len(grid.columns)) if any(row[it] not in _NOTHING for row in grid.rows)]
    for index in said:
        justify: Any = "right" if _holds_numbers(grid, index) else "left"
        table.add_column(grid.columns[index], justify=justify, overflow="fold")
    for row in grid.rows:
        table.add_row(*(text_of(row[index]) for index in said))
    return table


def _holds_numbers(grid: Grid, index: int) -> bool:
    cells = [row[index] for row in grid.rows if row[index] is not None]
    return bool(cells) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)


@contextmanager
def shown() -> Iterator[Callable[[CopyProgress], None]]:
    """Yield a listener that shows the progress of copies on stderr, of several flows at the same time too."""
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
    tasks: dict[tuple[str, int], TaskID] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:

        def tell(copy: CopyProgress) -> None:
            for part in copy.lanes:
                speed = f"{part.done / copy.seconds:,.0f}/s, {part.bytes / copy.seconds / 1e6:,.1f} MB/s"
                lane = copy.flow, part.lane
                if lane not in tasks:
                    name = f"{copy.flow} lane {part.lane} ({part.partitions} partitions)"
                    tasks[lane] = progress.add_task(name, speed=speed)
                left = part.done < part.total
                progress.update(tasks[lane], completed=part.done, total=part.total, speed=speed, visible=left)

        yield tell


def parts(items: Iterable[Any], of: str = "partitions") -> Iterator[Json]:
    """Yield the partitions of topics as documents, each with what is said of its topic; so with other parts."""
    for whole in map(to_json, items):
        yield from ({**whole, **part} for part in whole[of])


def steps_grid(title: str, steps: Iterable[StepReport]) -> Grid:
    """Return the table of the steps of a procedure."""
    return Grid.of(
        title,
        "step: name | state | seconds | what: message",
        steps,
        empty="none",
        seconds=lambda it: it.seconds or None,
    )


def notes_grid(notes: Iterable[str], title: str = "notes", heading: str = "what", empty: str = "") -> Grid:
    """Return a table of one column."""
    return Grid(title, (heading,), [(note,) for note in notes], empty)


def refuse_unwritable(path: Path | None, option: str) -> None:
    """Raise UsageError if nothing can be written to `path`; an existing file stays, and no file is left behind.

    A trial is the only sure way: permissions do not reveal a read-only or a virtual file system.
    """
    if path is None or path.is_fifo() or path.is_char_device():
        return
    try:
        new = not path.exists()
        with path.open("ab"):
            pass
        if new:
            path.unlink()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", f"check {option}", file=str(path)
        ) from None


def written(path: Path, content: bytes) -> bool:
    """Write a file after the answer was shown; if that fails, print a line and return False."""
    try:
        path.write_bytes(content)
    except OSError as error:
        say(f"error: {path} could not be written: {error.strerror}")
        return False
    return True


def say(*lines: str) -> None:
    """Write lines to stderr at once, whatever names in them hold; without a reader this does not fail."""
    with contextlib.suppress(BrokenPipeError, ValueError):
        sys.stderr.write("".join(f"{singular(visible(line))}\n" for line in lines))
        sys.stderr.flush()


def warn(line: str) -> None:
    """Print a warning that does not stop the command."""
    say(f"warning: {line}")


def say_step(name: StrEnum, outcome: Outcome | None) -> None:
    """Print that a step of a procedure begins (None), or how it ended."""
    say(f"{name.value} ..." if outcome is None else f"{name.value}: {outcome.state.value}: {outcome.message}")


def confirm(what: str) -> None:
    """Ask on stderr whether to go on.  Raises UsageError if the answer is no, or if nobody can answer."""
    try:
        agreed = typer.confirm(f"{visible(what)}. Go on?", err=True)
    except typer.Abort:
        if sys.stdin.isatty():
            raise  # Ctrl-C was pressed
        typer.echo(err=True)  # ends the line of the question
        agreed = False
    if not agreed:
        raise UsageError("nothing was done", "--yes answers beforehand")


def login() -> str:
    """Return the name of the person at this terminal, or the user's number, which in a container may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def person() -> Person:
    """Return the person at this terminal, and that nobody has proved who it is."""
    from twinlog.formats.ledger.accepted import login_on
    from twinlog.gate.accepting import Person

    return Person(login(), login_on(socket.gethostname()))
