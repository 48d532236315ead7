"""Write cli.md: every command with its arguments and options, as the code declares them (`make reference`)."""

from __future__ import annotations

import inspect
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
"""


def page() -> str:
    """Return the page."""
    return "\n".join([HEAD, *_commands(typer.main.get_command(app), "twinlog")])


def _commands(command: Any, name: str) -> Iterator[str]:
    """Yield the sections of a command and of those below it."""
    if not hasattr(command, "commands"):
        yield _section(command, name)
        return
    for word, below in sorted(command.commands.items()):
        if not below.hidden:
            yield from _commands(below, f"{name} {word}")


def _section(command: Any, name: str) -> str:
    arguments = [it for it in command.params if it.param_type_name == "argument"]
    options = [it for it in command.params if it.param_type_name == "option" and "--help" not in it.opts]
    places = [_metavar(it) if it.required else f"[{_metavar(it).strip('[]')}]" for it in arguments]
    line = " ".join([name, *places])
    rows = [
        *(f"| `{_metavar(it)}` | {_cell(it.help)} | {_default(it)} |" for it in arguments),
        *(f"| {_names(it)} | {_cell(it.help)} | {_default(it)} |" for it in options),
    ]
    table = ["| | meaning | default |", "|---|---|---|", *rows, ""] if rows else []
    return "\n".join([f"## {name}\n", f"`{line}`\n", inspect.cleandoc(command.help or ""), "", *table])


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
