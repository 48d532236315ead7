"""Duties over clusters in memory: what became of each is said as it is."""

import threading
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cluster import FakeCluster

from twinlog.audit.verdict import AuditVerdict
from twinlog.cluster.api import Clusters
from twinlog.config.file.providers import Secret
from twinlog.duties import run as module
from twinlog.duties.plan import DutyName, DutyReport, DutyState, Outcome
from twinlog.duties.run import Duties, audit_outcome
from twinlog.errors import ClusterUnreachable
from twinlog.follow import background
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import DrillRun, DrillState
from twinlog.metadata.values import MetadataPlan
from twinlog.topics.plan import Refusal


@pytest.fixture
def clusters() -> Clusters:
    return Clusters(FakeCluster("A"), FakeCluster("B"))


@pytest.fixture
def failed() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def duties(flow, failed) -> Duties:
    return Duties(flow, "run", lambda name, message: failed.append((name.value, message)))


@pytest.fixture
def planned(monkeypatch):
    """Let every plan of the metadata be this one, and its application refuse this."""

    def plan(changes: tuple = (), refused: tuple = (), notes: tuple = ()) -> list[object]:
        applied: list[object] = []

        def apply(flow, plan, target):
            applied.append(plan)
            done = () if refused else changes
            return SimpleNamespace(refused=refused, applied=done, drift=(), notes=notes)

        made = MetadataPlan(flow="A->B", profile=SimpleNamespace(value="standby"), changes=changes)
        monkeypatch.setattr(module.sync, "make_plan", lambda *_: made)
        monkeypatch.setattr(module.sync, "apply", apply)
        return applied

    return plan


