"""The one table that turns an error into a retry, and what the tasks of twinlog's own Dags have in common.

A worker that dies leaves no exception, and an error that was not raised on purpose is a mistake of ours: both follow
the task's own `retries`.  Every step may be run again at any time.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from twinlog.airflow.form import refuse_unknown_fields
from twinlog.airflow.versions import errors_in_one_line, retry_policy

# (error, whether to try again, after how long, why); the first match decides, so subclasses come first.
RULES = [
    ("twinlog.errors.FencedError", True, timedelta(seconds=15), "another driver held the flow"),
    ("twinlog.errors.TransientError", True, timedelta(seconds=10), "may go away by itself"),
    ("twinlog.errors.TerminalError", False, None, "will not go away by itself: a person must act"),
]

RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=10), **retry_policy(RULES)}


def begin(context: Any) -> None:
    """Let a task's mistakes be lines of its log, and refuse a form with a field that there is not."""
    errors_in_one_line()
    refuse_unknown_fields(context)


OUR_TASKS = {"owner": "twinlog", **RETRIES, "pre_execute": begin, "show_return_value_in_logs": False}
"""The default arguments of twinlog's own Dags.

A task's log has its result line by line; Airflow would write it once more, as one line of up to 48 KiB.
"""


def with_retries(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operator that retries by the table, unless they or the Dag's default_args differ."""
    return {**arguments, "default_args": {**RETRIES, **(arguments.get("default_args") or {})}}
