"""The two kinds of failure, and nothing in between.

A `TransientError` may go away by itself: Airflow retries the task, the follow loop fences again.
A `TerminalError` will not: a person must act, and retrying only repeats it.

Every error is data: a stable `code`, one line that says what is wrong, the `hint` that says what to do,
and `data`, the identities involved (flow, topic, partition, offset, file, line, key).  One place prints
them (twinlog.cli.main) and one place turns them into Airflow retries (twinlog.airflow.retries).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """What a `twinlog` command exits with."""

    DONE = 0
    SAYS_NO = 1
    USAGE = 2
    CLUSTER = 3


class TwinlogError(Exception):
    """Base of every error twinlog raises on purpose.  Raise one of the two kinds below.

    `message` is one line: what is wrong and where.  `hint` is one line: what to do.
    """

    exit_code: ExitCode = ExitCode.SAYS_NO
    code: str = "error"

    def __init__(self, message: str, *, hint: str = "", code: str | None = None, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data = data
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors cross process boundaries (Spark tasks, Airflow workers): keep every field."""
        return _rebuild, (type(self), self.message, self.hint, self.code, self.data)


def _rebuild(
    kind: type[TwinlogError], message: str, hint: str, code: str, data: dict[str, Any]
) -> TwinlogError:
    return kind(message, hint=hint, code=code, **data)


class TransientError(TwinlogError):
    """May go away by itself; the state is as it was; try again."""

    exit_code = ExitCode.CLUSTER
    code = "transient"


class TerminalError(TwinlogError):
    """Will not go away by itself; the state is as it was; a person must act."""

    code = "terminal"


class UsageError(TerminalError):
    """Wrong usage of a command or a function's documented input."""

    exit_code = ExitCode.USAGE
    code = "usage"


class ConfigError(TerminalError):
    """A configuration that cannot be used; `data` names file, line and key where they are known."""

    exit_code = ExitCode.USAGE
    code = "config"


class FormatError(TerminalError):
    """Bytes that are not what the format says (truncated, unknown version): never a wrong value."""

    code = "format"


class ClusterUnreachable(TransientError):
    """No broker of a cluster answered in time."""

    code = "unreachable"


class ClusterRefused(TerminalError):
    """A cluster answered and said no (authentication, authorisation, an unsupported request)."""

    exit_code = ExitCode.CLUSTER
    code = "refused"


class FencedError(TransientError):
    """Another driver holds the flow, or took a lane from us: fence again before doing anything."""

    exit_code = ExitCode.CLUSTER
    code = "fenced"
