"""The one place where an error becomes its line, its JSON document and its exit code."""

from __future__ import annotations

import subprocess
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from twinlog.cli.interrupt import INTERRUPTED, pressed
from twinlog.config.file.providers import Secret
from twinlog.errors import ExitCode, TwinlogError
from twinlog.jsonable import Json, to_json
from twinlog.visible import visible_lines

INTERNAL = 70
"""EX_SOFTWARE of sysexits.h: a mistake in twinlog itself, which must never be read as an answer."""

USAGE_ERROR = typer.BadParameter.__mro__[1]
"""Click's UsageError, of the click that this typer uses."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error for people and programs: a stable code, one line, a hint, and its data."""

    code: str
    message: str
    hint: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    exit_code: int = ExitCode.USAGE

    @property
    def text(self) -> str:
        """Return message and hint in one text."""
        return f"error: {self.message}; {self.hint}" if self.hint else f"error: {self.message}"

    @property
    def lines(self) -> list[str]:
        """Return the lines for stderr: one, unless one file has several mistakes."""
        return self.text.split("\n") if "findings" in self.data else [self.text]

    @property
    def document(self) -> Json:
        """Return the document for stdout under `--output json`."""
        return {"error": to_json(self)}


def explain_failure(error: BaseException) -> Failure:
    """Explain an error to the person who typed the command."""
    match error:
        case _ if pressed.is_set() or isinstance(error, KeyboardInterrupt | typer.Abort):
            return Failure("interrupted", "interrupted", exit_code=INTERRUPTED)
        case TwinlogError():
            data = {key: _plain(value) for key, value in error.data.items()}
            return Failure(error.code, error.message, error.hint, data, error.exit_code)
        case subprocess.TimeoutExpired() | TimeoutError():
            return Failure(
                "transient",
                f"{_tool(error)} gave no answer in time",
                "run it again when this machine has less to do",
                exit_code=ExitCode.CLUSTER,
            )
        case _ if isinstance(error, USAGE_ERROR):
            return Failure("usage", _usage_line(error), f"see {_command_path(error)} --help")
        case _ if (library := sys.modules.get("confluent_kafka")) and isinstance(
            error, library.KafkaException
        ):
            # A client library's error has slipped through: it holds a KafkaError, whose `str` says it in words.
            cause: Any = error.args[0] if error.args else error
            text = str(cause.str() if hasattr(cause, "str") else cause)
            return Failure("refused", _one_line(text), exit_code=ExitCode.CLUSTER)
        case _:
            return Failure(
                "internal",
                f"a mistake in twinlog: {type(error).__name__}: {_one_line(str(error))}",
                "run it again with --debug and report the traceback",
                exit_code=INTERNAL,
            )


def print_traceback(error: BaseException) -> None:
    """Print the traceback of an error to stderr, for --debug."""
    sys.stderr.write(visible_lines("".join(traceback.format_exception(error))))


def _tool(error: BaseException) -> str:
    """Return the program that was too slow; its arguments may hold a secret."""
    if not isinstance(error, subprocess.TimeoutExpired):
        return "what twinlog waited for"
    words = error.cmd if isinstance(error.cmd, list | tuple) else str(error.cmd).split()
    return Path(str(words[0])).name


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _plain(value: Any) -> Any:
    """Turn an identity into JSON; a value without a JSON form becomes its text, and so a Secret its mask."""
    if isinstance(value, Secret):
        return str(value)
    try:
        return to_json(value)
    except TypeError:
        return str(value)


def _usage_line(error: Any) -> str:
    # Empty if the help was shown because no command was given.
    return _one_line(error.format_message()).rstrip(".").replace("Value error, ", "") or "no command given"


def _command_path(error: Any) -> str:
    """Return `twinlog run` if the mistake is in the words after `run`."""
    return str(error.ctx.command_path) if error.ctx is not None else "twinlog"
