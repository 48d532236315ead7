"""A flow's own page: complete, shortened with counts, escaped, and quick."""

import re
import time
from dataclasses import replace

import pytest
from seen_flow import LEDGER, NOW, ORDERS, STATUS, large_flow, seen_flow

from twinlog.airflow.flows import BY_HAND, OF_A_FLOW
from twinlog.airflow.plugin.app import draw
from twinlog.airflow.plugin.flow_page import (
    flow_page_of,
    topics_of,
)
from twinlog.airflow.plugin.overview import overview_of
from twinlog.airflow.plugin.reading import Details, SeenFlow, SeenFlows
from twinlog.airflow.plugin.reports import KeptReport
from twinlog.audit.coverage import PartitionCoverage, UnprovedCount
from twinlog.cluster.admin.groups import GroupType
from twinlog.facts.gaps import GapReport
from twinlog.formats.ledger.gate import GateOutcome, KnownSource, KnownTopic, RiskSample
from twinlog.formats.ledger.records import CycleReport, GapCause
from twinlog.formats.ledger.recovery import (
    DrillRun,
    DrillState,
    JournalEntry,
    RecoveryRun,
    RunState,
    StepState,
)
from twinlog.groups.report import (
    CheckpointsResult,
    GroupPartitionRow,
    SyncReason,
    SyncState,
    UncoveredGroup,
)
from twinlog.monitoring.status import PartitionStatus, PauseStatus, StoppedTopic, TopicStatus
from twinlog.state.seats import Member, Role
from twinlog.topics.discovery import Problem, ProblemCode

NOW_MS = round(NOW * 1000)
EVIL = "<img src=x onerror=alert(1)>\"'&"


def drawn(seen: SeenFlow) -> str:
    return draw("flow.html", flow_page_of(seen, NOW), dags="/dags/", nonce="n")


def group(name: str, state: SyncState, text: str = "because") -> GroupPartitionRow:
    reason = SyncReason.NOT_MAPPED
    return GroupPartitionRow(
        name, "orders", "A.orders", 0, 5, 4, True, False, 3, state, reason, text, 1, NOW_MS
    )


def result(
    rows: tuple[GroupPartitionRow, ...], uncovered: tuple[UncoveredGroup, ...] = ()
) -> CheckpointsResult:
    return CheckpointsResult("A->B", NOW_MS, len(rows), rows, uncovered, (), 0, 0, 0, ())


def full_flow(name: str) -> SeenFlow:
    """Every part of the page has something, and every text of a cluster or a person is `name`."""
    entry = JournalEntry(name, StepState.DONE, 5, 1.0, name, name)
    ledger = replace(
        LEDGER,
        last_report=CycleReport(f"scheduled__{name}", {"state": "failed", "records": 0}, NOW_MS),
        outcomes=(GateOutcome(name, False, 7, (name,), (name,), "ab" * 32),),
        recoveries=(
            RecoveryRun(name, name, RunState.ABORTED, name, name, 5, 6, ended_ms=7, journal=(entry,)),
        ),
        drills=(DrillRun(name, DrillState.FAILED, name, 5, 6, message=name),),
        known_source=KnownSource(7, 1, (KnownTopic(name, 1, 0, 0, None, (name,)),)),
        risk_samples=(RiskSample(0, NOW_MS - 9, 5, None, 9, copied=7),),
    )
    status = replace(
        STATUS,
        topics=(replace(ORDERS, topic=name, remote_topic=name, rpo_seconds=99.0),),
        stopped=(StoppedTopic(name, name, 1, ProblemCode.RECREATED, name, name, person=True),),
        gaps=(GapReport(name, 0, 1, 2, GapCause.RETENTION, acknowledged_by=name, acknowledged_reason=name),),
        problems=(Problem(ProblemCode.RECREATED, name, name, name),),
        paused=(PauseStatus(name, name, name, name),),
        members=(Member(name, name, 7, name, name, Role.LEADS),),
        held=name,
    )
    row = replace(group(name, SyncState.WRONGLY_NOT, name), topic=name)
    details = Details(
        NOW,
        coverage=(PartitionCoverage(name, 3, 10, 5, 1, 5, (UnprovedCount(name, 4),)),),
        coverage_error=name,
        groups=result((row,), (UncoveredGroup(name, GroupType.OTHER, name),)),
        groups_error=name,
    )
    reports = (KeptReport(name, name, ((name, f"gate/{name}/gate.html"),)),)
    return seen_flow(status, ledger, details=details, reports=reports)


@pytest.mark.parametrize("seen", [full_flow(EVIL), seen_flow(None, None, error=EVIL, hint=EVIL)])
def test_no_name_of_a_cluster_becomes_html(seen: SeenFlow) -> None:
    """Both pages show every name as text, whatever a topic, group, principal or person is called."""
    page = overview_of(SeenFlows(NOW, EVIL, (seen,), (EVIL,), EVIL), NOW)
    for html in (drawn(seen), draw("overview.html", page, dags="/dags/", nonce="n")):
        assert "&lt;img" in html
        assert "<img" not in html
        assert 2 == html.count("<script")


