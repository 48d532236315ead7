"""Define the two kinds of failure; every error is of exactly one of them.

A `TransientError` may go away by itself: Airflow retries the task, the follow loop fences again.
A `TerminalError` will not: a person must act, and a retry only repeats the failure.

Every error carries data: a stable `code`, one line that says what is wrong, the `hint` that says what to do, and
`data`, the identities involved (flow, topic, partition, offset, file, line, key).  Errors are printed in one place
(twinlog.cli.main) and turned into Airflow retries in one place (twinlog.airflow.retries).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """Name the exit codes of a `twinlog` command."""

    DONE = 0
    SAYS_NO = 1
    USAGE = 2
    CLUSTER = 3

    @classmethod
    def of(cls, yes: object) -> ExitCode:
        """Return the code of a yes, or of a no."""
        return cls.DONE if yes else cls.SAYS_NO


class TwinlogError(Exception):
    """Base of every error that twinlog raises on purpose.  Raise one of the two kinds below, not this class.

    `message` is one line: what is wrong and where.  `hint` is one line: what to do.
    """

    exit_code: ExitCode = ExitCode.SAYS_NO
    code: str = "error"

    def __init__(self, message: str, hint: str = "", *, code: str | None = None, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data = data
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    @property
    def cluster(self) -> str:
        """The alias of the cluster that it tells of; "" if it tells of none."""
        return str(self.data.get("cluster", ""))

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep every field when pickled: errors cross process boundaries (Spark tasks, Airflow workers)."""
        return _rebuild, (type(self), self.message, self.hint, self.code, self.data)


def _rebuild(
    kind: type[TwinlogError], message: str, hint: str, code: str, data: dict[str, Any]
) -> TwinlogError:
    return kind(message, hint=hint, code=code, **data)


class TransientError(TwinlogError):
    """Report a failure that may go away by itself.  The state is unchanged; try again."""

    exit_code = ExitCode.CLUSTER
    code = "transient"


class TerminalError(TwinlogError):
    """Report a failure that will not go away by itself.  The state is unchanged; a person must act."""

    code = "terminal"


class UsageError(TerminalError):
    """Report wrong usage of a command, or input that a function's documentation rules out."""

    exit_code = ExitCode.USAGE
    code = "usage"


class ConfigError(TerminalError):
    """Report a configuration that cannot be used; `data` names file, line and key where they are known."""

    exit_code = ExitCode.USAGE
    code = "config"


class FormatError(TerminalError):
    """Report bytes that do not follow their format (truncated, unknown version).  No value is returned for them."""

    code = "format"


class ClusterUnreachable(TransientError):
    """Report that no broker of a cluster answered in time."""

    code = "unreachable"


class ClusterRefused(TerminalError):
    """Report that a cluster answered and refused (authentication, authorisation, an unsupported request)."""

    exit_code = ExitCode.CLUSTER
    code = "refused"


class FencedError(TransientError):
    """Report that another driver holds the flow, or has taken a lane from us.  Fence again before anything else."""

    exit_code = ExitCode.CLUSTER
    code = "fenced"
