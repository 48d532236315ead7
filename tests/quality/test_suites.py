"""The partition checks, each with a guilty and an innocent row, through Great Expectations."""

from dataclasses import replace

import pytest

from twinlog.quality.checks import PARTITION_CHECKS, Check, Relation, Severity
from twinlog.quality.partitions import MapSummary, PartitionRow
from twinlog.quality.suites import NUMBERS, frame, run_checks

SOUND = PartitionRow(
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
    "progress-within-source": {"next_upstream": 13},
    "nothing-expired-uncopied": {"source_log_start": 11},
    "copy-not-cut-off": {"target_stable_end": 7},
    "partition-parity": {"target_partitions": 2},
    "progress-never-goes-back": {"reported_next_upstream": 11},
    "lag-not-negative": {"lag_records": -1},
}
GUILTY = {name: replace(SOUND, partition=10 + n, **crime) for n, (name, crime) in enumerate(CRIMES.items())}


@pytest.fixture(scope="module")
def judged():
    """All guilty rows beside the innocent ones, judged at once, by the name of the check."""
    return {it.name: it for it in run_checks(PARTITION_CHECKS, [SOUND, NEW, *GUILTY.values()])}


def test_every_check_has_its_guilty_row():
    """No check is there that was never seen to fail."""
    assert [check.name for check in PARTITION_CHECKS] == list(GUILTY)


def test_every_check_says_what_it_means_and_what_to_do():
    """Names are unique; columns exist."""
    assert len(PARTITION_CHECKS) == len({check.name for check in PARTITION_CHECKS})
    for check in PARTITION_CHECKS:
        assert check.meaning and check.advice
        assert {check.left, *([check.right] if isinstance(check.right, str) else [])} <= set(NUMBERS)


def test_sound_and_new_partitions_pass():
    """A partition that was never copied is not judged by what it does not have."""
    assert [] == [it for it in run_checks(PARTITION_CHECKS, [SOUND, NEW]) if not it.passed]


def test_no_partitions_at_all_pass():
    """A flow without topics has nothing wrong with its partitions."""
    assert all(it.passed for it in run_checks(PARTITION_CHECKS, []))


@pytest.mark.parametrize("name", GUILTY)
def test_the_guilty_partition_is_named(judged, name):
    """It alone, by topic, partition and numbers, with what to do."""
    result = judged[name]
    assert not result.passed
    assert result.observed.startswith(f"orders partition {GUILTY[name].partition}: ")
    assert ";" not in result.observed
    assert next(check for check in PARTITION_CHECKS if check.name == name).advice in result.message


def test_many_guilty_partitions_fit_a_line():
    """The first ones are named, the others counted."""
    rows = [replace(SOUND, partition=number, target_partitions=1) for number in range(9)]
    parity = next(it for it in run_checks(PARTITION_CHECKS, rows) if it.name == "partition-parity")
    assert parity.observed.endswith("partition 4: target_partitions 1, source_partitions 3 and 4 more")


def test_a_check_may_ask_for_a_number():
    """Equal to it, or at least it."""
    exact = Check("exact", Severity.WARNING, "lag_records", Relation.EQUAL, 2, "two", "wait")
    (passed,), (failed,) = run_checks([exact], [SOUND]), run_checks([exact], [replace(SOUND, lag_records=3)])
    assert (True, False) == (passed.passed, failed.passed)


def test_the_frame_has_one_line_a_partition():
    """Missing values are NaN, offsets exact."""
    table = frame([SOUND, NEW])
    assert [10.0] == [it for it in table["next_upstream"] if it == it]
    assert ["topic", *NUMBERS] == list(table.columns)
