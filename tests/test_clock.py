"""Times: any number of milliseconds that a record, a ledger or a broker names can be written."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from twinlog.clock import is_due, iso

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.mark.parametrize(
    ("expected", "milliseconds"),
    [
        ("1970-01-01T00:00:00+00:00", 0),
        ("9999-12-31T23:59:59+00:00", 253_402_300_799_999),
        ("+10000-01-01T00:00:00+00:00", 253_402_300_800_000),
        ("+58751-08-24T09:43:20+00:00", 1_791_855_596_600_000),
        ("0000-01-01T00:00:00+00:00", -62_167_219_200_000),
        ("-0001-12-31T23:59:59+00:00", -62_167_219_200_001),
    ],
)
def test_a_time_is_written_whatever_its_year(expected, milliseconds):
    """Microseconds for milliseconds are the year 58750."""
    assert expected == iso(milliseconds)


@given(INT64)
@example((1 << 63) - 1)
@example(-(1 << 63))
def test_every_number_of_64_bits_is_a_time(milliseconds):
    """A producer chooses a record's timestamp freely."""
    assert iso(milliseconds).endswith("+00:00")


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_what_datetime_can_hold_is_written_as_datetime_does(milliseconds):
    """For readers of today's JSON nothing changes."""
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)
    assert moment.isoformat(timespec="milliseconds") == iso(milliseconds, "milliseconds")
    assert moment == dt.datetime.fromisoformat(iso(milliseconds, "milliseconds"))


def test_a_moment_of_a_schedule_has_to_pass():
    """Each moment of a cron expression counts once."""
    hourly, minute = "45 * * * *", 60_000
    at = 45 * minute
    assert [False, True, False, True] == [
        is_due(hourly, 0, at - 1),
        is_due(hourly, 0, at),
        is_due(hourly, at, at + 59 * minute),
        is_due(hourly, at, at + 60 * minute),
    ]
