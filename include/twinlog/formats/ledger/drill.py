"""Define what a drill keeps in the ledger: its cloned groups, before they exist, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from twinlog.formats.ledger.entry import LedgerEntry


class DrillState(StrEnum):
    """Name how a drill ended.

    `waiting`: nothing was proved, since nothing was there to be read; `killed`: its process died, and a later drill
    has deleted its groups.
    """

    OPEN = "open"
    PASSED = "passed"
    FAILED = "failed"
    WAITING = "waiting"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class DrillRun(LedgerEntry):
    """One drill, begun by `by`; `at_ms` is when its process was last heard of.

    `clones` are the groups that it may have left on the target: all of them are written here before the first is
    committed, and none once they are deleted.  `groups` counts the groups that were read on the target.  `driver`
    names what drills, such as a Dag run: the next try of it knows that this one is over.
    """

    KIND: ClassVar[str] = "drill"
    IDENTITY: ClassVar[tuple[str, ...]] = ("run",)
    run: str
    state: DrillState
    by: str
    started_ms: int
    at_ms: int
    clones: tuple[str, ...] = ()
    groups: int = 0
    rto_seconds: float | None = None
    rpo_seconds: float | None = None
    message: str = ""
    driver: str = ""


def last_proof(drills: Iterable[DrillRun]) -> DrillRun | None:
    """Return the newest drill that has proved something, one way or the other.  Pure."""
    ended = (it for it in drills if it.state in {DrillState.PASSED, DrillState.FAILED})
    return max(ended, key=lambda it: it.at_ms, default=None)
