"""Let the runs of a continuous Dag follow the source one after the other, without a gap between them.  Pure.

A run begins while the one before still follows.  Its Spark session starts, and only then its copy fences.  That ends
the other's copy in order, and the new one goes on from the committed state (decision 0019).  If a run fails to take
over, nothing is lost: the old one goes on until the run after that.  Then it ends, so that a paused Dag stops copying.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from twinlog.airflow.cycle import CycleRequest
from twinlog.config.flow.settings import FlowSettings

TRY_AGAIN_SECONDS = 30
"""The approximate duration of a task that fails because a cluster is down, including the pause after it."""

RUNS_AT_ONCE = 3
"""One that follows, one that is about to take over, and one started by hand."""

SCHEDULED = "scheduled"

_UNDER_WAY = frozenset({"queued", "running", "restarting", "up_for_retry"})
"""States of an Airflow task that copies, or will in a moment."""


def retries(flow: FlowSettings, usual: int) -> int:
    """Return how often a task is tried again: until the next run, if the flow is followed."""
    return max(usual, flow.copy.run_seconds // TRY_AGAIN_SECONDS) if flow.continuous else usual


def followed(asked: CycleRequest, run_type: str, flow: FlowSettings) -> CycleRequest:
    """Turn a continuous Dag's own run into one that follows the source; any other run stays a cycle."""
    if not flow.continuous or run_type != SCHEDULED:
        return asked
    return replace(asked, follow_seconds=flow.copy.longest_run_seconds)


def driver_name(dag_id: str, run_id: str, try_number: int) -> str:
    """Name one try of a copy task, for the fence: a retry is another driver, and so is a run of another Dag."""
    return f"{dag_id}/{run_id}/{try_number}"


def gives_way_to(flow: FlowSettings, dag_id: str) -> str:
    """Return the prefix of drivers that may take over from this Dag's; "" if none may."""
    return f"{dag_id}/" if flow.continuous else ""


def leaves_it_to(
    ask: Callable[[], Mapping[str, Mapping[str, str]]],
    task_id: str,
    run_id: str,
    request: CycleRequest,
    try_number: int,
) -> str:
    """Return the run that already copies what this one would copy; "" if there is none.

    A run that does not follow leaves the copy to the newest run that follows or is about to.  A run that follows takes
    over from runs that began before it; only if it is tried again, it leaves the copy to a run that began after it.
    `ask` returns the states of the task `task_id`, by run, of all runs that ever were; most runs do not need to call
    it.
    """
    if request.follow_seconds and try_number == 1:
        return ""
    following = [
        run
        for run, tasks in ask().items()
        if run.startswith(f"{SCHEDULED}__") and tasks.get(task_id) in _UNDER_WAY
        if not request.follow_seconds or run > run_id
    ]
    return max(following, default="")
