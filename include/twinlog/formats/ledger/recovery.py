"""Define what a failover keeps in the ledger: its run with a journal, the plan of rights it needs, and drills of it.

A run is written behind the flow's fence, in one transaction with the flow's state.  Its journal is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.kafka_types import OfIncarnation

FAILBACK = "failback"
"""The mode of a run that brings a promoted flow home; a failover's are those of the gate."""


class RunState(StrEnum):
    """Name where a failover stands: under way, promoted, aborted before that, or returned: the flow follows again."""

    OPEN = "open"
    PROMOTED = "promoted"
    ABORTED = "aborted"
    RETURNED = "returned"


class StepState(StrEnum):
    """The outcome of one step: `planned` is what a dry run would do, `waiting` waits for a person."""

    DONE = "done"
    SKIPPED = "skipped"
    WAITING = "waiting"
    FAILED = "failed"
    PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A step ended in `state` at `at_ms`, after `seconds`; `by` names the person whose process did it, on `host`.

    Earlier releases kept no host: "".
    """

    step: str
    state: StepState
    at_ms: int
    seconds: float
    by: str
    message: str
    host: str = ""


@dataclass(frozen=True, slots=True)
class DeniedWrite:
    """An ACL on the source that twinlog made for this run: `principal` may not WRITE to a topic.

    With `keeps_rest` no ACL was about the topic, and everybody might use it: an ALLOW ALL beside the denial keeps that.
    """

    topic: str
    principal: str
    host: str
    keeps_rest: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """What `by` has said to the question whether to promote, which named what a yes would `cost`.

    `known` records were known to be lost then.  `known_by` says how the person is known.  `driver` names for what it
    was asked, such as a Dag run: it counts for nothing else.  `others` have said yes to the same cost before.
    """

    by: str
    known_by: str
    yes: bool
    cost: str
    known: int
    driver: str = ""
    others: tuple[str, ...] = ()

    @property
    def yes_of(self) -> tuple[str, ...]:
        """Everybody who has said yes to this cost, the last one first."""
        return (self.by, *self.others) if self.yes else ()


@dataclass(frozen=True, slots=True)
class RecoveryRun(LedgerEntry):
    """One failover of the flow, or its way home from one, from its start by `by` to its end.

    `holder` is the process that goes on with it: a process that finds another name here has been relieved.  `denied`
    are written before the ACLs are made, so that an abort removes all of them and no others.  `denying` is the process
    that makes them, until it has said that they are made: it may stall, and make them after others have removed them.

    `known` records were known to be lost with the source; `at_risk_records` were all of them.  Either is None if it is
    not known: what came after the last cycle is in no number.  `cleared` says that nothing is
    left to do after the promotion.  `evidence` is the file that tells of the run, `evidence_sha256` its digest.
    `begun_as` is the mode it was begun in, once it was taken up again.  `answered` is the answer to the question as it
    was put last.
    `groups_at_ms`, `consistent_cut` and `untold` were ways to fail over in earlier releases (`left_way`).

    Of mode `failback` there are two runs of one name.  That of the promoted flow has the `failover` it comes back from,
    and is promoted once its source is.  That of the reverse flow, which copies home, ends when that flow follows again.
    It names the flow that goes `home`, and remembers the denials that the failover has made on the reverse flow's
    target.  If its source is lost on the way, it goes on as a failover of mode `source-dead`.
    """

    KIND = "recovery"
    IDENTITY = ("run",)
    run: str
    mode: str
    state: RunState
    by: str
    holder: str
    started_ms: int
    at_ms: int
    promoted_ms: int | None = None
    ended_ms: int | None = None
    journal: tuple[JournalEntry, ...] = ()
    denied: tuple[DeniedWrite, ...] = ()
    at_risk_records: int | None = None
    rpo_seconds: float | None = None
    cleared: bool = False
    evidence: str = ""
    evidence_sha256: str = ""
    failover: str = ""
    groups_at_ms: int | None = None
    home: str = ""
    denied_on_target: tuple[DeniedWrite, ...] = ()
    denying: str = ""
    consistent_cut: bool = False
    untold: bool = False

    @property
    def left_way(self) -> str:
        """Name how the run was to fail over, if that way has left twinlog; else ""."""
        if self.untold:
            return "before any way home had begun"
        if self.consistent_cut:
            return "with --consistent-cut"
        return "with --groups-at" if self.groups_at_ms is not None else ""

    known: int | None = None
    begun_as: str = ""
    answered: Answered | None = None

    @property
    def changed_mode(self) -> str:
        """Say, as a clause, that the run goes on in another mode than it was begun in; else ""."""
        if self.begun_as in {"", self.mode}:
            return ""
        return f"; begun as {self.begun_as} by {self.by}, goes on as {self.mode}"


@dataclass(frozen=True, slots=True)
class TailExported(OfIncarnation, LedgerEntry):
    """How far the never copied records of a source partition were exported after the failover `run`.

    It is written in the transaction of the exported records: upstream offsets from `first` to `next_offset`, of which
    `records` hold a record.
    """

    KIND = "tail"
    IDENTITY = ("topic", "partition")
    topic: str
    topic_id: str
    partition: int
    run: str
    first: int
    next_offset: int
    records: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class PromotionPlan(LedgerEntry):
    """The changes that profile `promoted` would make on the target, as of `at_ms`; `document` is a saved plan."""

    KIND = "promotion-plan"
    at_ms: int
    document: Mapping[str, Any]


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

    KIND = "drill"
    IDENTITY = ("run",)
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
    ended = (drill for drill in drills if drill.state in {DrillState.PASSED, DrillState.FAILED})
    return max(ended, key=lambda it: it.at_ms, default=None)
