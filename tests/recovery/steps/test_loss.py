"""What is lost with the source: known by the last report, estimated by the rate before it."""

from __future__ import annotations

from typing import Any

import pytest

from twinlog.cluster.values import PartitionOffsets
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.recovery.steps.loss import RECORDS, partition_loss, rate_before

AT = TopicPartition("orders", 0)
COPY = PartitionOffsets(0, 90, 90)


def report(**numbers: int) -> dict[str, Any]:
    """A report's summary about one partition."""
    return {key: {"orders": {"0": value}} for key, value in numbers.items()}


class TestPartitionLoss:
    @pytest.mark.parametrize(
        ("summary", "last", "end", "known"),
        [
            (report(next_upstream=90), 89, 90, 0),
            (report(next_upstream=90, lag=10, ends=100), 89, 100, 10),
            (report(next_upstream=90, lag=10, ends=100), 95, 100, 4),
            (report(next_upstream=90, lag=10, ends=100), 120, 121, 0),
            (report(next_upstream=90, lag=6, undecided=4, ends=100), 89, 100, 10),
            (report(next_upstream=90, lag=3, ends=100), 89, 100, 3),
            (report(lag=7, ends=7), None, 7, 7),
            ({}, 89, 90, 0),
        ],
        ids=[
            "all-copied",
            "lag",
            "copied-since",
            "copied-beyond",
            "undecided",
            "markers",
            "never-copied",
            "unseen",
        ],
    )
    def test_known(self, summary: dict[str, Any], last: int | None, end: int, known: int):
        """By what the report saw, less what was copied since; the source's end is never before the copy's."""
        row = partition_loss(AT, summary, last, COPY, None, 60.0)
        assert (end, 90, known, None) == (
            row.upstream_end,
            row.downstream_end,
            row.at_risk_records,
            row.estimated_records,
        )

    def test_estimated(self):
        """The known loss, and the rate times the time since the report."""
        summary = report(next_upstream=90, lag=10, ends=100)
        assert 10 + 300 == partition_loss(AT, summary, 89, COPY, 5.0, 60.0).estimated_records


class TestRateBefore:
    def test_counts_the_minute_before(self):
        """Records of earlier times, and of a time after the report, do not count."""
        newest = [ReadRecord(n, at, None, None) for n, at in enumerate([1, 60_001, 70_000, 120_000, 120_001])]
        assert 3 / 60 == pytest.approx(rate_before(newest, 120_000))

    def test_a_busy_partition_is_measured_by_what_was_read(self):
        """All records that were read lie in the last second: their own span counts."""
        newest = [ReadRecord(n, 119_000 + n, None, None) for n in range(RECORDS)]
        assert RECORDS == pytest.approx(rate_before(newest, 120_000), rel=0.01)

    def test_nothing_lately(self):
        """A partition that stood still loses nothing more, as far as anybody knows."""
        assert 0 == rate_before([ReadRecord(0, 1, None, None)], 10**9)
