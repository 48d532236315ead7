"""The overview: what it says of a flow, and in which order."""

from dataclasses import replace

import pytest
from seen_flow import FLOW, LAST, LEDGER, NOW, ORDERS, STATUS, seen_flow

from twinlog.airflow.plugin.app import draw
from twinlog.airflow.plugin.overview import Fact, FlowCard, json_of, overview_of
from twinlog.airflow.plugin.reading import Details, SeenFlow, SeenFlows
from twinlog.airflow.plugin.troubles import Tone, state_of
from twinlog.audit.coverage import PartitionCoverage
from twinlog.config.flow.settings import CopiedBy
from twinlog.facts.gaps import GapReport
from twinlog.facts.undecided import UndecidedPartition
from twinlog.formats.ledger.gate import GateOutcome
from twinlog.formats.ledger.records import CycleReport, FlowPhase, GapCause
from twinlog.formats.ledger.recovery import DrillRun, DrillState
from twinlog.monitoring.readiness import Readiness
from twinlog.monitoring.status import FlowStatus, PauseStatus
from twinlog.state.ledger import Ledger
from twinlog.topics.discovery import Orphan, OrphanKind, Problem, ProblemCode

NEVER = (Readiness("planned"), Readiness("source-dead"))


def card(seen: SeenFlow, now: float = NOW) -> FlowCard:
    return overview_of(SeenFlows(NOW, "mm2.properties", (seen,)), now).flows[0]


def said(seen: SeenFlow, now: float = NOW) -> list[str]:
    return [it.what for it in card(seen, now).troubles]


def test_flow_in_four_numbers() -> None:
    """Lag, age of the oldest record not copied against the RPO, the last cycle, what it copied."""
    assert (
        Fact("Lag", "40", "records, over 1 partition"),
        Fact("Behind", "3 s", "oldest record not copied yet; RPO 60 s"),
        Fact("Last cycle", "42 s ago", "took 23 s, done"),
        Fact("Copied in it", "1,234", "5.6 MB on the wire"),
    ) == card(seen_flow()).facts


def test_age_that_nobody_knows() -> None:
    """Records that wait without a timestamp are not copied, and their age is not 0."""
    status = replace(STATUS, rpo_seconds=None, topics=(replace(ORDERS, rpo_seconds=None),))
    assert (
        Fact("Behind", "not known", "oldest record not copied yet; RPO 60 s")
        == card(seen_flow(status)).facts[1]
    )


def test_without_the_source_the_age_is_a_bound() -> None:
    """Records may have come since the last cycle, so the page calls the age a bound."""
    behind = card(seen_flow(replace(STATUS, source_reachable=False))).facts[1]
    assert "at most: nothing is known of what came since the last cycle; RPO 60 s" == behind.note


@pytest.mark.parametrize(
    ("homes", "todo"),
    [
        (None, "Once A is back: Dag failback (docs/runbooks/failback.md)."),
        ({}, "The flow's page has its steps (Failovers); Dag failback goes on (docs/failback.md)."),
    ],
)
def test_a_promoted_flow_names_the_way_home(homes: dict[str, str] | None, todo: str) -> None:
    """A flow that only brings home has none of its own."""
    status = replace(STATUS, state=FlowPhase.PROMOTED, held="promoted by jo: failover, planned")
    seen = replace(seen_flow(status), flow=replace(FLOW, homes=homes))
    assert [todo] == [it.todo for it in card(seen).troubles if "Nothing is copied." in it.what]


def test_before_the_first_cycle_nothing_is_copied() -> None:
    """Also if there is nothing to copy: an age of 0 would be good news that nobody has earned."""
    status = replace(STATUS, has_run=False, lag_records=0, rpo_seconds=0.0, topics=())
    behind = card(seen_flow(status, replace(LEDGER, last_report=None))).facts[1]
    assert Fact("Behind", "not known", "nothing was copied yet") == behind


RESUMED = "A person resumes it (docs/topics.md, pause and resume)."


