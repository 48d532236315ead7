"""One row per partition, from clusters in memory."""

from dataclasses import replace

import pytest

from twinlog.cluster.admin.open_transactions import OpenTransaction
from twinlog.config.flow.copying import CopySettings
from twinlog.config.flow.settings import CopiedBy
from twinlog.errors import ClusterRefused
from twinlog.fact import Total
from twinlog.facts.observe import observe, oldest_seconds, undecided_seconds
from twinlog.facts.partition import MapSummary
from twinlog.formats.ledger.observed import Observed, ObservedFinding
from twinlog.formats.ledger.records import CycleReport, Incarnation
from twinlog.kafka_types import TopicPartition
from twinlog.policy.selection import NameFilter
from twinlog.state.ledger import write_ledger
from twinlog.topics.snapshot import FlowSnapshot


def only_row(flow, clusters):
    (row,) = observe(FlowSnapshot(flow, clusters)).partitions
    return row


def test_before_the_first_copy_everything_lags(flow, clusters, orders):
    """No progress, no map; the oldest record waits since its source timestamp."""
    row = only_row(flow, clusters)
    assert (None, 5, 1_000, MapSummary()) == (
        row.next_upstream,
        row.lag_records,
        row.oldest_uncopied,
        row.mapped,
    )


def test_half_way_the_rest_lags(flow, clusters, orders, copied):
    """Progress, map and the first record still to come."""
    copied(orders, 0, 3)
    row = only_row(flow, clusters)
    assert (3, 2, 2, 1_003) == (row.next_upstream, row.last_upstream, row.lag_records, row.oldest_uncopied)
    assert MapSummary(3, 3, 3, 3, 3) == row.mapped


def test_when_all_is_copied_nothing_lags(flow, clusters, orders, copied):
    """RPO is zero."""
    copied(orders, 0, 5)
    seen = observe(FlowSnapshot(flow, clusters))
    assert (Total(0), None, 0.0) == (
        seen.lag,
        seen.partitions[0].oldest_uncopied,
        seen.rpo_seconds,
    )


def test_trailing_markers_are_no_lag(flow, clusters, orders, copied, source):
    """Behind the last record only a transaction marker is left: there is nothing to copy."""
    copied(orders, 0, 5)
    source.topics["orders"].logs[0].end += 1
    assert 0 == only_row(flow, clusters).lag_records


@pytest.mark.parametrize(
    ("done", "log_start", "waits"), [(0, 2, 1_002), (1, 3, 1_003), (3, 1, 1_003), (3, 5, None)]
)
def test_a_copy_continues_where_the_log_still_is(
    flow, clusters, orders, copied, source, done: int, log_start: int, waits: int | None
):
    """Behind the progress, or at the log start when that is later."""
    if done:
        copied(orders, 0, done)
    source.topics["orders"].logs[0].delete_before(log_start)
    row = only_row(flow, clusters)
    assert (waits, 5 - max(done, log_start)) == (row.oldest_uncopied, row.lag_records)


def test_undecided_records_are_no_lag_and_not_nothing(flow, clusters, orders, copied, source):
    """A flow that reads committed records can only copy up to the stable end; what lies behind counts, and ages."""
    copied(orders, 0, 3)
    source.topics["orders"].logs[0].undecided = 2
    seen = observe(FlowSnapshot(flow, clusters))
    (row,) = seen.partitions
    assert (0, 2, 1_003, 2) == (
        row.lag_records,
        row.undecided_records,
        row.oldest_undecided,
        row.missing_records,
    )
    assert (Total(0), Total(2)) == (seen.lag, seen.undecided_records)
    assert (seen.at_ms - 1_003) / 1000 == pytest.approx(seen.rpo_seconds)


def test_nothing_is_undecided_to_a_flow_that_reads_uncommitted(flow, clusters, orders, copied, source):
    """It copies such records like any other, and lags by them until it has."""
    flow = replace(flow, copy=CopySettings(read_committed=False))
    source.topics["orders"].logs[0].undecided = 2
    copied(orders, 0, 3)
    row = only_row(flow, clusters)
    assert (2, 1_003, 0) == (row.lag_records, row.oldest_uncopied, row.undecided_records)
    copied(orders, 3, 5)
    assert (0, None, 0) == (
        (row := only_row(flow, clusters)).lag_records,
        row.oldest_uncopied,
        row.undecided_records,
    )


@pytest.fixture
def held(orders, copied, source):
    """The last two records of `orders` lie behind a transaction, the rest is copied."""
    copied(orders, 0, 3)
    log = source.topics["orders"].logs[0]
    log.undecided = 2
    return log


