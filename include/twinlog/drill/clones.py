"""Keep drills in the flow's ledger, and delete the groups that they clone: only names that the ledger knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from twinlog.cluster.api import Cluster
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.formats.ledger.recovery import DrillRun, DrillState
from twinlog.policy.selection import is_drilled
from twinlog.state.ledger import read_ledger, write_ledger

MOST_RUNS = 50
"""Drills that a ledger keeps, the newest, and those whose clones are not deleted."""

SILENT_MS = 120_000
"""A drill that was not heard of for so long is over: it notes the clone that it reads with, each for 30 s at most."""


@dataclass(frozen=True, slots=True)
class Tidied:
    """Tell how many clones of earlier drills were deleted, which could not be, and which drills may still run."""

    deleted: int
    left: Mapping[str, TwinlogError]
    running: tuple[str, ...]


def clone_of(run: str, group: str) -> str:
    """Name the clone of a group; `is_drilled` knows it by the name of its run."""
    return f"{run}-{group}"


def delete(target: Cluster, run: DrillRun) -> Mapping[str, TwinlogError]:
    """Delete a drill's clones; return those that the target refuses to delete.  Raises errors of the target."""
    names = [clone for clone in run.clones if clone.startswith(f"{run.run}-") and is_drilled(clone)]
    return target.delete_groups(names).refused if names else {}


def tidy(flow: FlowSettings, target: Cluster, now_ms: int, driver: str = "") -> Tidied:
    """Delete what drills have left whose processes died, or that could not delete it, and forget the oldest drills.

    One that is still open may run, unless it was silent for `SILENT_MS`, or is an earlier try of the same `driver`.
    """
    left: dict[str, TwinlogError] = {}
    running: list[str] = []
    deleted = 0
    for run in read_ledger(flow, target).drills:
        opened = run.state is DrillState.OPEN
        tried_again = bool(driver) and run.driver == driver
        if opened and not tried_again and abs(now_ms - run.at_ms) < SILENT_MS:
            running.append(run.run)
        elif opened or run.clones:
            refused = delete(target, run)
            left |= refused
            deleted += len(run.clones) - len(refused)
            kept = tuple(clone for clone in run.clones if clone in refused)
            state = DrillState.KILLED if opened else run.state
            write_ledger(flow, target, [replace(run, clones=kept, state=state)])
    drills = read_ledger(flow, target).drills
    over = max(0, len(drills) - MOST_RUNS + 1)  # they make room for one more; one with clones stays
    write_ledger(flow, target, (), [drill for drill in drills[:over] if not drill.clones])
    return Tidied(deleted, left, tuple(running))
