"""Checks are read from a table."""

from __future__ import annotations

import pytest

from twinlog.checks.check import Check, Relation, Severity, read_checks

TABLE = """
critical whole: gaps = 0
  holds: nothing is lost
  else: see the gaps, and
    copy the topic anew
warning? young: age_seconds <= age_allowed
  holds: the state is young,
    or there is none
  else: run a cycle
"""


def test_a_table_gives_its_checks():
    """Numbers and columns stand to the right, long texts are joined, and a question mark takes `needs` away."""
    assert (
        Check(
            "whole",
            Severity.CRITICAL,
            "gaps",
            Relation.EQUAL,
            0,
            "nothing is lost",
            "see the gaps, and copy the topic anew",
            True,
        ),
        Check(
            "young",
            Severity.WARNING,
            "age_seconds",
            Relation.AT_MOST,
            "age_allowed",
            "the state is young, or there is none",
            "run a cycle",
            False,
        ),
    ) == read_checks(TABLE, needs=True)


@pytest.mark.parametrize(
    "broken",
    [
        TABLE.replace("  holds: nothing is lost\n", ""),
        TABLE.replace("  else: run a cycle\n", ""),
        TABLE.replace("gaps = 0", "gaps"),
        TABLE.replace("warning?", "notice"),
    ],
)
def test_a_check_that_is_written_in_another_way_is_refused(broken):
    """No check is lost in silence."""
    with pytest.raises(ValueError, match="is not written as the others"):
        read_checks(broken)
