import datetime as dt

import pytest

from twinlog.errors import ClusterUnreachable
from twinlog.lab.demo.comparison import TopicComparison
from twinlog.lab.demo.play import Cycle, is_finished_since, make_report, patiently

EQUAL = TopicComparison("orders", "A.orders", 300, 300)
FIRST = Cycle("scheduled__1", "success", 200, 30.0, 4.0, {"orders": 200}, {"orders": 100}, None)
SECOND = Cycle("manual__2", "success", 100, 20.0, 2.0, {"orders": 100}, {"orders": 0}, 21_000)


def test_records_per_second_of_copying() -> None:
    """All records of a topic, over the time in which a Spark job copied."""
    report = make_report([EQUAL], [FIRST, SECOND], 120.04)

    [topic] = report.topics
    assert (50, 0, True) == (topic.records_per_second, topic.lag_records, report.equal)
    assert (2, 0, 120.0, 21_000) == (
        report.cycles,
        report.failed_cycles,
        report.seconds,
        report.heartbeat_latency_ms,
    )


def test_one_difference_is_enough() -> None:
    """Exit 0 is for every record of every topic."""
    other = TopicComparison("clicks", "A.clicks", 5, 4, "partition 0, record 4: missing on the target")

    assert not make_report([EQUAL, other], [FIRST], 1.0).equal


def test_without_a_cycle_nothing_was_copied() -> None:
    """Lag is then what was counted."""
    report = make_report([TopicComparison("orders", "A.orders", 300, 0, "no")], [], 170.0)

    assert (300, 0, None) == (report.topics[0].lag_records, report.cycles, report.heartbeat_latency_ms)


@pytest.mark.parametrize(
    ("state", "start_date", "expected"),
    [
        ("success", "2026-03-01T12:00:01Z", True),
        ("failed", "2026-03-01T12:00:01+00:00", True),
        ("success", "2026-03-01T11:59:59Z", False),
        ("running", "2026-03-01T12:00:01Z", False),
        ("queued", None, False),
    ],
)
def test_last_cycle_begins_after_the_stream_has_stopped(
    state: str, start_date: str | None, expected: bool
) -> None:
    """One that began before may have looked for the ends too early."""
    stopped = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)

    assert expected == is_finished_since(stopped, {"state": state, "start_date": start_date})


def test_a_busy_airflow_is_asked_again_and_that_is_told() -> None:
    """One question that is not answered in time does not end the demo."""
    answers, said = iter([ClusterUnreachable("timed out"), ClusterUnreachable("timed out"), {"dag"}]), []

    def ask() -> set[str]:
        answer = next(answers)
        if isinstance(answer, ClusterUnreachable):
            raise answer
        return answer

    assert {"dag"} == patiently(ask, said.append)
    assert 2 == len(said)
