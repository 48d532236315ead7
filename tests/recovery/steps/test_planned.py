"""Differences that an audit has found stop a planned failover, until a person takes the responsibility."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from recovery_world import World

from twinlog.audit.result import AuditedDifference
from twinlog.audit.verdict import AuditVerdict
from twinlog.config.flow.copying import RecreatedPolicy
from twinlog.errors import ClusterRefused
from twinlog.formats.ledger.accepted import Accepted
from twinlog.formats.ledger.audit import DifferenceKind
from twinlog.formats.ledger.records import Gap, GapCause
from twinlog.gate.at_source import Moving
from twinlog.kafka_types import Issue, TopicPartition
from twinlog.policy.selection import NameFilter
from twinlog.recovery.report import FailoverReport, State
from twinlog.recovery.steps import planned
from twinlog.recovery.steps.world import Answer
from twinlog.state.ledger import read_ledger, write_ledger

NOW = int(time.time() * 1000)
MISSING = AuditedDifference(
    kind=DifferenceKind.MISSING,
    upstream_offset=2,
    downstream_offset=None,
    message="its copy is not there",
    topic="orders",
    remote_topic="A.orders",
    partition=0,
)


def unequal(monkeypatch: pytest.MonkeyPatch, *, problems: tuple[Issue, ...] = (), count: int = 1) -> None:
    """Let audits find a record of `orders` missing."""
    result = SimpleNamespace(
        equal=False,
        verdict=AuditVerdict.DIFFERENT,
        differences=(MISSING,),
        difference_count=1,
        partitions=(
            SimpleNamespace(topic="orders", partition=0, differences=count),
            SimpleNamespace(topic="idle", partition=0, differences=0),
        ),
        problems=problems,
    )
    monkeypatch.setattr(planned.audit, "run", lambda *_: result)


def accept(world: World, subject: str, *, until_ms: int = NOW + 10**7, up_to: int = 1) -> None:
    yes = Accepted("audit-equal", subject, "it is a test record", "jo", "a login", NOW, until_ms, up_to)
    write_ledger(world.flow, world.clusters.target, [yes])


def said(report: FailoverReport, step: str) -> str:
    return next(it.message for it in report.steps if it.name.value == step)


def audited(report: FailoverReport) -> str:
    return said(report, "audit")


def test_a_difference_stops_it_and_the_line_says_what_can_be_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the record: of a flow that is made for the way home no `twinlog audit` could tell."""
    unequal(monkeypatch)
    report = world.fail_over()
    assert State.REFUSED is report.state
    (seen,) = read_ledger(world.flow, world.clusters.target).shown
    assert [("audit-equal", "orders", 1)] == [(it.check, it.subject, it.short) for it in seen.amounts]
    assert (
        "the copy is not proved equal: orders-0, upstream offset 2: missing: its copy is not there; see"
        " `twinlog audit`; to accept it: all that it showed: twinlog accept"
        f" --seen {seen.seen} --flow 'A->B' --until 8h --reason ..."
    ) == audited(report)


@pytest.mark.parametrize("subject", ["", "orders"])
def test_what_was_accepted_counts_as_it_does_at_the_gate(
    world: World, monkeypatch: pytest.MonkeyPatch, subject: str
) -> None:
    """The report names the person who has accepted it, and so does the evidence."""
    unequal(monkeypatch)
    accept(world, subject)
    report = world.fail_over()
    assert State.PROMOTED is report.state, audited(report)
    assert "1 difference, accepted by jo: orders-0, upstream offset 2: missing" in audited(report)
    assert "nothing is lost besides this: audit-equal" in world.questions[0]
    assert " up to 1, accepted by jo at " in world.questions[0]
    assert read_ledger(world.flow, world.clusters.target).recoveries[0].at_risk_records is None


@pytest.mark.parametrize(
    ("subject", "until_ms", "found"),
    [
        ("payments", NOW + 10**7, {}),
        ("orders", NOW - 1, {}),
        ("", NOW + 10**7, {"problems": (Issue("no-map", "orders", "it is not read"),)}),
        ("orders", NOW + 10**7, {"count": 2}),
    ],
    ids=["of another topic", "expired", "something was not audited", "one more"],
)
def test_what_does_not_cover_all_covers_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, subject: str, until_ms: int, found: dict
) -> None:
    """Not what was not looked at, nor one difference more than was accepted."""
    unequal(monkeypatch, **found)
    accept(world, subject, until_ms=until_ms)
    report = world.fail_over()
    assert State.REFUSED is report.state
    assert "the copy is not proved equal" in audited(report)