def test_a_duty_that_met_a_cluster_that_is_away_has_its_next_turn_soon(
    duties: Duties, clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was repeated after its interval of ten minutes, and a run that ended before ended with exit code 1."""
    ended, turns = threading.Event(), list[int]()
    enough = threading.Timer(10, ended.set)
    enough.start()

    def step(_: DutyName) -> Any:
        def away(_: Clusters) -> Outcome:
            turns.append(1)
            if len(turns) == 1:
                raise ClusterUnreachable("B is away", cluster="B")
            ended.set()
            return Outcome(DutyState.DONE)

        return away

    monkeypatch.setattr(background, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(background, "open_clusters", lambda _: nullcontext(clusters))
    monkeypatch.setattr(Duties, "_step", lambda _, name: step(name))
    (turn, *_) = background.duty_turns(duties)
    background._keep_turns(duties.flow, [turn], lambda *_: None, ended, 0.0)
    enough.cancel()
    assert (2, DutyState.DONE) == (len(turns), duties.done[DutyName(turn.name)].state)


def row(duties: Duties, name: DutyName) -> tuple[DutyState, str]:
    (found,) = [it for it in duties.rows if it.name == name.value]
    return found.state, found.message


class TestMetadata:
    """Topic configs, ACLs, quotas and users."""

    def test_what_was_changed_is_counted(self, duties, clusters, planned) -> None:
        """Also if that is nothing."""
        planned(changes=("one", "two"))
        duties.do(DutyName.TOPIC_CONFIGS, clusters)
        assert (DutyState.DONE, "2 changed, 0 left as they are") == row(duties, DutyName.TOPIC_CONFIGS)

    def test_a_note_about_replicas_skips_no_configs(self, duties, clusters, planned) -> None:
        """The configs were synced; that copies get fewer replicas is told beside it."""
        planned(notes=("replication.factor is 2; copies get 1: B has 1 broker",))
        duties.do(DutyName.TOPIC_CONFIGS, clusters)
        told = "0 changed, 0 left as they are; replication.factor is 2; copies get 1: B has 1 broker"
        assert (DutyState.DONE, told) == row(duties, DutyName.TOPIC_CONFIGS)

    def test_what_a_person_approves_is_only_reported(self, flow, failed, clusters, planned) -> None:
        """Nothing is applied."""
        applied = planned(changes=("one",))
        careful = replace(flow, metadata=replace(flow.metadata, approval=True))
        duties = Duties(careful, "run", lambda name, message: failed.append((name, message)))
        duties.do(DutyName.TOPIC_ACLS, clusters)
        state, message = row(duties, DutyName.TOPIC_ACLS)
        assert (DutyState.SKIPPED, True, [], []) == (state, "wait for a person" in message, applied, failed)

    def test_what_the_target_refuses_is_a_failure(self, duties, failed, clusters, planned) -> None:
        """Named by its first refusal."""
        planned(changes=("one",), refused=(Refusal("topic A.t: retention.ms", "unauthorised", "no"),))
        duties.do(DutyName.TOPIC_CONFIGS, clusters)
        expected = (DutyState.FAILED, "topic A.t: retention.ms: no")
        assert (expected, 1) == (row(duties, DutyName.TOPIC_CONFIGS), len(failed))

    def test_a_cluster_without_acls_is_no_success(self, duties, clusters, planned) -> None:
        """The note says why nothing was done."""
        planned(notes=("A has no authorizer",))
        duties.do(DutyName.TOPIC_ACLS, clusters)
        assert (DutyState.SKIPPED, "A has no authorizer") == row(duties, DutyName.TOPIC_ACLS)

    def test_a_failure_stops_no_other_duty(self, duties, failed, clusters, monkeypatch) -> None:
        """Each has its own row."""

        def unreachable(*_):
            raise ClusterUnreachable("B does not answer", cluster="B")

        monkeypatch.setattr(module, "read_ledger", unreachable)
        duties.do_all(clusters)
        states = {it.name: it.state for it in duties.rows}
        assert {
            "topic_configs": DutyState.FAILED,
            "topic_acls": DutyState.FAILED,
            "quotas": DutyState.OFF,
            "schemas": DutyState.OFF,
            "audit": DutyState.FAILED,
            "alarms": DutyState.OFF,
        } == states
        assert ["topic_configs", "topic_acls", "audit"] == [name for name, _ in failed]


class TestAudit:
    """What an audit means for its duty."""

    @pytest.mark.parametrize(
        ("verdict", "state"),
        [
            (AuditVerdict.EQUAL, DutyState.DONE),
            (AuditVerdict.NOTHING_TO_COMPARE, DutyState.SKIPPED),
            (AuditVerdict.NOTHING_COMPARED, DutyState.FAILED),
            (AuditVerdict.NOT_AUDITED, DutyState.FAILED),
            (AuditVerdict.DIFFERENT, DutyState.FAILED),
        ],
    )
    def test_done_is_only_what_was_compared_and_is_equal(self, verdict, state) -> None:
        """Every verdict."""
        result = SimpleNamespace(verdict=verdict, records=3, problems=(), difference_count=0)
        assert state is audit_outcome(result).state

    def test_one_that_is_not_due_is_not_done(self, flow, clusters) -> None:
        """Nor does it take the place of the one before in the report."""
        duties = Duties(flow, "run", print, audited_ms=4 * 10**12)
        duties.do(DutyName.AUDIT, clusters)
        assert (DutyState.SKIPPED, "not due yet by 45 * * * *") == row(duties, DutyName.AUDIT)

    @pytest.mark.parametrize(
        ("before", "state"), [([], DutyState.SKIPPED), ([DutyState.FAILED], DutyState.FAILED)]
    )
    def test_one_that_met_a_cluster_that_is_away_is_no_bad_news_later(
        self, flow, clusters, monkeypatch, before, state
    ) -> None:
        """Unless an audit had found differences: those stay."""
        duties = Duties(flow, "run", lambda *_: None, audited_ms=4 * 10**12)
        for it in before:
            duties.done[DutyName.AUDIT] = DutyReport("audit", it, 0.0, "2 differences")

        def away(*_: Any) -> Outcome:
            raise ClusterUnreachable("B is away", cluster="B")

        with monkeypatch.context() as patched:
            patched.setattr(Duties, "_audit", away)
            assert duties.do(DutyName.AUDIT, clusters)
        duties.do(DutyName.AUDIT, clusters)
        assert state is row(duties, DutyName.AUDIT)[0]
        before = DutyReport("audit", DutyState.DONE, 1.0, "3 records are equal")
        duties.done[DutyName.AUDIT] = before
        duties.do(DutyName.AUDIT, clusters)
        assert before in duties.rows

    @pytest.mark.parametrize("phase", [FlowPhase.FAILING_OVER, FlowPhase.PROMOTED, FlowPhase.FAILING_BACK])
    def test_a_flow_that_was_failed_over_has_none(self, flow, clusters, monkeypatch, phase) -> None:
        """Nothing is copied, and a lost source could not be read; it is asked again when an audit is due again."""
        audits: list[str] = []
        monkeypatch.setattr(module.audit, "run", lambda *_: audits.append("audited"))
        monkeypatch.setattr(module, "read_ledger", lambda *_: SimpleNamespace(phase=phase, audits=()))
        duties = Duties(flow, "run", print)
        duties.do(DutyName.AUDIT, clusters)
        assert ((DutyState.SKIPPED, f"the flow is {phase.value}"), []) == (
            row(duties, DutyName.AUDIT),
            audits,
        )


class TestAlarms:
    """What is over its RPO."""

    @pytest.fixture
    def sent(self, monkeypatch) -> list[str]:
        taken: list[str] = []
        monkeypatch.setattr(module.alarm, "send", lambda url, flow, text, run: taken.append(text) or "")
        return taken

    @pytest.fixture
    def alarmed(self, flow) -> Duties:
        gate = replace(flow.gate, alert_url=Secret("http://alarm"))
        return Duties(replace(flow, gate=gate), "run", lambda *_: None)

    def test_a_copy_that_nobody_reports_on_is_an_alarm(self, alarmed, clusters, sent) -> None:
        """As soon as the strictest RPO has passed."""
        assert Outcome(DutyState.DONE, "nothing is over its RPO") == alarmed._alarms(clusters)
        alarmed.reported -= 301
        alarmed.do(DutyName.ALARMS, clusters)
        assert ["no report for 301 s: what was written since is not known to be copied"] == sent
        assert Outcome(DutyState.DONE, "told before") == alarmed._alarms(clusters)

    def test_the_alarms_of_every_report_are_sent_once(self, alarmed, clusters, monkeypatch) -> None:
        """As soon as the address takes them."""
        taken: list[str] = []
        answers = iter(("no route", "", ""))
        monkeypatch.setattr(module.alarm, "send", lambda *it: taken.append(it[2]) or next(answers))
        for name in "xy":
            report = SimpleNamespace(alarms=(name,), topics=(), undecided=())
            alarmed.note(report)
        for _ in range(3):
            alarmed.do(DutyName.ALARMS, clusters)
        assert ["x; y", "x; y"] == taken

    def test_a_process_that_begins_to_lead_has_its_time(self, alarmed, clusters, sent) -> None:
        """What was before says nothing of now."""
        alarmed.reported -= 301
        alarmed.begin()
        alarmed.do(DutyName.ALARMS, clusters)
        assert [] == sent

    def test_drills_that_failed_or_are_missing_are_alarms(self, alarmed, clusters, sent, monkeypatch) -> None:
        """Once, beside those of the copy; an unreadable ledger holds nothing up, and the next turn tells."""
        old = DrillRun("drill-1", DrillState.FAILED, "jo", 7, 7, message="no record")
        aged = replace(alarmed.flow.failover, drill_age_seconds=60)
        alarmed.flow = replace(alarmed.flow, failover=aged)

        def unreachable(*_: object) -> None:
            raise ClusterUnreachable("B does not answer", cluster="B")

        monkeypatch.setattr(module, "read_ledger", unreachable)
        alarmed.do(DutyName.ALARMS, clusters)
        assert [] == sent
        ledger = SimpleNamespace(drills=(old,), phase=FlowPhase.ACTIVE)
        monkeypatch.setattr(module, "read_ledger", lambda *_: ledger)
        alarmed.do(DutyName.ALARMS, clusters)
        alarmed.do(DutyName.ALARMS, clusters)
        text = "drill drill-1 failed: no record; no drill that the ledger knows has passed: "
        assert [text + "twinlog.drill.age.seconds=60"] == sent
