"""Hold what the steps of one failover share: the flow, its clusters, the tools they are given, and what they found."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from twinlog import clock
from twinlog.audit.lane import AuditRunner, LocalAuditRunner
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.copy import LaneRunner
from twinlog.formats.ledger.recovery import JournalEntry, StepState
from twinlog.gate.answer import GateCheck
from twinlog.gate.ask import Observed
from twinlog.gate.evidence import Seal
from twinlog.jsonable import Json
from twinlog.judge.check import Mode
from twinlog.procedure import Outcome, StepName
from twinlog.recovery.journal import Journal
from twinlog.recovery.report import PlacedGroup, TopicAtRisk
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps.loss import Loss


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
    told: Callable[[StepName, Outcome | None], None] = lambda _name, _outcome: None
    agreed: str = ""
    reverse: Way | None = None


def _nothing_to_copy() -> LaneRunner:
    raise AssertionError("a dry run copies nothing")


LOOKING = Tools(_nothing_to_copy, lambda _question: Answer.NOBODY, time.sleep, Seal("", ""))
"""The tools of a process that changes nothing."""


@dataclass(slots=True)
class Scene:
    """One process's view of its failover.

    `flow` acts on behalf of the run: it alone may copy while the flow is failing over.  `proved_drained` says that in
    this process every record of the source was seen on the target, after the producers had stopped; `shut` are the
    topics to which the source let nobody write then.  `found` is what an earlier process has found, as JSON.
    `cost` is what a yes costs, `seen` what a dry run has read of both clusters, `forbidding` the
    checks that it found to fail.
    """

    flow: FlowSettings
    clusters: Clusters
    tools: Tools
    journal: Journal
    mode: Mode
    run: str
    topics: tuple[TopicAtRisk, ...] = ()
    groups: tuple[PlacedGroup, ...] = ()
    loss: Loss | None = None
    proved_drained: bool = False
    shut: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    found: Json = field(default_factory=dict)
    cost: str = ""
    seen: Observed | None = None
    forbidding: tuple[GateCheck, ...] = ()

    def entry(self, step: StepName, state: StepState, seconds: float, message: str) -> JournalEntry:
        """Return a step's entry in the journal, as of now."""
        actor = self.journal.actor
        return JournalEntry(
            step.value, state, clock.now_ms(), round(seconds, 3), actor.by, message, actor.host
        )
