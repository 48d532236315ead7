"""How the runs of a continuous Dag follow the source one after the other, without a gap between them.  Pure.

A run begins while the one before it still follows.  Its Spark session starts, and only then its copy fences: that ends
the copy of the other, in order, and its own goes on from what is committed (decision 0019).  A run that could not
relieve it costs nothing: it goes on until the one after that.  Then it ends, so that a paused Dag stops copying.

Without transactions a fence only calls lanes back, and two copies at once would copy twice: there runs follow strictly
each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

from twinlog.airflow.request import CycleRequest
from twinlog.config.flow.settings import FlowSettings, Guarantee

WINDOWS_A_RUN = 15
"""From the beginning of a run to that of the next, in times of `twinlog.follow.seconds`: as often is a run reported."""

PATIENCE = timedelta(minutes=5)
"""What a run that relieves another has for its tasks and its Spark session."""

TRY_AGAIN = timedelta(seconds=30)
"""About how long a task takes that fails in a cluster that is down, with the pause behind it."""

RUNS_AT_ONCE = 3
"""One that follows, one that is about to relieve it, and one by hand."""

SCHEDULED = "scheduled"

_UNDER_WAY = frozenset({"queued", "running", "restarting", "up_for_retry"})
"""States of an Airflow task that copies, or will in a moment."""


def overlaps(flow: FlowSettings) -> bool:
    """Whether runs of the flow's Dag relieve each other, several being active at a time."""
    return flow.continuous and flow.copy.guarantee is Guarantee.EXACTLY_ONCE


def interval(flow: FlowSettings) -> timedelta:
    """Return the time from the beginning of one run that follows to that of the next."""
    return timedelta(seconds=WINDOWS_A_RUN * flow.copy.follow_seconds)


def longest(flow: FlowSettings) -> timedelta:
    """Return for how long one run follows at most: one that may be relieved, until the second run after it does."""
    return 2 * interval(flow) + PATIENCE if overlaps(flow) else interval(flow)


def retries(flow: FlowSettings, usual: int) -> int:
    """Return how often a task is tried again: until the next run, where that does not begin when this one fails."""
    return max(usual, interval(flow) // TRY_AGAIN) if overlaps(flow) else usual


def followed(asked: CycleRequest, run_type: str, flow: FlowSettings) -> CycleRequest:
    """Make the request of a continuous Dag's own run one to follow the source; any other run stays a cycle."""
    if not flow.continuous or run_type != SCHEDULED:
        return asked
    return replace(asked, follow_seconds=longest(flow).total_seconds())


def driver_name(dag_id: str, run_id: str, try_number: int) -> str:
    """Name one try of a copy task, for the fence: a retry is another driver, and so is a run of another Dag."""
    return f"{dag_id}/{run_id}/{try_number}"


def gives_way_to(flow: FlowSettings, dag_id: str) -> str:
    """Return how the names of drivers begin that may relieve one of this Dag; empty when none may."""
    return f"{dag_id}/" if overlaps(flow) else ""


def leaves_it_to(
    ask: Callable[[], Mapping[str, Mapping[str, str]]],
    task_id: str,
    run_id: str,
    request: CycleRequest,
    try_number: int,
) -> str:
    """Return the run that copies what this one would, and would only be interrupted; empty when there is none.

    A run that does not follow leaves it to the newest one that does, or is about to.  One that follows relieves whoever
    began before it; only when it is tried again it leaves the copy to one that began after it.  `ask` returns the
    states of the task `task_id`, by run: of every run there ever was, so most runs do without.
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