class TestWhatIsNotSeenBeforeThePromotion:
    """A partition that cannot be looked at is no partition of which nothing is missing."""

    @pytest.mark.parametrize(
        ("side", "verb", "name"),
        [
            ("source", "offsets", "orders"),
            ("source", "describe_topics", "orders"),
            ("target", "describe_topics", "A.orders"),
            ("target", "offsets", "A.orders"),
        ],
        ids=["no leader on A", "no rights on A", "no DESCRIBE on B", "no leader on B"],
    )
    def test_it_is_not_promoted_over_it(self, world: World, side: str, verb: str, name: str) -> None:
        """It went away after all was proved, while a person was asked; the report has it, and no number for it."""
        cluster = getattr(world.clusters, side)

        def away() -> Answer:
            cluster.refuse(verb, name, ClusterRefused(f"{name} cannot be looked at"))
            return Answer.YES

        report = world.fail_over(answer=away)
        assert State.REFUSED is report.state, [(it.name, it.message) for it in report.steps]
        assert "one partition of orders could not be looked at" in said(report, "promote")
        (orders,) = report.topics
        assert ("orders", {None}) == (
            orders.topic,
            {it.at_risk_records for it in orders.partitions} or {None},
        )
        cluster.allow(verb, name)
        assert State.PROMOTED is world.fail_over().state

    def test_what_is_left_is_told_with_its_doubt(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """A drain that cannot see one partition says at least how many records are left, and not 0."""
        monkeypatch.setattr(planned, "moving_topics", lambda *_, **__: Moving({}, {}))
        world.clusters.source.refuse("offsets", "orders", ClusterRefused("it has no leader"))
        report = world.fail_over()
        assert State.FAILED is report.state
        assert (
            "at least 0 records are left after 10 passes; one partition of orders could not be looked at"
        ) in said(report, "drain")

    def test_a_dry_run_says_at_least(self, world: World) -> None:
        """Of the records and of the groups: one that the source does not tell of has no offsets that we know."""
        world.clusters.source.refuse("offsets", "orders", ClusterRefused("it has no leader"))
        world.clusters.source.commit("secret", TopicPartition("orders", 0), 2)
        world.clusters.source.refuse("committed_offsets", "secret", ClusterRefused("grant DESCRIBE on it"))
        report = world.fail_over(dry_run=True)
        assert "would copy at least 0 records" in said(report, "fence-producers")
        assert (
            "at least 0 records are not on B now; one partition of orders could not be looked at"
        ) == said(report, "drain")
        assert "the positions of group secret are not told: grant DESCRIBE on it" in said(report, "groups")


class TestWhatIsKnownToForbid:
    """A refusal that is known before stops no producer."""

    def test_no_producer_is_stopped_for_it(self, world: World) -> None:
        """A lost range that nobody answers for: the step names it, and the source denies nobody anything."""
        write_ledger(world.flow, world.clusters.target, [Gap("orders", 0, 1, 2, GapCause.RETENTION, 1, 2)])
        report = world.fail_over()
        assert State.REFUSED is report.state
        assert said(report, "fence-producers").startswith("no producer was stopped: not ready, no-gaps: ")
        assert set() == {it for it in world.clusters.source.acls if it.permission == "DENY"}

    def test_what_left_the_file_with_records_forbids_it(self, world: World) -> None:
        """No copy brings them: dry run and failover say so, and nobody is denied anything."""
        world.write(3)
        world.flow = replace(world.flow, topics=NameFilter((".*",), ("orders",)))
        told = "nothing-blocked: "
        assert f"says no already, before producers are stopped: {told}" in said(
            world.fail_over(dry_run=True), "gate"
        )
        report = world.fail_over()
        assert said(report, "fence-producers").startswith(f"no producer was stopped: not ready, {told}")
        assert "3 records of it on A are not in A.orders" in said(report, "fence-producers")
        assert set() == {it for it in world.clusters.source.acls if it.permission == "DENY"}

    def test_what_the_next_copy_mends_does_not_forbid_it(self, world: World) -> None:
        """A recreated topic whose policy says what becomes of it is copied by the step itself."""
        world.clusters.source.add_topic("orders")
        keep = replace(world.flow.lifecycle, on_recreated=RecreatedPolicy.NEW_INCARNATION)
        world.flow = replace(world.flow, lifecycle=keep)
        assert "nothing-blocked" not in said(world.fail_over(dry_run=True), "gate")
        world.flow = replace(world.flow, lifecycle=replace(keep, on_recreated=RecreatedPolicy.FAIL))
        assert "nothing-blocked" in said(world.fail_over(dry_run=True), "gate")

    def test_a_dry_run_says_so(self, world: World) -> None:
        """And a sound flow's does not."""
        assert "says no already" not in said(world.fail_over(dry_run=True), "gate")
        write_ledger(world.flow, world.clusters.target, [Gap("orders", 0, 1, 2, GapCause.RETENTION, 1, 2)])
        assert "says no already, before producers are stopped: no-gaps" in said(
            world.fail_over(dry_run=True), "gate"
        )
