"""A load that cannot be is refused with the option's name."""

import math

import pytest

from twinlog.errors import UsageError
from twinlog.sizing.load import Load, check


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"partitions": 0}, "--partitions: 0 is not possible"),
        ({"partitions": 1_000_001}, "--partitions: 1e+06 is not possible"),
        ({"mb_per_second": -1}, "--mb-per-second: -1 is not possible"),
        ({"mb_per_second": math.nan}, "--mb-per-second: nan is not possible"),
        ({"mb_per_second": math.inf}, "--mb-per-second: inf is not possible"),
        ({"batch_bytes": 99}, "--batch-bytes: 99 is not possible"),
        ({"slots": 0}, "--slots: 0 is not possible"),
        ({"every_seconds": 0}, "--every: 0 is not possible"),
        ({"brokers": 0}, "--brokers: 0 is not possible"),
        ({"outage_seconds": 31 * 86_400}, "--outage: 2.6784e+06 is not possible"),
        ({"retention_seconds": -1}, "--retention: -1 is not possible"),
        ({"new_partitions_per_day": -1}, "--new-partitions-per-day: -1 is not possible"),
    ],
)
def test_impossible_numbers_are_refused(given, message):
    """One line says which option, and what is possible."""
    with pytest.raises(UsageError, match="is not possible") as refused:
        check(Load(**{"partitions": 10, "mb_per_second": 1} | given))
    assert message == refused.value.message
    assert "name a number from" in refused.value.hint


def test_a_flow_grows_in_both():
    """Twice the partitions bring twice the bytes."""
    assert Load(partitions=20, mb_per_second=3) == Load(partitions=10, mb_per_second=1.5).times(2)
