"""One row per partition, from clusters in memory."""

from dataclasses import replace

from twinlog.cluster.ledger import write_ledger
from twinlog.config.settings import CopySettings
from twinlog.formats.ledger import CycleReport, Incarnation
from twinlog.quality.partitions import MapSummary
from twinlog.steps.survey import age_seconds, known_age_seconds, survey


def only_row(flow, clusters):
    (row,) = survey(flow, clusters).rows
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
    seen = survey(flow, clusters)
    assert (0, None, 0.0) == (seen.lag_records, seen.rows[0].oldest_uncopied, seen.rpo_seconds)


def test_trailing_markers_are_no_lag(flow, clusters, orders, copied, source):
    """Behind the last record only a transaction marker is left: there is nothing to copy."""
    copied(orders, 0, 5)
    source.topics["orders"].logs[0].end += 1
    assert 0 == only_row(flow, clusters).lag_records


def test_undecided_records_do_not_lag_yet(flow, clusters, orders, copied, source):
    """A flow that reads committed records can only copy up to the stable end."""
    copied(orders, 0, 3)
    source.topics["orders"].logs[0].undecided = 2
    assert 0 == only_row(flow, clusters).lag_records


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
    assert () == survey(flow, clusters).rows


def test_the_last_report_is_remembered(flow, clusters, orders, target):
    """What it said of each partition stands in its row."""
    write_ledger(flow, target, [CycleReport("run", {"next_upstream": {"orders": {"0": 4}}}, 1)])
    assert 4 == only_row(flow, clusters).reported_next_upstream


def test_age_is_that_of_the_oldest_record(flow, clusters, orders):
    """Never negative, whatever the clocks say."""
    row = only_row(flow, clusters)
    rows = [row, replace(row, oldest_uncopied=500), replace(row, oldest_uncopied=None)]
    assert [1.5, 0.0, 0.0] == [age_seconds(rows, 2_000), age_seconds(rows, 100), age_seconds([], 2_000)]


def test_surveying_changes_nothing(flow, clusters, orders, target):
    """It only reads."""
    survey(flow, clusters)
    assert [] == target.calls


def test_an_age_is_known_when_that_of_all_that_lags_is(flow, clusters, orders):
    """One record without a timestamp may be older than all others; what is copied is not asked."""
    row = only_row(flow, clusters)
    untold, done = replace(row, oldest_uncopied=None), replace(row, oldest_uncopied=None, lag_records=0)
    assert 9.0 == known_age_seconds([row, done], 10_000)
    assert None is known_age_seconds([row, untold], 10_000)
    assert 9.0 == age_seconds([row, untold], 10_000)
    assert 0.0 == known_age_seconds([done], 10_000)
