"""Hold the first record that a cloned group met in a partition."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.kafka_types import ReadRecord

SESSION_SECONDS = 10
"""How long the brokers hold a consumer whose process has died for a member of its group."""


@dataclass(frozen=True, slots=True)
class First:
    """Tell what a consumer met first in a partition: a record, or the end of the log (None), after so many seconds.

    `error` says that the group's position could not be read from.
    """

    record: ReadRecord | None
    seconds: float
    error: str = ""
