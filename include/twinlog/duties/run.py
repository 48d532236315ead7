"""Do the duties of a flow beside its copy, and keep what became of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from twinlog import clock
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.audit.result import AuditResult
from twinlog.audit.verdict import AuditVerdict
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.duties.plan import (
    SUBJECTS,
    DutyName,
    DutyReport,
    DutyState,
    Outcome,
    every,
    turned_off,
)
from twinlog.errors import TransientError, TwinlogError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.metadata import sync
from twinlog.metadata.subjects import Subject
from twinlog.monitoring import alarm
from twinlog.monitoring.cycle_report import FlowReport
from twinlog.schemas import sync as schemas
from twinlog.schemas.sync import SchemaSync
from twinlog.state.ledger import Ledger, read_ledger, require_own
from twinlog.visible import and_more, singular

OnFailure = Callable[[DutyName, str], None]


@dataclass(slots=True)
class Duties:
    """The duties of one flow in one process.

    `missed` are those whose turns all met a cluster that was away.
    `report` is the newest report on the copy, at `reported` (monotonic seconds; at first the start of the process).
    `news` are the alarms of reports that were not sent yet, `told` is what was said of a missing report.
    `audited_ms` is when the flow was audited last (epoch ms), None if that was not asked yet; `unaudited_ms` stands for
    it if the flow was never audited: 0 makes an audit due at once.  `drills_ms` is when the drills were last looked
    at: at first whatever they say is new.
    """

    flow: FlowSettings
    run_id: str
    on_failure: OnFailure
    done: dict[DutyName, DutyReport] = field(default_factory=dict)
    missed: set[DutyName] = field(default_factory=set)
    report: FlowReport | None = None
    reported: float = field(default_factory=time.monotonic)
    news: tuple[str, ...] = ()
    told: Mapping[str, Any] = field(default_factory=dict)
    audited_ms: int | None = None
    unaudited_ms: int = 0
    drills_ms: int = 0

    def note(self, report: FlowReport) -> None:
        """Take note of a report on the copy, for the alarms."""
        self.report, self.reported, self.told = report, time.monotonic(), {}
        self.news += report.alarms

    def begin(self) -> None:
        """Begin to lead the flow: what was reported before says nothing of now."""
        self.report, self.reported = None, time.monotonic()
        self.audited_ms, self.unaudited_ms = None, clock.now_ms()

    @property
    def rows(self) -> tuple[DutyReport, ...]:
        """Return what became of each duty: the last turn of those that had one, and those that are off."""
        rows = {duty.name: duty for duty in (*turned_off(self.flow), *self.done.values())}
        return tuple(rows[name.value] for name in DutyName if name.value in rows)

    def do_all(self, clusters: Clusters) -> None:
        """Do every duty that is on, once; an audit only if it is due."""
        for name in every(self.flow):
            self.do(name, clusters)

    def do(self, name: DutyName, clusters: Clusters) -> bool:
        """Do one duty; return whether it failed by what may pass, such as a cluster that is away.

        A failure is kept, told to `on_failure`, and raises nothing.
        """
        began, may_pass = time.monotonic(), False
        try:
            outcome = self._step(name)(clusters)
        except TwinlogError as error:
            outcome, may_pass = Outcome(DutyState.FAILED, error.message), isinstance(error, TransientError)
        except Exception as error:  # noqa: BLE001 - a mistake in one duty is not the copy's end
            outcome = Outcome(DutyState.FAILED, f"{type(error).__name__}: {error}")
        if outcome is None:
            return False
        if outcome.state is DutyState.FAILED:
            self.on_failure(name, outcome.message)
        if may_pass and name not in self.done:
            self.missed.add(name)
        elif not may_pass:
            self.missed.discard(name)
        seconds = round(time.monotonic() - began, 3)
        self.done[name] = DutyReport(name.value, outcome.state, seconds, outcome.message)
        return may_pass

    def _step(self, name: DutyName) -> Callable[[Clusters], Outcome | None]:
        if name is DutyName.AUDIT:
            return self._audit
        if name is DutyName.ALARMS:
            return self._alarms
        if name is DutyName.SCHEMAS:
            return self._schemas
        return lambda clusters: self._sync(clusters, SUBJECTS[name])

    def _sync(self, clusters: Clusters, subject: Subject) -> Outcome:
        """Bring one subject to the target, as the Dag sync_metadata__A__B does."""
        flow, ledger = self.flow, self._own_ledger(clusters)
        if ledger.phase is not FlowPhase.ACTIVE:
            return Outcome(DutyState.SKIPPED, f"the flow is {ledger.phase.value}")
        plan = sync.make_plan(flow, clusters, frozenset({subject}), ledger)
        if flow.metadata.approval and plan.changes:
            waiting = f"{len(plan.changes)} changes wait for a person: twinlog metadata plan, then apply"
            return Outcome(DutyState.SKIPPED, waiting)
        result = sync.apply(flow, plan, clusters.target)
        if result.refused:
            first = result.refused[0]
            more = and_more(len(result.refused), form=", and {} more")
            return Outcome(DutyState.FAILED, f"{first.name}: {first.message}{more}")
        if subject is Subject.ACLS and result.notes and not result.applied:
            return Outcome(DutyState.SKIPPED, result.notes[0])
        told = f"{len(result.applied)} changed, {len(result.drift)} left as they are"
        return Outcome(DutyState.DONE, "; ".join([told, *result.notes[:1]]))

    def _schemas(self, clusters: Clusters) -> Outcome:
        """Bring subjects to the target's schema registry; what is in the way is a failure that names it."""
        phase = self._own_ledger(clusters).phase
        if phase is not FlowPhase.ACTIVE:
            return Outcome(DutyState.SKIPPED, f"the flow is {phase.value}")
        return schemas_outcome(schemas.run(self.flow, clusters))

    def _own_ledger(self, clusters: Clusters) -> Ledger:
        ledger = read_ledger(self.flow, clusters.target)
        require_own(self.flow, ledger, clusters.source.cluster_id(), clusters.target.cluster_id())
        return ledger

    def _audit(self, clusters: Clusters) -> Outcome | None:
        """Compare what is new since the last audit, as the Dag audit__A__B does; None if that is not due yet."""
        if self.audited_ms is None:
            audits = read_ledger(self.flow, clusters.target).audits
            self.audited_ms = max(
                (partition_audit.at_ms for partition_audit in audits), default=self.unaudited_ms
            )
        now = clock.now_ms()
        if not clock.is_due(self.flow.audit.schedule, self.audited_ms, now):
            if DutyName.AUDIT in self.done and DutyName.AUDIT not in self.missed:
                return None
            return Outcome(DutyState.SKIPPED, f"not due yet by {self.flow.audit.schedule}")
        if (phase := read_ledger(self.flow, clusters.target).phase).out_of_service:
            # Nothing is copied, and a lost source could not be read.
            self.audited_ms = now
            return Outcome(DutyState.SKIPPED, f"the flow is {phase.value}")
        result = audit.run(self.flow, clusters, LocalAuditRunner())
        self.audited_ms = now
        return audit_outcome(result)

    def _alarms(self, clusters: Clusters) -> Outcome:
        """Send what is new: reports over an RPO, none for longer than the strictest one, drills."""
        faults = alarm.over(self.flow, self.report, time.monotonic() - self.reported)
        lines, self.told = alarm.news(faults if "" in faults else {}, self.told, clock.now_ms())
        found, self.news = (*self.news, *lines), ()
        drills = self._drills(clusters)
        url = self.flow.gate.alert_url
        text = "; ".join(found)
        if found:
            self.on_failure(DutyName.ALARMS, f"RPO ALERT: {text}")
        if drills:
            self.on_failure(DutyName.ALARMS, f"DRILL ALERT: {'; '.join(drills)}")
            text = "; ".join([*found, *drills])
        if url is None:
            return Outcome(DutyState.OFF, text or "twinlog.alert.url is not set")
        if not text:
            return Outcome(DutyState.DONE, "told before" if faults else "nothing is over its RPO")
        trouble = alarm.send(url, self.flow.name, text, self.run_id)
        if trouble:
            self.news = found
        return Outcome(DutyState.FAILED, trouble) if trouble else Outcome(DutyState.DONE, f"sent: {text}")

    def _drills(self, clusters: Clusters) -> list[str]:
        """Return the alarms of drills that are new since the last turn; if the ledger cannot be read, the next asks."""
        if self.flow.gate.alert_url is None and self.flow.failover.drill_age_seconds is None:
            return []  # nobody asked to be told, and the ledger costs a question
        now = clock.now_ms()
        try:
            ledger = read_ledger(self.flow, clusters.target)
        except TwinlogError:  # the target is gone: an alarm about the copy must go out all the same
            return []
        since, self.drills_ms = self.drills_ms, now
        if ledger.phase.out_of_service:
            return []
        failed = alarm.failed_drill(ledger.drills, since, now)
        return [*failed, *alarm.drill_overdue(self.flow, ledger.drills, since, now)]


def audit_outcome(result: AuditResult) -> Outcome:
    """Return what an audit means for its duty: done is only what was compared and is equal.  Pure."""
    match result.verdict:
        case AuditVerdict.EQUAL:
            return Outcome(DutyState.DONE, singular(f"{result.records:,} records are equal"))
        case AuditVerdict.NOTHING_TO_COMPARE:
            return Outcome(DutyState.SKIPPED, "there is nothing to compare")
        case _:
            reasons = [problem.message for problem in result.problems[:3]]
            found = f"the copy is not called equal, {result.difference_count} differences"
            return Outcome(DutyState.FAILED, "; ".join([found, *reasons]))


def schemas_outcome(plan: SchemaSync) -> Outcome:
    """Return what a sync of schemas means for its duty: done is only what holds all of the source's.  Pure."""
    if plan.conflicts:
        first = plan.conflicts[0]
        told = f"{first.subject}: {first.message} ({first.code})"
        return Outcome(DutyState.FAILED, f"{told}{and_more(len(plan.conflicts))}; the others are copied")
    notes = f"; {plan.notes[0]}" if plan.notes else ""
    return Outcome(DutyState.DONE, f"{plan.changes} changed, {plan.subjects} subjects{notes}")
