"""One Dag per enabled flow that promotes its target: triggered by hand, with a form, approved by a person.

Wiring only: the procedure is twinlog.recovery.failover; `failover` runs it on Spark as twinlog.spark.steps.failover.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, TriggerRule, chain, task

from twinlog.airflow.assets import failed_over
from twinlog.airflow.flows import flow_dags, read_configuration
from twinlog.airflow.operators.recovery import FAILOVER
from twinlog.airflow.operators.spark_job import SparkStepOperator
from twinlog.airflow.plugin.links import link_in_text
from twinlog.airflow.retries import OUR_TASKS
from twinlog.airflow.tasks import failover as tasks
from twinlog.config.flow.settings import FlowSettings

TEXT = """\
### Clients of {source} are to work on {target}

**Trigger** it {when}. `preview` shows the steps
with the numbers of now and changes nothing; then a person approves or rejects under *Required Actions*, and is named in
the journal. A run that waits for that holds up the next one: reject it first. If `failover` fails, its last line says
what to do: clear it, and it goes on where it stopped. A rejected run changes nothing. The end is an event of the asset
`{asset}`. See docs/failover.md.
"""


def failover(dag_id: str, flow: FlowSettings) -> DAG:
    """Return the Dag of one flow."""
    outlet = failed_over(flow.state_alias, flow.target.alias)
    when = "with mode *planned* while {source} lives, or *source-dead* when it is lost"
    if flow.homes is not None:
        when = "if {source} is lost on the way home, or before one has begun, though clients work there"
    ends = {"source": flow.source.alias, "target": flow.target.alias, "asset": outlet.uri}
    with DAG(
        dag_id,
        schedule=None,
        max_active_runs=1,
        params=tasks.params(flow),
        default_args=OUR_TASKS,
        tags=["twinlog", f"source:{flow.source.alias}", f"target:{flow.target.alias}"],
        description=f"Promote {flow.target.alias}: clients of {flow.source.alias} are to work there",
        doc_md=TEXT.format(when=when.format(**ends), **ends) + link_in_text(flow),
    ) as dag:

        @task
        def preview() -> Any:
            """Show what would be done, with the numbers of now."""
            return tasks.preview(flow.name)

        approve = ApprovalOperator(
            task_id="approve",
            subject=f"{flow.name}: promote {flow.target.alias}?",
            # A block of code, whatever names on the clusters hold.
            body="{{ ti.xcom_pull(task_ids='preview', key='note') }}",
            doc_md="Wait for a person; a rejected failover changes nothing.",
        )
        do = SparkStepOperator(
            task_id="failover",
            step=FAILOVER,
            flow=flow.name,
            doc_md="Walk the steps of the failover; cleared, it goes on where it stopped.",
        )

        @task(outlets=[outlet], trigger_rule=TriggerRule.NONE_FAILED)
        def report(*, outlet_events: Any) -> Any:
            """Tell of the promotion, or say why there was none."""
            return tasks.report(flow.name, outlet_events)

        chain(preview(), approve, do, report())
    return dag


for dag_id, flow in flow_dags(read_configuration(), "failover").items():
    globals()[dag_id] = failover(dag_id, flow)
