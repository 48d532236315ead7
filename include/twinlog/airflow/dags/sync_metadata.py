"""The Dag of a flow that brings topic configs, ACLs, quotas and schemas of the source to the target.

With `twinlog.metadata.approval` it only plans: a person applies the plan by the command line.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain

from twinlog.airflow.dags.common import calls, dag_of_flow
from twinlog.airflow.tasks import metadata
from twinlog.airflow.versions import DeltaDataIntervalTimetable
from twinlog.config.flow.settings import FlowSettings

ABOUT = """\
Compares both clusters and makes what the plan shows, item by item. **Trigger** with profile `promoted` to give
producers their rights before a failover; profile and schedule otherwise come from the configuration file.
"""


def of_flow(dag_id: str, flow: FlowSettings) -> DAG:
    """Return the Dag of one flow; if the flow syncs nothing, the Dag has no schedule."""
    every = metadata.run_every(flow)
    with dag_of_flow(
        dag_id,
        flow,
        f"Bring topic configs and rights of {flow.source.alias} to {flow.target.alias}",
        ABOUT,
        schedule=None if every is None else DeltaDataIntervalTimetable(every),
        params=metadata.PARAMS,
    ) as dag:
        plan = calls("plan", metadata.plan, flow.name, "Plan the changes; end the run if there are none.")
        if not flow.metadata.approval:
            chain(plan, calls("apply", metadata.apply, flow.name, "Make the changes, item by item."))
        if flow.metadata.schemas.copied:
            does = "Bring subjects to the target's schema registry."
            calls("schemas", metadata.schemas, flow.name, does)
    return dag
