"""The Dag of a flow that compares the copy with its source."""

from __future__ import annotations

from airflow.sdk import DAG

from twinlog.airflow.dags.common import dag_of_flow
from twinlog.airflow.operators.audit import AUDIT, PARAMS
from twinlog.airflow.operators.spark_job import SparkStepOperator
from twinlog.airflow.versions import CronTriggerTimetable
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.flow.values import NEVER

TEXT = """\
### Is the copy on {target} equal to {source}?

Reads what was copied from both clusters and compares it: batches that travelled whole as bytes, all else record by
record. A scheduled run compares what is new since the last audit; **trigger** one for everything again.
What is proved is remembered on {target}, and the readiness gate asks for it. See docs/audit.md.
"""


def of_flow(dag_id: str, flow: FlowSettings) -> DAG:
    """Return the Dag of one flow."""
    by_hand = flow.audit.schedule == NEVER
    with dag_of_flow(
        dag_id,
        flow,
        f"Prove that the copy of {flow.source.alias} on {flow.target.alias} is equal",
        TEXT.format(source=flow.source.alias, target=flow.target.alias),
        schedule=None if by_hand else CronTriggerTimetable(flow.audit.schedule, timezone="UTC"),
        params=PARAMS,
    ) as dag:
        SparkStepOperator(
            task_id="compare", step=AUDIT, flow=flow.name, doc_md="Compare both sides with one Spark job."
        )
    return dag
