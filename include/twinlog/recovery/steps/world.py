"""Hold what all steps of a procedure work on: the flow, its clusters, the tools, and what was found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from twinlog import clock
from twinlog.audit.comparison.record_fields import RawRecord
from twinlog.audit.lane import AuditRunner, LocalAuditRunner
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.copy import LaneRunner
from twinlog.formats.ledger.recovery import Answered, JournalEntry, RecoveryRun, StepState, TailExported
from twinlog.gate.answer import GateCheck
from twinlog.gate.ask import Observed
from twinlog.gate.evidence import Seal
from twinlog.jsonable import Json
from twinlog.judge.check import Mode
from twinlog.logs.partition_reader import Lost
from twinlog.procedure import StepName, StepReport, Told, silent
from twinlog.recovery.journal import Journal
from twinlog.recovery.one_sided.divergence import Divergence
from twinlog.recovery.one_sided.files import WrittenFile
from twinlog.recovery.one_sided.read import Read, Stretch
from twinlog.recovery.procedure import Tail
from twinlog.recovery.report import PlacedGroup, TopicAtRisk
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps.loss import Loss
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


@dataclass(slots=True)
class World:
    """One process's view of a procedure: what it works on, and what its steps have found.

    `flow` acts on behalf of the run: it alone may copy while the flow is failing over.  On the way home `reverse` is
    the world of the flow that copies home: it is failed over.  `failover` is the one from which a way home, or a mere
    save, comes back, `read` reads what one side alone has, `homeward` is the flow that would bring it home.

    `proved_drained` says that in this process every record of the source was seen on the target, after the producers
    had stopped; `shut` are the topics to which the source let nobody write then.  `cost` is what a yes costs,
    `answered` what was said to that, `seen` what a dry run has read of both clusters, `forbidding` the checks that it
    found to fail.  `apart` is what each side alone has, `exported` and `files` where it was saved.
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
    steps: list[StepReport] = field(default_factory=list)
    topics: tuple[TopicAtRisk, ...] = ()
    groups: tuple[PlacedGroup, ...] = ()
    loss: Loss | None = None
    proved_drained: bool = False
    shut: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    cost: str = ""
    answered: Answered | None = None
    seen: Observed | None = None
    forbidding: tuple[GateCheck, ...] = ()
    apart: Divergence | None = None
    exported: tuple[TailExported, ...] = ()
    files: list[WrittenFile] = field(default_factory=list)
    evidence: str = ""

    @property
    def back(self) -> World:
        """The world of the flow that copies home."""
        assert self.reverse is not None
        return self.reverse

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

    def entry(self, step: StepName, state: StepState, seconds: float, message: str) -> JournalEntry:
        """Return a step's entry in the journal, as of now."""
        actor = self.journal.actor
        return JournalEntry(
            step.value, state, clock.now_ms(), round(seconds, 3), actor.by, message, actor.host
        )
