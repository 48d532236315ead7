"""The Dags that try what a failover promises, production untouched: of a flow on its schedule, and by hand."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import DAG

from twinlog.airflow.alerts import DrillAlert
from twinlog.airflow.assets import DRILLED
from twinlog.airflow.dags.common import calls, dag_by_hand, dag_of_flow
from twinlog.airflow.form import CHOSEN
from twinlog.airflow.tasks.drill import PARAMS, run_drill
from twinlog.airflow.versions import CronTriggerTimetable
from twinlog.config.flow.settings import FlowSettings

WHAT = "Try whether groups of the source would go on at the right record on the target"

TEXT = """\
### Would applications go on at the right record on the target?

A run clones groups of the source on the target, really reads with the clones, judges the first records, and deletes the
clones; nothing that applications use is changed. It runs as `twinlog.drill.schedule` says, and when you **trigger** it.
A drill that passes sends an event of the asset `twinlog://<target>/drill/<source>`. One that fails sends an alarm to
`twinlog.alert.url`; one that had nothing to read proves nothing, and is skipped. If a run is stopped or its worker
dies, the next one deletes what is left. See docs/runbooks/drill.md.
"""


def of_flow(dag_id: str, flow: FlowSettings) -> DAG:
    """Return the Dag of one flow."""
    at = CronTriggerTimetable(flow.failover.drill_schedule, timezone="UTC")
    with dag_of_flow(dag_id, flow, WHAT, TEXT, schedule=at, params=PARAMS) as dag:
        _drill(flow.name)
    return dag


def by_hand(dag_id: str, flows: Sequence[FlowSettings]) -> DAG:
    """Return the Dag of all flows."""
    with dag_by_hand(dag_id, flows, PARAMS, WHAT, TEXT) as dag:
        _drill(CHOSEN)
    return dag


def _drill(flow: str) -> None:
    calls(
        "drill",
        run_drill,
        flow,
        "Clone groups, read with them, judge, and clean up.",
        outlets=[DRILLED],
        on_failure_callback=DrillAlert(flow=flow),
    )
