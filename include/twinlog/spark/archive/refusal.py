"""Find out from Spark's error that the executors' Python cannot run twinlog at all.  Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from twinlog.errors import TerminalError

CODE: Final = "executor-python"


@dataclass(frozen=True, slots=True)
class _Reason:
    pattern: re.Pattern[str]
    message: str
    hint: str


_REASONS: Final = (
    _Reason(  # spark/daemon.py says so before it imports anything
        re.compile(r"twinlog: (this worker .*)"),
        "{0}",
        "name a Python of that version in spark.pyspark.python, on machines of that kind",
    ),
    _Reason(
        re.compile(r"No module named '?(twinlog)'?(?![.\w])"),
        "the executors' Python has no module {0}",
        "install twinlog on the executors' machines, or ship it: twinlog spark package",
    ),
    _Reason(
        re.compile(r"\[PYTHON_VERSION_MISMATCH\] (.*?)(?:, PySpark cannot.*)?$", re.MULTILINE),
        "{0}",
        "give executors and driver the same Python: spark.pyspark.python",
    ),
    _Reason(  # with another number, such as 12 (no memory), it may go away
        re.compile(r'Cannot run program "([^"]*)".*error=2\b'),
        "the executors' machines have no {0}",
        "name a Python that the executors' machines have in spark.pyspark.python",
    ),
)


def refusal(error: str) -> TerminalError | None:
    """Return the error of executors whose Python is missing, of another version, or without twinlog; else None."""
    for it in _REASONS:
        if found := it.pattern.search(error):
            return TerminalError(it.message.format(found[1].strip()), hint=it.hint, code=CODE)
    return None
