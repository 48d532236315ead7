"""The cycle report, returned and remembered."""

import time

import pytest

from twinlog.formats.ledger.records import Gap, GapCause, Incarnation, Quarantine
from twinlog.jsonable import to_json
from twinlog.monitoring import publish
from twinlog.monitoring.exporter import Board
from twinlog.monitoring.metrics import STOPPED_PARTITIONS
from twinlog.state.ledger import read_ledger, write_ledger


def copy_result(**changes):
    """What the copy of the first three records answers, as JSON."""
    return {
        "state": "done",
        "records": 3,
        "bytes": 300,
        "partitions": [{"topic": "orders", "partition": 0, "copied_records": 3, "error": ""}],
        "stopped": [],
    } | changes


GAP = {
    "topic": "orders",
    "partition": 0,
    "code": "gap",
    "message": "m",
    "first_offset": 1,
    "last_offset": 2,
}
"""A partition that waits for a person, as a copy answers."""


@pytest.fixture
def started() -> int:
    return int(time.time() * 1000) - 2_000


def test_a_report_has_the_documented_shape(flow, clusters, orders, copied, started):
    """What `run --once` says; more may be added, these stay."""
    copied(orders, 0, 3)
    report = to_json(publish.run(flow, clusters, "run-1", copy_result(), started))
    partition = {
        "partition": 0,
        "copied_records": 3,
        "last_upstream_offset": 2,
        "lag_records": 2,
        "error": "",
        "undecided_records": 0,
    }
    (topic,) = report["topics"]
    assert (True, 0, 2) == (
        *(topic.pop("rpo_seconds") > 0, topic.pop("undecided_records")),
        topic.pop("lag_records"),
    )
    assert {"topic": "orders", "remote_topic": "A.orders", "partitions": [partition]} == topic
    assert {
        "flow": "A->B",
        "run_id": "run-1",
        "state": "done",
        "records": 3,
        "bytes": 300,
        "gaps": [],
    }.items() <= (report.items())
    assert 2 <= report["seconds"] < 10


def test_without_a_copy_there_was_nothing(flow, clusters, orders, copied, started):
    """The state of partitions comes from the target, not from the caller."""
    copied(orders, 0, 5)
    report = publish.run(flow, clusters, "run-2", None, started)
    assert ("nothing", 0, 0, 4) == (
        report.state,
        report.records,
        report.lag_records,
        report.topics[0].partitions[0].last_upstream_offset,
    )


def test_the_newest_report_is_kept(flow, clusters, orders, copied, started, target):
    """With where each partition goes on, so that the next cycle can see whether progress went back."""
    copied(orders, 0, 3)
    for run_id in ("run-1", "run-2"):
        publish.run(flow, clusters, run_id, copy_result(), started)
    kept = read_ledger(flow, target).last_report
    assert ("run-2", {"orders": {"0": 3}}) == (kept.run_id, kept.summary["next_upstream"])


def test_gaps_and_quarantined_records_are_reported(flow, clusters, orders, started, target):
    """Both are upstream offsets that the copy does not have."""
    gap = Gap("orders", 0, 7, 9, GapCause.RETENTION, 1, 3)
    write_ledger(flow, target, [gap, Quarantine("orders", 0, 4, "too large", 1)])
    report = publish.run(flow, clusters, "run", None, started)
    assert [(4, 4, "quarantine"), (7, 9, "retention")] == [
        (it.first_offset, it.last_offset, it.cause) for it in report.gaps
    ]


def test_a_blocked_topic_fails_the_cycle(flow, clusters, orders, started, target):
    """However well the others were copied."""
    write_ledger(flow, target, [Incarnation("orders", "an-earlier-id", 1, "A.orders")])
    report = publish.run(flow, clusters, "run", copy_result(), started)
    assert ("failed", ["recreated"]) == (report.state, [it.code for it in report.problems])


def test_stopped_partitions_are_reported(flow, clusters, orders, started):
    """With the reason the copy gave."""
    report = publish.run(flow, clusters, "run", copy_result(state="failed", stopped=[GAP]), started)
    assert [GAP] == to_json(report)["stopped"]


@pytest.mark.parametrize(("transient", "expected"), [(False, 2), (True, 1)])
def test_partitions_whose_copy_ended_with_an_error_are_stopped_too(
    flow, clusters, orders, started, transient: bool, expected: int
) -> None:
    """A poisonous record is found by the copy alone; one that may go away by itself waits for no person."""
    places = [
        {"topic": "orders", "partition": number, "copied_records": 0, "error": error}
        for number, error in ((0, "gap"), (1, "too large"), (2, ""))
    ]
    result = copy_result(state="failed", stopped=[GAP], partitions=places, transient=transient)
    board = Board(flow)
    report = publish.run(flow, clusters, "run", result, started, board=board)
    assert expected == report.stopped_partitions
    assert [expected] == [it.value for it in board.now() if it.metric is STOPPED_PARTITIONS]


def test_a_report_of_many_partitions_fits_one_record(flow, clusters, started, source, with_internal):
    """Ten thousand partitions in less than Kafka's megabyte (the fake has a hundred, so a hundredth)."""
    source.add_topic("a-topic-with-a-rather-long-name", 100)
    publish.run(flow, clusters, "run", None, started)
    last = with_internal.topics[flow.ledger_topic].logs[0].records[-1]
    assert len(last.value) < 10_000


def test_a_cycle_that_failed_beside_its_copy_failed(flow, clusters, target, orders, copied, started):
    """A topic the target refused leaves nothing to copy, and that is no success."""
    copied(orders, 0, 5)
    for copy in (None, copy_result()):
        report = publish.run(flow, clusters, "run", copy, started, failed=True)
        assert "failed" == report.state == read_ledger(flow, target).last_report.summary["state"]