def told(flow, clusters):
    seen = observe(FlowSnapshot(flow, clusters))
    (it,) = seen.undecided
    return it


def test_who_holds_a_transaction_is_named(flow, clusters, held):
    """With its transactional id the application can be found, and a coordinator that holds it open will end it."""
    held.held_by = OpenTransaction(3, 17, 2, "pay-1", started_ms=1_500, timeout_ms=60_000)
    found = told(flow, clusters)
    assert (17, "pay-1", 3, 2, "1970-01-01T00:00:01+00:00") == (
        found.producer_id,
        found.transactional_id,
        found.first_offset,
        found.records,
        found.since,
    )
    assert "the application of pay-1" in found.hint


def test_a_transaction_that_its_coordinator_does_not_hold_is_for_kafkas_tool(flow, clusters, held):
    """It ends when somebody aborts it (KIP-664)."""
    held.held_by = OpenTransaction(3, 17, 2, "pay-1")
    hint = told(flow, clusters).hint
    assert "kafka-transactions.sh --bootstrap-server nowhere:9092 abort --topic orders --partition 0" in hint
    assert hint.endswith("--start-offset 3 aborts it")


def test_a_transaction_whose_coordinator_is_not_known_may_be_alive(flow, clusters, held):
    """To abort it in one partition would tear it apart: that it hangs must be known first."""
    held.held_by = OpenTransaction(3, 17, 2)
    assert (
        "find-hanging --topic orders --partition 0 tells whether it hangs; if so" in told(flow, clusters).hint
    )


def test_a_source_that_does_not_tell_who_holds_it_costs_only_that(flow, clusters, held, source):
    """The records are counted all the same, and the refusal is told."""
    source.refuse("open_transactions", "orders", ClusterRefused("A wants READ"))
    found = told(flow, clusters)
    assert (2, None, "") == (found.records, found.producer_id, found.transactional_id)
    assert "A does not tell whose: A wants READ" in found.message


def test_the_earlier_of_two_clocks_says_since_when(flow, clusters, held):
    """A record may be stamped long before its transaction began, or after."""
    for started_ms, expected in ((500, 500), (1_500, 1_003), (None, 1_003)):
        held.held_by = OpenTransaction(3, 17, 2, "pay-1", started_ms, 60_000)
        assert expected == only_row(flow, clusters).undecided_since


def test_only_transactions_that_last_are_asked_about(flow, clusters, held, source, monkeypatch):
    """Most end in milliseconds, and a cycle meets some of them."""
    monkeypatch.setattr("twinlog.clock.now_ms", lambda: 61_003)
    monkeypatch.setattr(source, "open_transactions", None)
    assert Total(2) == observe(FlowSnapshot(flow, clusters)).undecided_records


def test_a_flow_from_the_latest_owes_nothing_of_before(flow, clusters, orders):
    """`auto.offset.reset=latest`: without progress the copy starts at the end."""
    flow = replace(flow, copy=CopySettings(start_from_latest=True))
    assert 0 == only_row(flow, clusters).lag_records


def test_pieces_of_an_earlier_life_do_not_count(flow, clusters, orders, copied, source):
    """Another topic id's offsets are other offsets."""
    copied(orders, 0, 5)
    source.topics["orders"].topic_id = "another"
    assert MapSummary() == only_row(flow, clusters).mapped


def test_a_blocked_topic_has_no_rows(flow, clusters, orders, target):
    """Its offsets would be compared with another life's."""
    write_ledger(flow, target, [Incarnation("orders", "an-earlier-id", 1, "A.orders")])
    assert () == observe(FlowSnapshot(flow, clusters)).partitions


def test_the_last_report_is_remembered(flow, clusters, orders, target):
    """What it said of each partition stands in its row."""
    write_ledger(flow, target, [CycleReport("run", {"next_upstream": {"orders": {"0": 4}}}, 1)])
    assert 4 == only_row(flow, clusters).reported_next_upstream


def test_surveying_changes_nothing(flow, clusters, orders, target):
    """It only reads."""
    observe(FlowSnapshot(flow, clusters))
    assert [] == target.calls


