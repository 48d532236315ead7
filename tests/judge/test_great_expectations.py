"""The cycle's checks, each with a guilty and an innocent row, through both evaluators, which agree."""

import math
import random
from dataclasses import replace

import pytest

from twinlog.fact import Total, Unknown
from twinlog.facts.partition import MapSummary, PartitionFacts
from twinlog.formats.ledger.accepted import Accepted, Offence, covering
from twinlog.judge.check import NOT_APPLICABLE, Check, Relation, Severity, Suite, Use
from twinlog.judge.check import judge as judged
from twinlog.judge.great_expectations import frame, validate
from twinlog.judge.rows import FOUND, columns_of
from twinlog.judge.table import asked

SOUND = PartitionFacts(
    topic="orders",
    remote_topic="A.orders",
    partition=0,
    source_log_start=2,
    source_end=12,
    next_upstream=10,
    lag_records=2,
    oldest_uncopied=1,
    target_log_start=0,
    target_stable_end=9,
    source_partitions=3,
    target_partitions=3,
    mapped=MapSummary(8, 8, 8, 10, 8),
    unmapped_offsets=0,
    reported_next_upstream=6,
)
NEW = replace(
    SOUND,
    partition=1,
    next_upstream=None,
    target_log_start=None,
    target_stable_end=None,
    mapped=MapSummary(),
    reported_next_upstream=None,
)
CRIMES = {
    "nothing-copied-twice": {"mapped": MapSummary(8, 7, 8, 10, 8)},
    "downstream-counted-once": {"mapped": MapSummary(8, 8, 7, 10, 8)},
    "map-not-beyond-progress": {"mapped": MapSummary(8, 8, 8, 11, 8)},
    "map-whole": {"unmapped_offsets": 2},
    "nothing-deleted-early": {"deleted_early": 2},
    "progress-within-source": {"next_upstream": 13},
    "nothing-expired-uncopied": {"source_log_start": 11},
    "copy-not-cut-off": {"target_stable_end": 7},
    "partition-parity": {"target_partitions": 2},
    "progress-never-goes-back": {"reported_next_upstream": 11},
    "lag-not-negative": {"lag_records": -1},
}
SUITES = asked(Use.CYCLE)
BLOCKED, FLOW, TOPICS, PARTITIONS = SUITES

GUILTY = {name: replace(SOUND, partition=10 + n, **crime) for n, (name, crime) in enumerate(CRIMES.items())}


_topic_columns = sorted({column for check in TOPICS.checks for column in check.columns})
LINES = {
    "blocked": ([{"topic": "orders", "blocked": 0}], {"nothing-blocked": {"blocked": 1}}),
    "partitions": (
        [columns_of(SOUND), columns_of(NEW)],
        {name: columns_of(row) for name, row in GUILTY.items()},
    ),
    "topics": (
        [
            {
                "topic": "orders",
                "target_replicas": 3,
                "wanted_replicas": 3,
                "target_min_insync": 2,
                "wanted_min_insync": 2,
                "leaderless_partitions": 0,
                "fewest_in_sync": 3,
                "needed_in_sync": 2,
                "source_retention_ms": 5,
                "target_retention_ms": 5,
                "source_retention_bytes": 7,
                "target_retention_bytes": 9,
                "source_max_message_bytes": 7,
                "target_max_message_bytes": 7,
                "cleanup_differs": 0,
                "age_seconds": 2.5,
                "rpo_seconds": 3,
                "undecided_seconds": 2.5,
                "undecided_allowed": 3,
                **dict.fromkeys(FOUND.values(), 0),
            },
            {"topic": "without a copy, of which nothing waits"} | dict.fromkeys(_topic_columns),
        ],
        {
            "replication-factor": {"wanted_replicas": 4},
            "min-insync-replicas": {"wanted_min_insync": 3},
            "can-be-written": {"fewest_in_sync": 1},
            "every-partition-led": {"leaderless_partitions": 1},
            "retention-time": {"target_retention_ms": 4},
            "retention-size": {"target_retention_bytes": 6},
            "record-size": {"target_max_message_bytes": 6},
            "cleanup-policy": {"cleanup_differs": 1},
            "rpo-within-budget": {"age_seconds": 3.1},
            "transactions-end": {"undecided_seconds": 3.1},
            **{f"nothing-{kind}": {column: 1} for kind, column in FOUND.items()},
        },
    ),
    "flow": (
        [
            {"flow": "A->B", "gaps": 0, "heartbeat_age_seconds": 1.5, "heartbeat_age_allowed": 2},
            {
                "flow": "B->A",
                "gaps": 0,
                "heartbeat_age_seconds": Unknown("none"),
                "heartbeat_age_allowed": None,
            },
        ],
        {"no-open-gaps": {"gaps": 1}, "heartbeat-age": {"heartbeat_age_seconds": 2.5}},
    ),
}
"""For each suite: innocent rows, and for each check a change that makes the first of them guilty."""


