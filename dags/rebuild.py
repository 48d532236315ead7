"""One Dag per enabled flow that copies a topic again: triggered by hand, with a form, never scheduled.

Wiring only: the work of each task is in twinlog.lifecycle.rebuild.  The flow's next cycles copy the records.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, chain, task

from twinlog.airflow.flows import flow_dags, read_configuration
from twinlog.airflow.plugin.links import link_in_text
from twinlog.airflow.retries import OUR_TASKS
from twinlog.airflow.tasks import rebuilding
from twinlog.config.flow.settings import FlowSettings


def rebuild(dag_id: str, flow: FlowSettings) -> DAG:
    """Return the Dag of one flow."""
    with DAG(
        dag_id,
        schedule=None,
        max_active_runs=1,
        params=rebuilding.PARAMS,
        default_args=OUR_TASKS,
        tags=["twinlog", f"source:{flow.source.alias}", f"target:{flow.target.alias}"],
        description=f"Delete the copy of one topic on {flow.target.alias} and copy it anew",
        doc_md=(rebuilding.__doc__ or "") + link_in_text(flow),
    ) as dag:

        @task
        def plan() -> Any:
            """Say what would be deleted, what can be copied again, and who reads the copy."""
            return rebuilding.plan(flow.name)

        @task
        def do() -> Any:
            """Delete the copy, create it again, and remember the positions of its readers."""
            return rebuilding.do(flow.name)

        chain(plan(), do())
    return dag


for dag_id, flow in flow_dags(read_configuration(), "rebuild").items():
    globals()[dag_id] = rebuild(dag_id, flow)
