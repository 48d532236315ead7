"""The tasks around a failback: they say to the person who approves what is on one side alone."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from seen_flow import FLOW

from twinlog.formats.ledger.recovery import StepState
from twinlog.procedure import StepName, StepReport
from twinlog.recovery.one_sided.divergence import PartitionDivergence, TopicDivergence
from twinlog.recovery.report import FailbackReport, PlacedGroup, State

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
    """Largest first; what could not be looked at is named; of groups nothing is promised, as nothing is known."""
    from twinlog.airflow.tasks.failover import note, rows

    looked = StepReport(StepName.COMPARE, StepState.FAILED, 0.1, "not in full")
    found = report_of(looked, groups=(PlacedGroup("billing", "orders", 0, 5, None, None),))
    assert [
        ("on the source alone", "at least 3 records"),
        ("on the source alone", "2 of orders-2"),
        ("on the source alone", "1 of orders-1"),
        ("on the target alone", "at least 6 records"),
        ("on the target alone", "4 of A.orders-2"),
        ("on the target alone", "2 of A.orders-1"),
        ("see to it", "orders-0 cannot be read"),
        ("groups", "1 groups, 1 positions"),
        ("read again", "not known for 1 positions"),
        ("skipped", "no group is known to skip a record, and of 1 positions it is not known"),
    ] == list(rows(found))
    assert note(found).endswith("Step by step:\n\n| | |\n|---|---|\n| compare | not in full |")


@pytest.mark.parametrize(
    ("paused", "says"),
    [(True, "is paused"), (False, ""), (None, "may be paused, Airflow does not tell")],
)
def test_a_paused_dag_that_brings_home_is_named(paused: bool | None, says: str) -> None:
    """By its id with the prefix of the user's own Dags; what Airflow does not tell is not taken for running."""
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time.comms import ErrorResponse

    from twinlog.airflow.tasks.failback import _paused

    def get_dag(dag_id: str) -> SimpleNamespace:
        assert "own_replicate__B_home__A" == dag_id
        if paused is None:
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.GENERIC_ERROR))
        return SimpleNamespace(is_paused=paused)

    home = replace(FLOW, source=FLOW.target, target=FLOW.source, homes={})
    context = {"dag": SimpleNamespace(dag_id="own_failback"), "ti": SimpleNamespace(get_dag=get_dag)}
    expected = f"own_replicate__B_home__A {says}: unpause it, it brings home what comes while this waits"
    assert ([expected] if says else []) == _paused(context, home)