def test_an_age_is_known_when_that_of_all_that_is_missing_is(flow, clusters, orders):
    """One record without a timestamp may be older than all others; what is copied is not asked."""
    row = only_row(flow, clusters)
    untold, done = replace(row, oldest_uncopied=None), replace(row, oldest_uncopied=None, lag_records=0)
    behind = replace(done, undecided_records=1, oldest_undecided=500, undecided_since=500)
    nowhen = replace(done, undecided_records=1)
    cases = {9.0: [row, done], None: [row, untold], 9.5: [row, behind], 0.0: [done]}
    assert list(cases) == [oldest_seconds(rows, 10_000, within=300) for rows in cases.values()]
    assert [None] * 3 == [
        oldest_seconds(rows, 10_000, within=300, unseen=unseen)
        for rows, unseen in (([row, nowhen], 0), ([done], 1), ([], 2))
    ]
    assert (9.5, None, 0.0) == tuple(
        undecided_seconds(rows, 10_000, within=300) for rows in ([row, behind], [nowhen, behind], [row])
    )


def test_an_age_over_its_budget_is_told_whatever_else_is_not_known(flow, clusters, orders):
    """A partition that cannot be read must not silence the alarm about another; a record may have an unread copy."""
    row = only_row(flow, clusters)
    assert 9.0 == oldest_seconds([row], 10_000, within=5, unseen=3)
    unread = replace(row, unread=1)
    assert [9.0, None] == [oldest_seconds([unread], 10_000, within=within) for within in (9, 8)]


@pytest.mark.parametrize("broken", ["offsets", "describe_topics"])
def test_nothing_is_said_of_what_could_not_be_looked_at(flow, clusters, orders, copied, source, broken):
    """Everything that was seen is copied; what was not seen may be a year behind."""
    copied(orders, 0, 5)
    source.add_topic("users", partitions=2)
    source.append(TopicPartition("users", 0), key=b"k", value=b"v", timestamp=1)
    source.refuse(broken, "users", ClusterRefused("no"))
    seen = observe(FlowSnapshot(flow, clusters))
    unseen = {"offsets": 2, "describe_topics": 1}[broken]
    doubted = Total(0, f"{unseen} partition(s) could not be looked at")
    assert (unseen, None, doubted, None) == (seen.unseen, seen.rpo_seconds, seen.lag, seen.lag.shown)


def test_a_topic_whose_records_may_not_be_read_costs_no_other_one(flow, clusters, orders, source):
    """It is unseen, with the reason: without its first record nobody knows what lags."""
    source.add_topic("idle")
    source.append(TopicPartition("idle", 0), key=b"k", value=b"v", timestamp=1)
    source.refuse("read_records", "orders", ClusterRefused("A does not allow it", hint="grant READ"))
    seen = observe(FlowSnapshot(replace(flow, topics=NameFilter(("orders", "idle"))), clusters))
    assert (["idle"], 1) == ([it.topic for it in seen.partitions], seen.unseen)
    assert [("orders", "A does not allow it", "grant READ")] == [
        (it.topic, it.message, it.hint) for it in seen.problems
    ]


@pytest.mark.parametrize(("first", "seconds"), [(2, 8.998), (1, 8.999), (4, 8.996), (None, None), (99, None)])
def test_a_record_that_another_engine_has_passed_over_waits_too(
    flow, clusters, orders, copied, target, first: int | None, seconds: float | None
):
    """Since its own time; if nobody can read it, how long it has waited is not known, and no 0."""
    copied(orders, 0, 5)
    named = () if first is None else (ObservedFinding("missing", (first, first + 1), None, 1, (), 1),)
    topic_id = observe(FlowSnapshot(flow, clusters)).topics[0].topic_id
    seen = Observed(
        "orders", topic_id, 0, "A.orders", "", 0, 5, 5, 5, 4, {"missing": 1}, {}, named, 0, 0, 1, {}
    )
    write_ledger(flow, target, [seen])
    row = only_row(flow, clusters)
    assert 0 == row.lag_records
    assert seconds == oldest_seconds([row], 10_000, within=300)


@pytest.mark.parametrize(
    ("beats", "lag"), [(True, Total(4)), (False, Total(3, "1 offsets of the copy were not"))]
)
def test_heartbeats_that_no_cycle_has_read_yet_leave_users_records_counted(
    flow, clusters, source, target, beats: bool, lag: Total
):
    """An engine copies one each second, and so always after the look; of users' records that would be a doubt."""
    name = "heartbeats" if beats else "orders"
    flow = replace(flow, topics=NameFilter((".*",)), copied_by=CopiedBy.MIRROR_MAKER)
    source.add_topic(name)
    target.add_topic(f"A.{name}")
    for _ in range(4):
        source.append(TopicPartition(name, 0), key=b"k", value=b"v", timestamp=1)
    target.append(TopicPartition(f"A.{name}", 0), key=b"k", value=b"v", timestamp=1)
    found = observe(FlowSnapshot(flow, clusters)).lag
    assert lag == replace(found, doubt=found.doubt[: len(lag.doubt)])
