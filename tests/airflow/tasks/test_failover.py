"""The tasks around a failover: they say to the person who approves what would be done."""

from __future__ import annotations

import string

import pytest

from twinlog.judge.check import Mode
from twinlog.recovery.report import FailoverReport, PartitionAtRisk, PlacedGroup, State, TopicAtRisk

pytestmark = pytest.mark.airflow


def test_the_note_names_what_is_lost_and_what_is_read_again() -> None:
    """Largest losses first; what is unknown is called so, and makes no sum smaller."""
    from twinlog.airflow.tasks.failover import note, rows

    parts = tuple(PartitionAtRisk(n, 10, 10 - n, n, at_risk_records=n) for n in range(3))
    unseen = PartitionAtRisk(3, None, None, 0, unseen=True)
    groups = (
        PlacedGroup("billing", "orders", 0, 5, 4, 1),
        PlacedGroup("billing", "orders", 1, 5, None, None),
        PlacedGroup("audit", "orders", 0, 5, 5, 0, 0, exact=True),
    )
    found = FailoverReport(
        "A->B",
        "",
        Mode.PLANNED,
        State.FOLLOWING,
        True,
        (),
        (TopicAtRisk("orders", "A.orders", (*parts, unseen)),),
        groups,
    )
    assert [
        (
            "missing",
            "at least 3 records are not on the target now; one partition of orders could not be looked at",
        ),
        ("missing", "2 of orders-2, copy A.orders"),
        ("missing", "1 of orders-1, copy A.orders"),
        ("groups", "2, positions: 3"),
        ("read again", "billing: 1 records of orders-0"),
        ("read again", "not known for 1 positions"),
        ("skipped", "no group is known to skip a record, and of 2 positions it is not known"),
    ] == list(rows(found))
    verdict, *_ = note(found, ("a yes costs", "nothing")).splitlines()
    assert verdict == escaped_bold(
        "A->B (planned): FOLLOWING; dry run, nothing was changed; 3 records are known to be missing on the target;"
        " one partition of orders could not be looked at; 1 group would read 1 record again, 1 group exact,"
        " not known of 1 group"
    )


def escaped_bold(text: str) -> str:
    """A line that Markdown shows as it is, in bold."""
    return "**" + "".join(f"\\{it}" if it in string.punctuation else it for it in text) + "**"
