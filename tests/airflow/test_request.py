import datetime as dt

import pytest

from twinlog.airflow.cycle import CycleRequest, cycle_request
from twinlog.errors import UsageError

END = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
END_MS = 1_772_366_400_000
UNTOUCHED_FORM = {"topics": [], "until": None, "dry_run": False}


def test_untouched_form_of_a_manual_run_asks_for_everything_up_to_now() -> None:
    """A manual run has no end, also when Airflow gave it an interval."""
    assert CycleRequest() == cycle_request(UNTOUCHED_FORM, run_type="manual", interval_end=END)


def test_scheduled_run_copies_up_to_now() -> None:
    """A record stamped in the future must not hold its partition back, so the interval is no bound."""
    assert CycleRequest() == cycle_request(UNTOUCHED_FORM, run_type="scheduled", interval_end=END)


def test_backfill_run_ends_at_its_interval() -> None:
    """A backfill over a day is a series of bounded cycles."""
    asked = cycle_request(UNTOUCHED_FORM, run_type="backfill", interval_end=END)

    assert CycleRequest(until_ms=END_MS) == asked


@pytest.mark.parametrize("run_type", ["manual", "scheduled", "backfill"])
def test_form_wins_over_the_interval(run_type: str) -> None:
    """Who fills in a time means it."""
    form = UNTOUCHED_FORM | {"until": "2026-03-01T11:59:59.500Z", "topics": ["orders"], "dry_run": True}

    asked = cycle_request(form, run_type=run_type, interval_end=END)

    assert CycleRequest(("orders",), dry_run=True, until_ms=END_MS - 500) == asked


def test_time_without_a_zone_is_utc() -> None:
    """Everything in Airflow's runs is UTC."""
    asked = cycle_request(
        UNTOUCHED_FORM | {"until": "2026-03-01T12:00:00"}, run_type="manual", interval_end=None
    )

    assert END_MS == asked.until_ms


def test_what_is_no_time_is_refused() -> None:
    """`airflow dags trigger --conf` can send any text."""
    with pytest.raises(UsageError, match="'yesterday' is no time; write"):
        cycle_request(UNTOUCHED_FORM | {"until": "yesterday"}, run_type="manual", interval_end=None)