@pytest.mark.parametrize(
    ("hint", "todo"),
    [
        ("`twinlog topics rebuild --topic orders` copies it", "Dag rebuild (topic orders) copies it"),
        ("`twinlog resume` goes on", "docs/errors.md says what to do."),
        ("kafka-acls --add --topic orders", "docs/errors.md says what to do."),
        ("grant ALTER on the copy", "grant ALTER on the copy"),
    ],
)
def test_a_page_names_no_command(hint: str, todo: str) -> None:
    """Instead the Dag that does it, or the page of the docs."""
    problem = Problem(ProblemCode.RECREATED, "orders", "orders was recreated", hint)
    assert todo == card(seen_flow(replace(STATUS, problems=(problem,)))).troubles[0].todo


def test_what_is_held_or_left_alone_is_said() -> None:
    """A paused flow, a paused topic and an orphaned copy, each with who or why, and what to do."""
    held = replace(
        STATUS,
        state=FlowPhase.PAUSED,
        held="paused by jo: brokers move",
        paused=(PauseStatus("orders", "2027-01-15T08:00:00+00:00", "jo", "load"),),
        orphans=(Orphan("A.old", "old", OrphanKind.DELETED),),
    )
    shown = card(seen_flow(held))
    assert ("paused", Tone.WARN) == (shown.state.word, shown.state.tone)
    assert [
        ("The flow is paused by jo: brokers move. Nothing is copied.", RESUMED),
        ("orders is paused by jo since 2027-01-15T08:00:00+00:00: load", RESUMED),
        ("Nothing is copied into A.old any more: old is gone from the source.", ""),
    ] == [(it.what, it.todo) for it in shown.troubles]


@pytest.mark.parametrize(
    ("status", "last", "state"),
    [
        (STATUS, LAST, ("following", Tone.GOOD)),
        (replace(STATUS, has_run=False), None, ("never ran", Tone.BAD)),
        (replace(STATUS, readiness=NEVER), LAST, ("following", Tone.WARN)),
        (STATUS, replace(LAST, summary={"state": "failed"}), ("needs attention", Tone.BAD)),
        (replace(STATUS, source_reachable=False, topics=()), LAST, ("source out of reach", Tone.BAD)),
        (
            replace(STATUS, source_reachable=False, state=FlowPhase.PROMOTED),
            LAST,
            ("promoted; source out of reach", Tone.BAD),
        ),
        (
            replace(STATUS, state=FlowPhase.FAILING_OVER, held="failing over"),
            LAST,
            ("failing-over", Tone.WARN),
        ),
        (
            replace(STATUS, problems=(Problem(ProblemCode.RECREATED, "orders", "orders was recreated"),)),
            LAST,
            ("needs attention", Tone.BAD),
        ),
        (replace(STATUS, topics=(replace(ORDERS, rpo_seconds=61.0),)), LAST, ("needs attention", Tone.BAD)),
        (replace(STATUS, unseen_partitions=1), LAST, ("following", Tone.WARN)),
    ],
)
def test_state_in_a_word(status: FlowStatus, last: CycleReport | None, state: tuple[str, Tone]) -> None:
    """The worst thing that can be said comes first."""
    shown = card(seen_flow(status, Ledger(last_report=last))).state
    assert state == (shown.word, shown.tone)


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"has_run": False}, "This flow has never run."),
        (
            {"cycle_age_seconds": 7200.0, "stands_still": True},
            "No cycle has ended for 2 h, longer than the RPO.",
        ),
    ],
)
def test_why_nothing_is_copied_comes_first_and_no_lanes_are_advised(changes: dict, first: str) -> None:
    """A topic is over its RPO because nothing runs: more partitions at once would not help."""
    late = replace(STATUS, topics=(replace(ORDERS, rpo_seconds=7000.0),), **changes)
    shown = card(seen_flow(late, replace(LEDGER, last_report=LAST if late.has_run else None)))
    assert (first, Tone.BAD) == (shown.troubles[0].what, shown.state.tone)
    assert [] == [it.todo for it in shown.troubles if "twinlog.lanes" in it.todo]


