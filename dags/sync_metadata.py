"""One Dag per enabled flow: topic configs, ACLs, quotas, users and schemas of the source, brought to the target.

Wiring only: the work of each task is in twinlog.airflow.tasks.metadata.  With `twinlog.metadata.approval` a person
approves each plan before it is applied.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, chain, task

from twinlog.airflow.flows import flow_dags, read_configuration
from twinlog.airflow.plugin.links import link_in_text
from twinlog.airflow.retries import OUR_TASKS
from twinlog.airflow.tasks import metadata
from twinlog.airflow.versions import DeltaDataIntervalTimetable
from twinlog.config.flow.settings import FlowSettings

ABOUT = """\
Compares both clusters and makes what the plan shows, item by item. **Trigger** with profile `promoted` to give
producers their rights before a failover; profile and schedule otherwise come from the configuration file.
"""


def sync_metadata(dag_id: str, flow: FlowSettings) -> DAG:
    """Return the Dag of one flow; if the flow syncs nothing, the Dag has no schedule."""
    every = metadata.run_every(flow)
    with DAG(
        dag_id,
        schedule=None if every is None else DeltaDataIntervalTimetable(every),
        catchup=False,
        max_active_runs=1,
        params=metadata.PARAMS,
        default_args=OUR_TASKS,
        tags=["twinlog", "metadata", f"source:{flow.source.alias}", f"target:{flow.target.alias}"],
        description=f"Bring topic configs and rights of {flow.source.alias} to {flow.target.alias}",
        doc_md=ABOUT + link_in_text(flow),
    ) as dag:

        @task
        def plan() -> Any:
            """Plan the changes; end the run if there are none."""
            return metadata.plan(flow.name)

        if flow.metadata.approval:
            approve = ApprovalOperator(
                task_id="approve",
                subject=f"Apply this metadata plan to {flow.target.alias}?",
                # A block of code, whatever names and values of the clusters hold:
                # twinlog.airflow.xcom.code_block.
                body="{{ ti.xcom_pull(task_ids='plan', key='diff') }}",
                doc_md="Wait for a person; a rejected plan changes nothing.",
            )

            @task(task_id="apply")
            def apply_approved() -> Any:
                """Make exactly the changes that were approved."""
                return metadata.apply_approved(flow.name)

            chain(plan(), approve, apply_approved())
        else:

            @task
            def apply() -> Any:
                """Make the changes, item by item."""
                return metadata.apply(flow.name)

            chain(plan(), apply())

        if flow.metadata.schemas.copied:

            @task
            def schemas() -> Any:
                """Bring subjects to the target's schema registry."""
                return metadata.schemas(flow.name)

            schemas()
    return dag


for dag_id, flow in flow_dags(read_configuration(), "sync_metadata").items():
    globals()[dag_id] = sync_metadata(dag_id, flow)
