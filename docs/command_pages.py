"""Write cli.md: every command with its arguments and options, as the code declares them (`make reference`)."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from twinlog.cli.main import app

PAGE = Path(__file__).with_name("cli.md")
HEAD = """# Commands

Every command of `twinlog`. Four options may stand anywhere on the line: `--output json` (or `-o json`) writes one
document to stdout instead of tables, `--debug` shows tracebacks, `--lenient` only warns of keys that nobody knows,
`--strict` fails on everything the file would otherwise be warned about. The environment variable `TWINLOG_CONFIG`
replaces `--config`. [Quick start](quick-start.md) has the order in which one uses them, and the exit codes.

Options of many commands:
"""


MANY = 4
"""An option of so many commands, in the same words, stands at the head of the page; a command only names it."""


def page() -> str:
    """Return the page."""
    commands = list(_commands(typer.main.get_command(app), "twinlog"))
    uses = Counter(_row(option) for command, _ in commands for option in _options(command))
    shared = [row for row, times in uses.items() if times >= MANY]
    return "\n".join([
        HEAD,
        *_table(shared),
        *(_section(command, name, shared) for command, name in commands),
    ])


def _commands(command: Any, name: str) -> Iterator[tuple[Any, str]]:
    """Yield a command, or those below it, with their names."""
    if not hasattr(command, "commands"):
        yield command, name
        return
    for word, below in sorted(command.commands.items()):
        if not below.hidden:
            yield from _commands(below, f"{name} {word}")


def _options(command: Any) -> list[Any]:
    return [it for it in command.params if it.param_type_name == "option" and "--help" not in it.opts]


def _section(command: Any, name: str, shared: list[str]) -> str:
    arguments = [it for it in command.params if it.param_type_name == "argument"]
    places = [_metavar(it) if it.required else f"[{_metavar(it).strip('[]')}]" for it in arguments]
    rows = [f"| `{_metavar(it)}` | {_cell(it.help)} | {_default(it)} |" for it in arguments]
    rows += [_row(it) for it in _options(command) if _row(it) not in shared]
    named = [
        f"`{it.opts[0]}`{' (repeatable)' * ('repeatable' in it.help)}"
        for it in _options(command)
        if _row(it) in shared
    ]
    also = [f"{'Also' if rows else 'Takes'} {', '.join(named)}.", ""] if named else []
    line = f"`{' '.join([name, *places])}`"
    return "\n".join([
        f"## {name}\n",
        f"{line}\n",
        inspect.cleandoc(command.help or ""),
        "",
        *_table(rows),
        *also,
    ])


def _table(rows: list[str]) -> list[str]:
    return ["| | meaning | default |", "|---|---|---|", *rows, ""] if rows else []


def _row(option: Any) -> str:
    return f"| {_names(option)} | {_cell(option.help)} | {_default(option)} |"


def _names(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    return names if option.is_flag else f"{names} {_values(option)}"


def _values(option: Any) -> str:
    if option.metavar:
        return f"`{option.metavar}`"
    kind = option.type_descriptor.annotation
    if inspect.isclass(kind) and issubclass(kind, Enum):
        return ", ".join(f"`{it.value}`" for it in kind)
    return f"`{getattr(kind, '__name__', 'TEXT').upper()}`"


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _default(it: Any) -> str:
    if it.required:
        return "required"
    value = getattr(it.default, "value", it.default)
    if value is None or value is False or not str(value) or callable(value) or value in ((), []):
        return ""
    return f"`{_cell(str(value))}`"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