def test_every_part_of_the_page_is_there() -> None:
    """Each under a heading of its own, in order; what is wrong is the first."""
    headings = re.findall(r"<h2[^>]*>([^<]*)</h2>", drawn(full_flow("x")))
    assert [
        "What is wrong, and what to do",
        "Processes that follow it",
        "Topics",
        "Gaps",
        "Consumer groups",
        "Audit coverage",
        "Drift of metadata",
        "Readiness",
        "Failovers",
        "Drills",
        "Reports",
    ] == headings


def test_tables_can_be_heard() -> None:
    """Each has a caption and column headings; a region that scrolls can be reached by keyboard and has a name."""
    html = drawn(full_flow("x"))
    tables = html.count("<table>")
    assert 9 <= tables
    assert tables == html.count("<caption>")
    assert html.count("<th ") == html.count('<th scope="col"')
    regions = re.findall(r'<div class="scroll"([^>]*)>', html)
    assert tables == len(regions)
    assert all('tabindex="0"' in it and "aria-label" in it for it in regions)


def test_ids_are_unique() -> None:
    """The page restores by them what a reader had opened, and a screen reader finds names by them."""
    ids = re.findall(r' id="([^"]*)"', drawn(full_flow("x")))
    assert sorted(set(ids)) == sorted(ids)


def test_evidence_is_named_and_not_shown() -> None:
    """A viewer sees the digest; connections and secrets are in nothing that the page reads."""
    html = drawn(full_flow("x"))
    assert "abababababababab" in html
    assert "nowhere:1" not in html


def test_a_page_of_5000_partitions_is_small_and_quick() -> None:
    """Seconds of a CPU at most, a megabyte at most; only memory is read."""
    seen = large_flow(50, 100)
    drawn(large_flow(1, 1))  # templates are compiled once
    began = time.process_time()
    html = drawn(seen)
    took = time.process_time() - began
    assert 3 > took
    assert 1_000_000 > len(html)


def test_10000_topics_are_shortened_with_counts_and_can_be_searched() -> None:
    """200 rows, the rest by name; what audits say of the rest shares one row."""
    html = drawn(large_flow(10_000, 1))
    assert 400 == html.count("<tr><td><code>topic-")
    assert "9,800 of 10,000 topics are not in the table" in html
    assert 10_000 == len({*re.findall(r"topic-\d{5}", html)})
    assert "9,800 topics more" in html
    assert 2_000_000 > len(html)


def test_topics_that_need_somebody_come_first() -> None:
    """Stopped, over the RPO, then by lag."""
    one = (PartitionStatus(0, 9, 10, 0),)
    topics = tuple(
        TopicStatus(name, name, lag, age, one, rpo_budget_seconds=60)
        for name, lag, age in (("even", 0, 0.0), ("late", 1, 99.0), ("lags", 7, 3.0))
    )
    stopped = StoppedTopic("ill", "A.ill", None, ProblemCode.RECREATED, "m", "h", person=True)
    rows = topics_of(replace(STATUS, topics=topics, stopped=(stopped,))).rows
    assert [("ill", "stopped"), ("late", "over its RPO"), ("lags", "behind"), ("even", "up to date")] == [
        (it.name, it.word) for it in rows
    ]


def test_groups_that_would_not_go_on_come_first() -> None:
    """With the place, and the reason."""
    rows = (group("fine", SyncState.SYNCED), group("lost", SyncState.WRONGLY_NOT))
    page = flow_page_of(seen_flow(details=Details(NOW, groups=result(rows))), NOW)
    assert ["lost", "fine"] == [it.group for it in page.groups.rows]
    assert "2 groups; positions: 1 wrongly-not, 0 intentionally-not, 1 synced" == page.group_counts
    assert ["Groups would not go on where they should: lost."] == [it.what for it in page.troubles]


def test_a_flow_that_never_ran_says_so() -> None:
    """And what to do about it."""
    seen = seen_flow(replace(STATUS, has_run=False, topics=()), replace(LEDGER, last_report=None))
    html = drawn(seen)
    assert "This flow has never run." in html
    assert "Unpause its Dag" in html


def test_only_a_run_of_airflows_is_linked() -> None:
    """A cycle of `twinlog run` has no page in Airflow."""
    assert "replicate__A__B/runs/scheduled__1" == flow_page_of(seen_flow(), NOW).last_run
    alone = replace(LEDGER, last_report=CycleReport("host-7", {"state": "done"}, NOW_MS))
    assert "" == flow_page_of(seen_flow(ledger=alone), NOW).last_run


def test_the_page_leads_to_every_dag_of_its_flow() -> None:
    """Also to the way home, which somebody looks for after a failover."""
    kinds = {dag.partition("__")[0] for _, dag in flow_page_of(seen_flow(), NOW).dags}
    assert {*OF_A_FLOW, *BY_HAND} - {"translate_group"} == kinds
