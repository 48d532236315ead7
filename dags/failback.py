"""One Dag per enabled flow that brings its clients home after a failover: by hand, with a form, approved by a person.

Wiring only: the procedures are twinlog.recovery.failback.failback and .home; `home` runs on Spark as
twinlog.spark.steps.failback.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, TriggerRule, chain, task

from twinlog.airflow.assets import failed_back, went_home
from twinlog.airflow.flows import flow_dags, read_configuration
from twinlog.airflow.operators.recovery import HOME
from twinlog.airflow.operators.spark_job import SparkStepOperator
from twinlog.airflow.plugin.links import link_in_text
from twinlog.airflow.retries import OUR_TASKS
from twinlog.airflow.tasks import failback as tasks
from twinlog.config.flow.settings import FlowSettings

TEXT = """\
### {source} is back, and clients of {target} are to work there again

**Trigger** it once {source} answers. As it stands the form saves: `save` exports what {source} alone has, and changes
nothing else. With *Home* clients go home: `home` copies both ways, places groups, and lets `{flow}` follow again.
`preview` shows the numbers of now and changes nothing; then a person approves or rejects under *Required Actions*. A
run that waits for that holds up the next one: reject it first. If a task fails, its last line says what to do: clear
it, and it goes on where it stopped. If clients went home, that is an event of the asset `{asset}`.
See docs/failover.md.
"""


def failback(dag_id: str, flow: FlowSettings) -> DAG:
    """Return the Dag of one flow."""
    source, target = flow.source.alias, flow.target.alias
    text = TEXT.format(source=source, target=target, flow=flow.name, asset=failed_back(source, target).uri)
    with DAG(
        dag_id,
        schedule=None,
        max_active_runs=1,
        params=tasks.PARAMS,
        default_args=OUR_TASKS,
        tags=["twinlog", f"source:{source}", f"target:{target}"],
        description=f"After a failover: save what {source} alone has, and bring clients home to it",
        doc_md=text + link_in_text(flow),
    ) as dag:

        @task
        def preview() -> Any:
            """Show what would be done, and what each side alone has, with the numbers of now."""
            return tasks.preview(flow.name)

        approve = ApprovalOperator(
            task_id="approve",
            subject=f"{flow.name}: {{{{ 'bring clients home to {source}?' if params.home"
            f" else 'save what {source} alone has?' }}}}",
            # A block of code, whatever names on the clusters hold.
            body="{{ ti.xcom_pull(task_ids='preview', key='note') }}",
            doc_md="Wait for a person; a rejected failback changes nothing.",
        )

        @task
        def save() -> Any:
            """Export what the source alone has, to topics on the target and to files."""
            return tasks.save(flow.name)

        home = SparkStepOperator(
            task_id="home",
            step=HOME,
            flow=flow.name,
            doc_md="Walk the steps of the way home; cleared, it goes on where it stopped.",
        )

        @task(outlets=[went_home(flow.name)], trigger_rule=TriggerRule.NONE_FAILED)
        def report(*, outlet_events: Any) -> Any:
            """Tell what was saved, or that clients went home, or say why nothing was done."""
            return tasks.report(flow.name, outlet_events)

        chain(preview(), approve, [save(), home], report())
    return dag


for dag_id, flow in flow_dags(read_configuration(), "failback").items():
    globals()[dag_id] = failback(dag_id, flow)
