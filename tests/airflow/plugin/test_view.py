from dataclasses import replace

import pytest

from twinlog.airflow.plugin.status import SeenFlow, SeenFlows, StatusCache
from twinlog.airflow.plugin.view import Fact, json_of, page_of
from twinlog.checks.gaps import GapReport
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.formats.ledger.records import CycleReport, FlowPhase, GapCause
from twinlog.monitoring.open_at_source import UndecidedPartition
from twinlog.monitoring.status import FlowStatus, PartitionStatus, PauseStatus, TopicStatus
from twinlog.topics.discovery import Orphan, OrphanKind, Problem, ProblemCode

NOW = 1_800_000_000.0


def cluster(alias: str) -> ClusterSettings:
    return ClusterSettings(alias, "nowhere:1", ConnectionSettings(alias, (("nowhere", 1),)))


ORDERS = TopicStatus("orders", "A.orders", 40, 2.6, (PartitionStatus(0, 959, 1000, 40),))
STATUS = FlowStatus(
    flow="A->B",
    state=FlowPhase.ACTIVE,
    source_reachable=True,
    as_of="2027-01-15T08:00:00+00:00",
    rpo_seconds=2.6,
    lag_records=40,
    topics=(ORDERS,),
    gaps=(),
    incarnations=(),
    problems=(),
)
LAST = CycleReport(
    "scheduled__1",
    {"state": "done", "records": 1234, "bytes": 5_600_000, "seconds": 23.4},
    round((NOW - 42) * 1000),
)


def card(status: FlowStatus | None, last: CycleReport | None = LAST, error: str = ""):
    seen = SeenFlow("replicate__A__B", FlowSettings(cluster("A"), cluster("B")), status, last, error)
    return page_of(SeenFlows(NOW, "mm2.properties", (seen,))).flows[0]


def test_flow_in_four_numbers() -> None:
    """Lag, age of the oldest record not copied, the last cycle, what it copied."""
    assert (
        Fact("Lag", "40", "records, over 1 partitions"),
        Fact("Behind", "3 s", "oldest record not copied yet"),
        Fact("Last cycle", "42 s ago", "took 23 s, done"),
        Fact("Copied in it", "1,234", "5.6 MB on the wire"),
    ) == card(STATUS).facts


def test_age_that_nobody_knows() -> None:
    """Records that wait without a timestamp are not copied."""
    status = replace(STATUS, rpo_seconds=None, topics=(replace(ORDERS, rpo_seconds=None),))
    assert Fact("Behind", "–", "oldest record not copied yet") == card(status).facts[1]
    assert "–" == card(status).topics[0].behind


def test_topic_that_is_behind() -> None:
    """Offsets copied of those the source has, lag, and a word for it."""
    [row] = card(STATUS).topics

    assert ("960 of 1,000", "40", "3 s", "behind") == (row.copied_up_to, row.lag, row.behind, row.word)


def test_topic_that_is_up_to_date() -> None:
    """Nothing is said of an age."""
    done = replace(ORDERS, lag_records=0, rpo_seconds=0.0)

    [row] = card(replace(STATUS, topics=(done,), lag_records=0, rpo_seconds=0.0)).topics

    assert ("–", "up to date", "good") == (row.behind, row.word, row.tone)


def test_what_is_held_or_left_alone_is_said() -> None:
    """A paused flow, a paused topic and an orphaned copy, each with who or why."""
    held = replace(
        STATUS,
        state=FlowPhase.PAUSED,
        held="paused by jo: brokers move",
        paused=(PauseStatus("orders", "2027-01-15T08:00:00+00:00", "jo", "load"),),
        orphans=(Orphan("A.old", "old", OrphanKind.DELETED),),
    )
    assert ("paused", "warn") == (card(held).state, card(held).tone)
    assert (
        "The flow is paused by jo: brokers move. Nothing is copied.",
        "orders is paused by jo since 2027-01-15T08:00:00+00:00: load",
        "Nothing is copied into A.old any more: old is gone from the source.",
    ) == card(held).problems


@pytest.mark.parametrize(
    ("status", "last", "state"),
    [
        (STATUS, LAST, "active"),
        (STATUS, None, "not run yet"),
        (STATUS, replace(LAST, summary={"state": "failed"}), "last cycle failed"),
        (replace(STATUS, source_reachable=False, topics=()), LAST, "source out of reach"),
        (
            replace(STATUS, problems=(Problem(ProblemCode.RECREATED, "orders", "orders was recreated"),)),
            LAST,
            "needs attention",
        ),
    ],
)
def test_state_in_a_word(status: FlowStatus, last: CycleReport | None, state: str) -> None:
    """The worst thing that can be said comes first."""
    assert state == card(status, last).state


def test_gaps_are_listed_with_their_cause() -> None:
    """They stay on the page: those records are not on the target."""
    gap = GapReport("orders", 0, 100, 250, GapCause.RETENTION)

    assert ("orders partition 0: 100 to 250 (retention)",) == card(replace(STATUS, gaps=(gap,))).gaps


def test_flow_that_cannot_be_read_shows_why() -> None:
    """And nothing else."""
    shown = card(None, None, "B does not answer")

    assert (("B does not answer",), (), ()) == (shown.problems, shown.facts, shown.topics)


def test_json_says_the_same() -> None:
    """Flow, Dag, status as `twinlog status` has it, last cycle."""
    seen = SeenFlow("replicate__A__B", FlowSettings(cluster("A"), cluster("B")), STATUS, LAST)

    [flow] = json_of(SeenFlows(NOW, "mm2.properties", (seen,)))["flows"]

    assert ("A->B", 40, 1234) == (
        flow["flow"],
        flow["status"]["lag_records"],
        flow["last_cycle"]["summary"]["records"],
    )


def test_clusters_are_asked_once_while_an_answer_is_fresh() -> None:
    """However many people look at the page."""
    asked: list[float] = []
    clock = [0.0]

    def look() -> SeenFlows:
        asked.append(clock[0])
        return SeenFlows(clock[0], "mm2.properties")

    cache = StatusCache(look, fresh_s=5, clock=lambda: clock[0])
    for clock[0] in (0.0, 4.9, 5.1, 6.0, 10.2):
        cache.get()

    assert [0.0, 5.1, 10.2] == asked


def test_what_is_undecided_is_not_copied() -> None:
    """Nothing lags, and everything is copied, is not the same."""
    held = UndecidedPartition("orders", 0, 7, 5, 3600.0, "", 17, "", "orders-0 is held", "abort it")
    topic = replace(ORDERS, lag_records=0, undecided_records=7, rpo_seconds=3600.0)
    status = replace(
        STATUS, lag_records=0, rpo_seconds=3600.0, topics=(topic,), undecided_records=7, undecided=(held,)
    )
    seen = card(status)
    assert Fact("Undecided", "7", "records behind open transactions, not copied") == seen.facts[1]
    assert Fact("Behind", "60 min", "oldest record not copied yet") == seen.facts[2]
    assert "behind" == seen.topics[0].word
    assert "orders-0 is held; abort it" in seen.problems


def test_everything_is_copied_only_if_everything_was_seen() -> None:
    """A partition that could not be read may hold a year of records."""
    status = replace(STATUS, lag_records=0, rpo_seconds=0.0, unseen_partitions=1)
    assert "oldest record not copied yet" == card(status).facts[1].note
    assert "everything is copied" == card(replace(status, unseen_partitions=0)).facts[1].note
