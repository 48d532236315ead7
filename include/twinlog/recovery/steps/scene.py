"""Hold what the steps of one failover share: the flow, its clusters, the tools they are given, and what they found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from twinlog import clock
from twinlog.audit.lane import AuditRunner, LocalAuditRunner
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.copy import LaneRunner
from twinlog.formats.ledger.recovery import JournalEntry, StepState
from twinlog.gate.evidence import Seal
from twinlog.gate.suites.suites import Mode
from twinlog.recovery.journal import Journal
from twinlog.recovery.procedure import StepName
from twinlog.recovery.report import Outcome, PlacedGroup, TopicAtRisk
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

    `copies` opens a runner of lanes when there is something to copy.  `approve` puts a question to a person.  `told`
    hears of every step that begins or ended.  `seal` is for the evidence.
    `reverse` is the enabled flow in the other direction, for a planned failover.
    """

    copies: Callable[[], LaneRunner]
    approve: Callable[[str], Answer]
    sleep: Callable[[float], None]
    seal: Seal
    audits: AuditRunner = field(default_factory=LocalAuditRunner)
    told: Callable[[StepName, Outcome | None], None] = lambda _name, _outcome: None
    reverse: Way | None = None


@dataclass(slots=True)
class Scene:
    """One process's view of its failover.

    `flow` acts on behalf of the run: it alone may copy while the flow is failing over.  `proved_drained` says that in
    this process every record of the source was seen on the target, after the producers had stopped; `shut` are the
    topics to which the source let nobody write then.
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

    def entry(self, step: StepName, state: StepState, seconds: float, message: str) -> JournalEntry:
        """Return a step's entry in the journal, as of now."""
        actor = self.journal.actor
        return JournalEntry(
            step.value, state, clock.now_ms(), round(seconds, 3), actor.by, message, actor.host
        )
