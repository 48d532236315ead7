"""One Dag per enabled flow that tries what a failover promises: on a schedule or by hand, production untouched.

Wiring only: the drill is twinlog.drill.drill; twinlog.airflow.tasks.drill runs it from Airflow.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, task

from twinlog.airflow.alerts import DrillAlert
from twinlog.airflow.assets import drilled
from twinlog.airflow.flows import flow_dags, read_configuration
from twinlog.airflow.plugin.links import link_in_text
from twinlog.airflow.retries import OUR_TASKS
from twinlog.airflow.tasks.drill import PARAMS, run_drill
from twinlog.airflow.versions import CronTriggerTimetable
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.flow.values import NEVER

TEXT = """\
### Would applications go on at the right record on {target}?

A run clones groups of {source} on {target}, really reads with the clones, judges the first records, and deletes the
clones; nothing that applications use is changed. It runs as `twinlog.drill.schedule` says, and when you **trigger** it.
A drill that passes sends an event of the asset `{asset}`. One that fails sends an alarm to `twinlog.alert.url`; one
that had nothing to read proves nothing, and is skipped. If a run is stopped or its worker dies, the next one deletes
what is left. See docs/runbooks/drill.md.
"""


def drill(dag_id: str, flow: FlowSettings) -> DAG:
    """Return the Dag of one flow."""
    by_hand = flow.failover.drill_schedule == NEVER
    outlet = drilled(flow.source.alias, flow.target.alias)
    ends = {"source": flow.source.alias, "target": flow.target.alias, "asset": outlet.uri}
    with DAG(
        dag_id,
        schedule=None if by_hand else CronTriggerTimetable(flow.failover.drill_schedule, timezone="UTC"),
        catchup=False,
        max_active_runs=1,
        params=PARAMS,
        default_args=OUR_TASKS,
        tags=["twinlog", f"source:{flow.source.alias}", f"target:{flow.target.alias}"],
        description=f"Try on {flow.target.alias} whether groups of {flow.source.alias} would go on at the right record",
        doc_md=TEXT.format(**ends) + link_in_text(flow),
    ) as dag:

        @task(task_id="drill", outlets=[outlet], on_failure_callback=DrillAlert(flow=flow.name))
        def read_with_clones(*, outlet_events: Any) -> Any:
            """Clone groups, read with them, judge, and clean up."""
            return run_drill(flow.name, outlet_events)

        read_with_clones()
    return dag


for dag_id, flow in flow_dags(read_configuration(), "drill").items():
    globals()[dag_id] = drill(dag_id, flow)
