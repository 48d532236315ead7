"""The report of a run that follows, made while it does."""

import time

import pytest

from twinlog.copying.ranges import StoppedPartition
from twinlog.errors import TransientError
from twinlog.follow.report import Reporter, RunState
from twinlog.monitoring import publish
from twinlog.state.ledger import read_ledger


@pytest.fixture
def reporter() -> Reporter:
    return Reporter(RunState("dag/run/1", int(time.time() * 1000) - 2_000))


def reported(flow, target) -> tuple[str, str, int, int]:
    report = read_ledger(flow, target).last_report
    return report.run_id, report.summary["state"], report.summary["records"], report.summary["lag_records"]


def test_each_report_counts_what_came_since_the_first(flow, clusters, orders, copied, reporter):
    """By the map; and it is the flow's newest report, with what is at risk, as after a cycle."""
    copied(orders, 0, 2)
    reporter.report(flow, clusters)
    assert ("dag/run/1", "nothing", 0, 3) == reported(flow, clusters.target)
    copied(orders, 2, 3)
    copied(orders, 3, 4)
    reporter.report(flow, clusters)
    reporter.report(flow, clusters)
    assert ("dag/run/1", "done", 2, 1) == reported(flow, clusters.target)
    ledger = read_ledger(flow, clusters.target)
    assert (3, ["orders"]) == (
        ledger.risk_samples[-1].records,
        [it.topic for it in ledger.known_source.topics],
    )


def test_records_count_from_where_the_run_began(flow, clusters, orders, copied, reporter):
    """Also those that were copied before the first report, and none that another run copied."""
    copied(orders, 0, 1)
    reporter.run_state.starts = {orders: 1}
    copied(orders, 1, 3)
    reporter.report(flow, clusters)
    assert ("dag/run/1", "done", 2, 2) == reported(flow, clusters.target)


def test_a_partition_that_is_not_copied_fails_the_report(flow, clusters, orders, copied, reporter):
    """Whether the open window leaves it out, or its lane has ended with it; until the driver says otherwise."""
    copied(orders, 0, 5)
    stopped = StoppedPartition("orders", 0, "truncation", "orders-0: its log ends before", 4, 4)
    reporter.run_state.stopped = (stopped,)
    reporter.report(flow, clusters)
    assert "failed" == reported(flow, clusters.target)[1]
    reporter.run_state.stopped, reporter.run_state.errors = (), {("orders", 0): "a record is too large"}
    reporter.report(flow, clusters)
    assert "failed" == reported(flow, clusters.target)[1]
    reporter.run_state.errors = {}
    reporter.report(flow, clusters)
    assert "nothing" == reported(flow, clusters.target)[1]


def test_what_it_says_is_what_publish_understands(flow, clusters, orders, copied, reporter, monkeypatch):
    """The partition's own count, its error, and the stopped ones come out in the report."""
    made = []
    run = publish.run
    monkeypatch.setattr(publish, "run", lambda *given, **more: made.append(run(*given, **more)))
    copied(orders, 0, 1)
    reporter.report(flow, clusters)
    copied(orders, 1, 4)
    stopped = StoppedPartition("gone", 3, "gap", "gone-3: deleted", 1, 2)
    reporter.run_state.stopped, reporter.run_state.errors = (stopped,), {("orders", 0): "too large"}
    reporter.report(flow, clusters)
    [topic] = made[-1].topics
    [partition] = topic.partitions
    assert (3, 3, 1, "too large") == (
        partition.copied_records,
        partition.last_upstream_offset,
        partition.lag_records,
        partition.error,
    )
    assert ((stopped,), 3, 0) == (made[-1].stopped, made[-1].records, made[-1].bytes)


def test_a_critical_check_that_fails_is_told_behind_the_report(
    flow, clusters, source, orders, copied, reporter
):
    """The report is there for whoever asks; the driver's log says what is wrong."""
    copied(orders, 0, 2)
    source.delete_records(orders, before=4)
    with pytest.raises(TransientError, match="nothing-expired-uncopied") as failed:
        reporter.report(flow, clusters)
    assert ["nothing-expired-uncopied"] == failed.value.data["checks"]
    assert "dag/run/1" == reported(flow, clusters.target)[0]


def test_it_tells_of_open_transactions_as_a_cycle_does(flow, clusters, orders, copied, source, reporter):
    """In the ledger for the gate, and as an alarm; the copy itself is well."""
    copied(orders, 0, 3)
    source.topics["orders"].logs[0].undecided = 2
    reporter.report(flow, clusters)
    ledger = read_ledger(flow, clusters.target)
    (known,) = ledger.known_source.topics
    assert (2, 2, 2, 1_003) == (
        ledger.last_report.summary["undecided_records"],
        known.records_at_risk,
        known.undecided,
        known.undecided_ms,
    )
    assert ["orders", "orders-0"] == ledger.last_report.summary["told"]["faults"]
