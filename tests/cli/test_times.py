"""Moments and durations as people type them."""

import pytest

from twinlog.cli.options import parse_duration, parse_moment
from twinlog.errors import UsageError


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-02", 86_400_000),
        ("1769860800000", 1_769_860_800_000),
    ],
)
def test_a_moment_is_utc_unless_it_says_otherwise(text: str, moment: int) -> None:
    """ISO 8601 or epoch ms."""
    assert parse_moment(text) == moment


@pytest.mark.parametrize("text", ["yesterday", "12:00", "17", ""])
def test_what_is_no_moment_is_refused(text: str) -> None:
    """The message shows how to write one."""
    with pytest.raises(UsageError, match="is no time; write 2026-01-31T12:00:00Z"):
        parse_moment(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("1d", 86_400)]
)
def test_a_duration_is_a_count_of_units(text: str, seconds: int) -> None:
    """Units add up."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["10", "m", "-1m", "1.5h", "ten minutes", ""])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """A bare number has no unit."""
    with pytest.raises(UsageError, match="is no duration; write 90s, 10m or 1h30m"):
        parse_duration(text)
