"""A cycle's numbers as Prometheus reads them."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from twinlog.errors import ClusterRefused
from twinlog.formats.ledger.records import Gap, GapCause
from twinlog.lifecycle import sync_topics
from twinlog.monitoring import publish
from twinlog.state.ledger import write_ledger
from twinlog.topics import pauses


def test_gaps_pauses_and_lag_stand_in_the_flows_file(
    flow, clusters, orders, copied, target, tmp_path
) -> None:
    """One file a flow; a gap says whether the copy went on behind it."""
    sync_topics.run(flow, clusters)
    copied(orders, 0, 3)
    write_ledger(flow, target, [Gap("orders", 0, 7, 9, GapCause.RETENTION, 1, 3)])
    pauses.pause(flow, target, topics=["orders"], by="jo", reason="load")
    publish.run(replace(flow, metrics_folder=tmp_path), clusters, "run", None, int(time.time() * 1000))
    families = text_string_to_metric_families((tmp_path / "twinlog-A__B.prom").read_text())
    samples = {
        (it.name, frozenset(it.labels.values())): it.value for family in families for it in family.samples
    }
    assert 2 == samples["twinlog_lag_records", frozenset({"A->B", "orders"})]
    assert 3 == samples["twinlog_gap_records", frozenset({"A->B", "orders", "retention", "stopped"})]
    assert (1, 1) == (
        samples["twinlog_paused_topics", frozenset({"A->B"})],
        samples["twinlog_flow_active", frozenset({"A->B"})],
    )


def test_a_folder_that_is_not_there_is_made(flow, clusters, orders, copied, tmp_path) -> None:
    """Nobody has to make it on every worker."""
    copied(orders, 0, 3)
    publish.run(replace(flow, metrics_folder=tmp_path / "a" / "b"), clusters, "run", None, 0)
    assert ["twinlog-A__B.prom"] == [it.name for it in (tmp_path / "a" / "b").iterdir()]


def test_numbers_that_cannot_be_written_fail_no_cycle(
    flow, clusters, orders, copied, tmp_path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its report is kept and returned, and a warning names the setting."""
    caplog.set_level(logging.WARNING)
    copied(orders, 0, 3)
    (tmp_path / "file").touch()
    report = publish.run(replace(flow, metrics_folder=tmp_path / "file"), clusters, "run", None, 0)
    assert "run" == report.run_id
    assert "metrics cannot be written (twinlog.metrics.folder)" in caplog.text


def published(flow, clusters, folder) -> dict[str, float]:
    """The numbers of a cycle that are about the flow, or its one topic."""
    publish.run(replace(flow, metrics_folder=folder), clusters, "run", None, int(time.time() * 1000))
    families = text_string_to_metric_families((folder / "twinlog-A__B.prom").read_text())
    return {it.name.removeprefix("twinlog_"): it.value for family in families for it in family.samples}


def test_records_behind_an_open_transaction_have_numbers_of_their_own(
    flow, clusters, orders, copied, source, tmp_path
) -> None:
    """They are no lag, and the RPO counts them."""
    copied(orders, 0, 3)
    source.topics["orders"].logs[0].undecided = 2
    numbers = published(flow, clusters, tmp_path)
    assert (0, 2, 0) == tuple(numbers[it] for it in ("lag_records", "undecided_records", "unseen_partitions"))
    assert numbers["rpo_seconds"] == pytest.approx(numbers["undecided_seconds"])
    assert numbers["rpo_seconds"] > 3600


def test_an_age_that_nobody_knows_is_no_number(flow, clusters, orders, copied, source, tmp_path) -> None:
    """Zero would be good news."""
    copied(orders, 0, 5)
    assert (0, 0) == tuple(
        published(flow, clusters, tmp_path)[it] for it in ("rpo_seconds", "undecided_seconds")
    )
    source.append(orders, key=b"k", value=b"v", timestamp=-1)
    assert math.isnan(published(flow, clusters, tmp_path)["rpo_seconds"])
    source.topics["orders"].logs[0].undecided = 1
    assert math.isnan(published(flow, clusters, tmp_path)["undecided_seconds"])
    source.refuse("offsets", "orders", ClusterRefused("no"))
    numbers = published(flow, clusters, tmp_path)
    assert (True, 1) == (math.isnan(numbers["rpo_seconds"]), numbers["unseen_partitions"])