def test_readiness_stands_beside_the_state() -> None:
    """The newest answer in each mode with its age; a yes that is older than an audit may be is no good news."""
    old = replace(
        STATUS,
        readiness=(Readiness("planned", True, 172_801.0), Readiness("source-dead", False, 5.0, ("canary",))),
    )
    assert [
        ("READY (planned), 3 min ago", Tone.GOOD),
        ("NEVER ASKED (source-dead)", Tone.IDLE),
        ("READY (planned), 2 d ago", Tone.IDLE),
        ("NOT READY (source-dead): canary, 5 s ago", Tone.BAD),
    ] == [(it.word, it.tone) for seen in (STATUS, old) for it in card(seen_flow(seen)).readiness]


@pytest.mark.parametrize(("proved", "said_so"), [(0, True), (5, False)])
def test_a_flow_of_which_nothing_was_ever_audited_is_not_green(proved: int, said_so: bool) -> None:
    """Nobody has compared a record."""
    details = Details(NOW, coverage=(PartitionCoverage("orders", 0, 10, proved, 0, 5 if proved else None),))
    shown = card(seen_flow(details=details))
    assert said_so is (shown.state.tone is Tone.WARN)
    assert said_so is any("No audit has ever compared" in it.what for it in shown.troubles)


@pytest.mark.parametrize(("by", "todo"), [("twinlog", "Dag audit."), ("other", "A cycle compares")])
def test_a_copy_of_another_engine_is_compared_by_cycles(by: str, todo: str) -> None:
    """No audit is for it; that nothing was compared is said none the less, and what differs is named by the gate."""
    never = PartitionCoverage("orders", 0, 10, 0, 0, None)
    different = replace(never, topic="payments", differences=2, at_ms=5)
    flow = replace(FLOW, copied_by=CopiedBy(by))
    told = [
        (it.tone, it.todo)
        for coverage in ((never,), (different,))
        for it in card(replace(seen_flow(details=Details(NOW, coverage=coverage)), flow=flow)).troubles
        if "audit" in it.what.lower()
    ]
    page = "audit.md" if by == "twinlog" else "howto/migrate.md"
    assert [Tone.WARN, Tone.BAD] == [tone for tone, _ in told]
    assert told[0][1].startswith(todo)
    assert told[1][1] == f"docs/{page} says how to see the records."


def home(status: FlowStatus | None, *, error: str = "") -> SeenFlow:
    """A flow that only brings home, as it was seen."""
    seen = seen_flow(status) if status is not None else SeenFlow("replicate__A_home__B", FLOW, NOW)
    return replace(seen, flow=replace(FLOW, homes={}), error=error)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (STATUS, ("brings nothing home now", Tone.IDLE)),
        (replace(STATUS, state=FlowPhase.FAILING_OVER), ("brings home", Tone.GOOD)),
        (replace(STATUS, state=FlowPhase.FAILING_OVER, held="failing over"), ("failing-over", Tone.WARN)),
        (
            replace(STATUS, state=FlowPhase.FAILING_OVER, source_reachable=False),
            ("failing-over; source out of reach", Tone.BAD),
        ),
    ],
)
def test_the_way_home_in_a_word(status: FlowStatus, state: tuple[str, Tone]) -> None:
    """It copies while a way home waits, and is at rest in normal life."""
    shown = card(home(status))
    assert (*state, "A.home") == (shown.state.word, shown.state.tone, shown.source)


def test_a_way_home_that_never_began_is_no_card() -> None:
    """Each flow with MM2's names has one: its own page says so, unless its cluster does not answer."""
    seen = SeenFlows(NOW, "mm2.properties", (home(None), seen_flow()))
    assert ["A__B"] == [it.slug for it in overview_of(seen, NOW).flows]
    assert ["A->B"] == [it["flow"] for it in json_of(seen)["flows"]]
    assert "no way home has begun" == state_of(home(None), NOW, ()).word
    assert "cannot be read" == card(home(None, error="B does not answer")).state.word


def test_no_good_news_of_an_old_reading() -> None:
    """A flow that followed two minutes ago may not follow now."""
    shown = card(seen_flow(), NOW + 130)
    assert ("was following", Tone.IDLE, "read 2 min ago") == (shown.state.word, shown.state.tone, shown.read)