def guilty(suite: Suite) -> dict:
    (sound, *_), crimes = LINES[suite.name]
    if suite is PARTITIONS:
        return crimes
    return {name: sound | {suite.identity[0]: name} | crime for name, crime in crimes.items()}


def by_gx(suite: Suite, rows):
    return validate(suite, rows).results


def plainly(suite: Suite, rows):
    return judged(suite, rows).results


EVALUATORS = [plainly, by_gx]


@pytest.mark.parametrize("suite", SUITES, ids=lambda it: it.name)
def test_every_check_has_its_guilty_row(suite):
    """No check is there that was never seen to fail."""
    assert {check.name for check in suite.checks} == set(LINES[suite.name][1])


@pytest.mark.parametrize("suite", SUITES, ids=lambda it: it.name)
def test_every_check_says_what_it_means_and_what_to_do(suite):
    """Names are unique; columns exist."""
    assert len(suite.checks) == len({check.name for check in suite.checks})
    known = set(LINES[suite.name][0][0])
    for check in suite.checks:
        assert check.meaning and check.advice
        assert set(check.columns) <= known


@pytest.mark.parametrize("judge", EVALUATORS, ids=["plain", "gx"])
@pytest.mark.parametrize("suite", SUITES, ids=lambda it: it.name)
def test_innocent_rows_pass(suite, judge):
    """One that a check does not apply to is not judged by it; no rows have nothing wrong."""
    assert [] == [it for it in judge(suite, LINES[suite.name][0]) if not it.passed]
    assert [] == [it for it in judge(suite, []) if not it.passed]


@pytest.mark.parametrize("judge", EVALUATORS, ids=["plain", "gx"])
@pytest.mark.parametrize("suite", SUITES, ids=lambda it: it.name)
def test_the_guilty_row_is_named(suite, judge):
    """It alone, with its numbers and what to do."""
    accused = guilty(suite)
    results = judge(suite, [*LINES[suite.name][0], *accused.values()])
    for check, result in zip(suite.checks, results, strict=True):
        row = accused[check.name]
        who = " ".join([str(row[suite.identity[0]]), *(f"{it} {row[it]}" for it in suite.identity[1:])])
        assert (check.name, False) == (result.name, result.passed)
        assert result.observed.startswith(f"{who}: {check.left.replace('_', ' ')} ")
        assert ";" not in result.observed
        assert check.advice in result.message
        assert (str(row[suite.identity[0]]),) == result.subjects


ARBITRARY = Suite(
    "arbitrary",
    "row",
    ("name", "number"),
    tuple(
        Check(f"{left} {relation} {right}", Severity.WARNING, left, relation, right, "so", "do")
        for left, right in (("a", "b"), ("b", 2))
        for relation in Relation
    ),
)


def test_both_evaluators_give_the_same_results():
    """Every relation over columns and numbers that are known, unknown, or not there: also word by word."""
    values = random.Random(7)
    cells = [None, Unknown("hidden"), 0, 1, 2, 3, 2.5, -1, 2**53 - 1]
    rows = [
        {
            "name": f"row{n % 9}",
            "number": n,
            "a": values.choice([*cells, Total(3, "hidden")]),
            "b": values.choice(cells),
        }
        for n in range(400)
    ]
    assert plainly(ARBITRARY, rows) == validate(ARBITRARY, rows).results
    assert {True, False} == {it.passed for row in rows[:60] for it in plainly(ARBITRARY, [row])}
    for start in range(0, 30, 3):
        few = rows[start : start + 3]
        assert plainly(ARBITRARY, few) == validate(ARBITRARY, few).results


