"""Hold what all steps of a procedure work on: the flow, its clusters, the tools, and what the steps before found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from twinlog import clock
from twinlog.audit.comparison.record_fields import RawRecord
from twinlog.audit.lane import AuditRunner, LocalAuditRunner
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.copy import LaneRunner
from twinlog.formats.ledger.recovery import Answered, JournalEntry, RecoveryRun, StepState, TailExported
from twinlog.gate.answer import GateCheck
from twinlog.gate.ask import GateFacts
from twinlog.gate.at_source import Moving
from twinlog.gate.evidence import Seal
from twinlog.jsonable import Json
from twinlog.judge.check import Mode
from twinlog.logs.partition_reader import Lost
from twinlog.procedure import Outcome, StepName, StepReport, Told, learned, silent
from twinlog.recovery.journal import Journal
from twinlog.recovery.one_sided.divergence import Divergence
from twinlog.recovery.one_sided.files import WrittenFile
from twinlog.recovery.one_sided.read import Read, Stretch
from twinlog.recovery.procedure import Actor, Tail
from twinlog.recovery.report import PlacedGroup, TopicAtRisk
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps.loss import Loss
from twinlog.recovery.transitions import Move, require_held
from twinlog.state.ledger import Ledger, read_ledger


class Answer(StrEnum):
    """The answer to the question whether to promote: nobody may be there to give one."""

    YES = "yes"
    NO = "no"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Tools:
    """Tell what the steps work with, other than the clusters.

    `copies` opens a runner of lanes when there is something to copy, `audits` one of an audit.  `approve` puts a
    question to a person.  `told` hears of every step that begins or ended.  `seal` is for the evidence.  `agreed` is
    the cost to which a person has said yes beforehand: another one is asked anew.
    `reverse` is the enabled flow in the other direction, for a planned failover.
    """

    copies: Callable[[], LaneRunner]
    approve: Callable[[str], Answer]
    sleep: Callable[[float], None]
    seal: Seal
    audits: Callable[[], AuditRunner] = LocalAuditRunner
    told: Told = silent
    agreed: str = ""
    reverse: Way | None = None


def _nothing_to_copy() -> LaneRunner:
    raise AssertionError("a dry run copies nothing")


def _nothing_to_read(_stretch: Stretch, _start: int) -> Iterator[RawRecord | Lost]:
    raise AssertionError("a failover reads no record that one side alone has")


LOOKING = Tools(_nothing_to_copy, lambda _question: Answer.NOBODY, time.sleep, Seal("", ""))
"""The tools of a process that changes nothing."""


@dataclass(frozen=True, slots=True)
class Request:
    """Tell who asks, and for what; with `dry_run` nothing is changed.

    `mode` is that of a failover, `tail` what becomes, on the way home, of records that the source alone has.
    `driver`, if there is one, is what the names of the processes that work for one request begin with.  Of the steps
    that are left, `only` these are done, all if it is empty.  `found` is what an earlier process has found, for the
    evidence: `topics` and `groups` as JSON.
    """

    by: str
    mode: Mode = Mode.PLANNED
    tail: Tail | None = None
    dry_run: bool = False
    driver: str = ""
    only: frozenset[StepName] = frozenset()
    found: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """What the steps of a run have found in this process; on the way home it is one for both flows.

    `topics` are the records at risk, and `groups` the places, by the last look.  `shut` are the topics to which the
    source let nobody write once the fence was done, `watched` what the fence saw of its ends; `drained`: every record
    of the source was seen on the target after that.  `observed` is what was read of the clusters, for the gate too,
    `forbidding` the checks that a dry run found to fail.  `cost` is what a yes costs, `answered` what was said to that.
    `apart` is what each side alone has, `exported` and `files` where it was saved.  `notes` are for the evidence.
    """

    topics: tuple[TopicAtRisk, ...] = ()
    groups: tuple[PlacedGroup, ...] = ()
    shut: tuple[str, ...] = ()
    watched: Moving | None = None
    drained: bool = False
    loss: Loss | None = None
    observed: GateFacts | None = None
    forbidding: tuple[GateCheck, ...] = ()
    cost: str = ""
    answered: Answered | None = None
    apart: Divergence | None = None
    exported: tuple[TailExported, ...] = ()
    files: tuple[WrittenFile, ...] = ()
    evidence: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class World:
    """One process's view of a procedure: what it works on, and what the steps before have found.

    `flow` acts on behalf of the run: it alone may copy while the flow is failing over.  On the way home `reverse` is
    the world of the flow that copies home: it is failed over.  `failover` is the one from which a way home, or a mere
    save, comes back, `read` reads what one side alone has, `homeward` is the flow that would bring it home.
    """

    flow: FlowSettings
    clusters: Clusters
    tools: Tools
    journal: Journal
    request: Request
    run: str
    mode: Mode = Mode.PLANNED
    reverse: World | None = None
    failover: str = ""
    read: Read = _nothing_to_read
    homeward: FlowSettings | None = None
    steps: tuple[StepReport, ...] = ()
    found: Found = Found()

    @classmethod
    def of(
        cls,
        way: Way,
        request: Request,
        tools: Tools,
        actor: Actor,
        run: str = "",
        *,
        ask_source: bool = False,
    ) -> World:
        """Return a flow as the process of `actor` sees it: it copies for this run alone."""
        flow = replace(way.flow, recovery_run=run)
        journal = Journal(flow, way.clusters, actor, ask_source)
        return cls(flow, way.clusters, tools, journal, request, run)

    def after(self, row: StepReport, outcome: Outcome) -> World:
        """Return the world as it is for the step behind this one."""
        return replace(self, steps=(*self.steps, row), found=outcome.found or self.found)

    def noting(self, outcome: Outcome, *notes: str) -> Outcome:
        """Return an outcome that leaves notes for the evidence."""
        return learned(outcome, replace(self.found, notes=(*self.found.notes, *notes)))

    @property
    def back(self) -> World:
        """The world of the flow that copies home."""
        assert self.reverse is not None
        return replace(self.reverse, found=self.found)

    @property
    def way(self) -> Way:
        """The flow and its clusters."""
        return Way(self.flow, self.clusters)

    @property
    def ledger(self) -> Ledger:
        """The flow's ledger, as it is now.  Raises errors of the target."""
        return read_ledger(self.flow, self.clusters.target)

    @property
    def noted(self) -> RecoveryRun | None:
        """The run, as the flow's ledger has it now."""
        return self.ledger.recovery(self.run)

    def move(self, decide: Callable[[RecoveryRun, Ledger], Move | None]) -> None:
        """Write a move of the run that this process holds.  Raises FencedError `relieved`, and errors of the target."""
        name, actor = self.flow.name, self.journal.actor
        self.journal.move(lambda now: decide(require_held(name, now, actor, self.run), now))

    def write(
        self,
        step: StepName,
        outcome: Outcome,
        began: float,
        decide: Callable[[RecoveryRun, Ledger, JournalEntry], Move],
    ) -> Outcome:
        """Write what a step decides together with its entry; it `began` at this `time.monotonic()`."""

        def move(run: RecoveryRun, now: Ledger) -> Move:
            entry = self.entry(step, outcome.state, time.monotonic() - began, outcome.message)
            return decide(run, now, entry)

        self.move(move)
        return outcome

    def entry(self, step: StepName, state: StepState, seconds: float, message: str) -> JournalEntry:
        """Return a step's entry in the journal, as of now."""
        actor = self.journal.actor
        return JournalEntry(
            step.value, state, clock.now_ms(), round(seconds, 3), actor.by, message, actor.host
        )