def test_what_is_worst_comes_first() -> None:
    """Within a flow, and among flows; a flow has room for three, and counts the rest."""
    gap = GapReport("orders", 0, 100, 250, GapCause.RETENTION)
    ledger = replace(
        LEDGER,
        outcomes=(GateOutcome("planned", False, 7, ("lag",), (), "ab"),),
        drills=(DrillRun("r", DrillState.FAILED, "jo", 5, 6, message="g was behind"),),
    )
    status = replace(STATUS, gaps=(gap,), unseen_partitions=3)
    bad, good = seen_flow(status, ledger), replace(seen_flow(), dag_id="replicate__C__D")
    shown = overview_of(SeenFlows(NOW, "mm2.properties", (good, bad)), NOW).flows
    assert ["A__B", "C__D"] == [it.slug for it in shown]
    assert [
        "Records of orders will never be copied.",
        "The last drill (1970-01-01 00:00:00 UTC) failed: g was behind",
        "3 partitions could not be looked at; no number here tells of them.",
    ] == [it.what for it in shown[0].first]
    page = overview_of(SeenFlows(NOW, "mm2.properties", (bad, good)), NOW)
    drawn = draw("overview.html", page, dags="/dags/", nonce="n")
    assert (4, 1) == (len(shown[0].troubles), drawn.count("1 more on its page"))


def test_a_gap_that_somebody_answers_for_is_no_trouble() -> None:
    """Nor one whose records would be gone by now anyway."""
    known = GapReport("orders", 0, 100, 250, GapCause.RETENTION)
    from twinlog.facts.gaps import GapState

    assert [] == said(seen_flow(replace(STATUS, gaps=(replace(known, state=GapState.ACKNOWLEDGED),))))


def test_flow_that_cannot_be_read_shows_why() -> None:
    """And no number."""
    shown = card(seen_flow(None, None, error="B does not answer", hint="start it"))
    assert (("B does not answer", "start it"), ()) == (
        (shown.troubles[0].what, shown.troubles[0].todo),
        shown.facts,
    )


def test_flow_that_was_never_read_claims_nothing() -> None:
    """The page says that it is being read, and renews itself soon."""
    page = overview_of(SeenFlows(NOW, "mm2.properties", (seen_flow(None, None, at=0.0),)), NOW)
    assert (True, "being read", ()) == (page.being_read, page.flows[0].state.word, page.flows[0].facts)


def test_json_says_the_same() -> None:
    """Flow, Dag, status as `twinlog status` has it, last cycle, and when it was read."""
    [flow] = json_of(SeenFlows(NOW, "mm2.properties", (seen_flow(),)))["flows"]

    assert ("A->B", 40, 1234, "2027-01-15T08:00:00+00:00") == (
        flow["flow"],
        flow["status"]["lag_records"],
        flow["last_cycle"]["summary"]["records"],
        flow["read_at"],
    )


def test_what_is_undecided_is_not_copied() -> None:
    """Nothing lags, and everything is copied, is not the same."""
    held = UndecidedPartition("orders", 0, 7, 5, 3600.0, "", 17, "", "orders-0 is held", "abort it")
    topic = replace(ORDERS, lag_records=0, undecided_records=7, rpo_seconds=30.0)
    status = replace(
        STATUS, lag_records=0, rpo_seconds=30.0, topics=(topic,), undecided_records=7, undecided=(held,)
    )
    seen = card(seen_flow(status))
    assert Fact("Undecided", "7", "records behind open transactions, not copied") == seen.facts[1]
    assert Fact("Behind", "30 s", "oldest record not copied yet; RPO 60 s") == seen.facts[2]
    assert [("orders-0 is held", "abort it")] == [(it.what, it.todo) for it in seen.troubles]


def test_everything_is_copied_only_if_everything_was_seen() -> None:
    """A partition that could not be read may hold a year of records."""
    status = replace(STATUS, lag_records=0, rpo_seconds=0.0, unseen_partitions=1)
    note = "oldest record not copied yet; RPO 60 s"
    assert note == card(seen_flow(status)).facts[1].note
    note = "everything is copied; RPO 60 s"
    assert note == card(seen_flow(replace(status, unseen_partitions=0))).facts[1].note