def test_many_guilty_rows_fit_a_line():
    """The first ones are named, the others counted."""
    rows = [columns_of(replace(SOUND, partition=number, target_partitions=1)) for number in range(9)]
    parity = next(it for it in plainly(PARTITIONS, rows) if it.name == "partition-parity")
    assert parity.observed.endswith("partition 4: target partitions 1, source partitions 3 and 4 more")


ONE = Suite("one", "topic", ("topic",), TOPICS.checks[:1])


@pytest.mark.parametrize("judge", EVALUATORS, ids=["plain", "gx"])
def test_what_nobody_knows_or_looked_at_fails(judge):
    """It says why in place of a number."""
    for wanted, why in (({"wanted_replicas": Unknown("hidden")}, "hidden"), ({}, "nobody looked")):
        (result,) = judge(ONE, [{"topic": "t", "target_replicas": 1} | wanted])
        assert (False, f"t: target replicas 1, wanted replicas not known ({why})") == (
            result.passed,
            result.observed,
        )


@pytest.mark.parametrize("judge", EVALUATORS, ids=["plain", "gx"])
def test_what_is_known_in_part_is_said_so_and_the_rest_is_accepted_by_itself(judge):
    """Who accepts three records has not accepted those that nobody has seen; nor do both cover a fourth."""
    (suite,) = (it for it in asked(Use.PLANNED) if it.name == "topics")
    one = replace(suite, checks=tuple(it for it in suite.checks if it.name == "nothing-doubled"))
    (result,) = judge(
        one, [{"topic": "t", "doubled_found": Total(3, "1 partition(s) were not observed yet")}]
    )
    assert "t: doubled found at least 3 (1 partition(s) were not observed yet)" == result.observed
    assert (Offence("t", None, 3), Offence("t", None, None, "1 partition(s) were not observed yet")) == (
        result.offences
    )
    (more,) = judge(one, [{"topic": "t", "doubled_found": Total(4, "1 partition(s) were not observed yet")}])
    three = Accepted("nothing-doubled", "t", "", "jo", "", 0, None, 3)
    both = replace(three, not_known=1)
    assert [(), (both,), ()] == [
        covering([three], three.check, result.offences, 1),
        covering([both], three.check, result.offences, 1),
        covering([both], three.check, more.offences, 1),
    ]


@pytest.mark.parametrize("judge", EVALUATORS, ids=["plain", "gx"])
def test_a_check_without_an_object_does_not_apply(judge):
    """It is not said to hold."""
    (result,) = judge(ONE, [{"topic": "t", "target_replicas": None, "wanted_replicas": 1}])
    assert (True, NOT_APPLICABLE) == (result.passed, result.observed)
    assert result.message.startswith("does not apply: ")


def test_the_frame_has_two_columns_a_check():
    """Both are empty if it does not apply, one if a side is unknown; offsets are exact."""
    rows = [
        {"topic": "t", "target_replicas": left, "wanted_replicas": right}
        for left, right in ((2**53, 1), (None, 1), (Unknown("x"), 1), (1, Unknown("x")), (Unknown("x"),) * 2)
    ]
    table = frame(ONE, rows)
    left, right = table["replication-factor: target_replicas"], table["replication-factor: wanted_replicas"]
    assert [2.0**53, None, None, 1.0, None] == [None if math.isnan(it) else it for it in left]
    assert [1.0, None, 1.0, None, 0.0] == [None if math.isnan(it) else it for it in right]


def test_partition_checks_look_at_columns_of_a_row():
    """A misspelt column would be one that is never known."""
    assert {it for check in PARTITIONS.checks for it in check.columns} <= set(columns_of(SOUND))
