"""The tasks around a failback: they say to the person who approves what is on one side alone."""

from __future__ import annotations

import pytest

from twinlog.formats.ledger.recovery import StepState
from twinlog.recovery.failback.divergence import PartitionDivergence, TopicDivergence
from twinlog.recovery.failback.failback import FailbackReport
from twinlog.recovery.procedure import StepName
from twinlog.recovery.report import PlacedGroup, State, StepReport

pytestmark = pytest.mark.airflow

PARTS = tuple(PartitionDivergence(n, 0, 9, n, 0, 9, None if n == 0 else 2 * n) for n in range(3))


def report_of(*steps: StepReport, groups: tuple[PlacedGroup, ...] = ()) -> FailbackReport:
    topics = (TopicDivergence("orders", "A.orders", False, PARTS),)
    return FailbackReport(
        "A->B",
        "",
        "failback",
        State.PROMOTED,
        True,
        steps,
        topics,
        groups,
        only_on_source=None,
        only_on_target=None,
        strayed=None,
        notes=("orders-0 cannot be read",),
    )


def test_the_note_names_what_is_on_one_side_alone() -> None:
    """Largest first; what could not be looked at is named, and a step that failed is called so."""
    from twinlog.airflow.tasks.failback import note_lines

    looked = StepReport(StepName.COMPARE, StepState.FAILED, 0.1, "not in full")
    saves = StepReport(StepName.EXPORT_TAIL, StepState.PLANNED, 0.0, "writes")
    assert [
        "A->B: save what was never copied; the flow is promoted now",
        "  compare: failed: not in full",
        "  export-tail: writes",
        "on the source alone: at least 3 records",
        "  2 of orders-2",
        "  1 of orders-1",
        "on the target alone: at least 6 records",
        "  4 of A.orders-2",
        "  2 of A.orders-1",
        "orders-0 cannot be read",
    ] == list(note_lines(report_of(looked, saves)))


def test_the_note_of_the_way_home_promises_nothing_of_groups() -> None:
    """How many records they read again is known once both maps cover all of both logs."""
    from twinlog.airflow.tasks.failback import note_lines

    begin = StepReport(StepName.BEGIN, StepState.PLANNED, 0.0, "takes the fences")
    lines = list(note_lines(report_of(begin, groups=(PlacedGroup("billing", "orders", 0, 5, None, None),))))
    assert "A->B: the way home; the flow is promoted now" == lines[0]
    assert [
        "groups: 1, positions: 1",
        "  how many records are read again is known once everything is home; the journal says it",
    ] == lines[-2:]
