"""One Dag per enabled flow that brings its clients home after a failover: by hand, with a form, approved by a person.

Wiring only: the procedures are twinlog.recovery.failback.failback and .home; each task of the way home walks the steps
that twinlog.airflow.recovery names.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import DAG, TriggerRule, chain, task

from twinlog.airflow.assets import failed_back, went_home
from twinlog.airflow.flows import flow_dags, read_configuration
from twinlog.airflow.operators.recovery import walking
from twinlog.airflow.plugin.links import link_in_text
from twinlog.airflow.retries import OUR_TASKS
from twinlog.airflow.tasks import failback as tasks
from twinlog.airflow.tasks.failover import IF_REJECTED, OPTIONS
from twinlog.airflow.tasks.failover import rejected as take_back
from twinlog.config.flow.settings import FlowSettings

TEXT = """\
### {source} is back, and clients of {target} are to work there again

**Trigger** it once {source} answers. As it stands the form saves: `save` exports what {source} alone has, and changes
nothing else. With *Home* clients go home: the steps up to `gate` copy both ways, stop producers, place and prove; a yes
lets `{flow}` follow again. A person is asked under *Required Actions*, with what was found. A run that waits for that
holds up the next one: reject it first. If a task fails, its last line says what to do: clear it, and it goes on. If
clients went home, that is an event of the asset `{asset}`. See docs/failback.md.
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

        @task(trigger_rule=TriggerRule.NONE_FAILED)
        def gate() -> None:
            """Ask the readiness gate, and put together what a person has to know."""
            tasks.ask(flow.name)

        # An ApprovalOperator keeps no answer that is a no.
        approve = HITLOperator(
            task_id="approve",
            options=OPTIONS,
            subject=f"{flow.name}: {{{{ 'bring clients home to {source}?' if params.home"
            f" else 'save what {source} alone has?' }}}}",
            # Cells are escaped, or it is a block of code, whatever names on the clusters hold.
            body="{{ ti.xcom_pull(task_ids='gate', key='note') }}",
            params=IF_REJECTED,
            doc_md="Wait for a person, who sees the facts.",
        )

        @task
        def save() -> Any:
            """Export what the source alone has, to topics on the target and to files."""
            return tasks.save(flow.name)

        @task(trigger_rule=TriggerRule.ALL_SKIPPED)
        def rejected() -> Any:
            """After a no: leave clients where they are, or let the way home wait."""
            return take_back(flow.name)

        @task(outlets=[went_home(flow.name)], trigger_rule=TriggerRule.NONE_FAILED)
        def report(*, outlet_events: Any) -> Any:
            """Tell what was saved, or that clients went home, or say why nothing was done."""
            return tasks.report(flow.name, outlet_events)

        before = (
            walking("begin", flow, "Begin the way home."),
            walking("bring_home", flow, "Save what the source alone has, and copy both ways.", on_spark=True),
            walking("fence_producers", flow, "Stop the producers of the target.", on_spark=True),
            walking("drain", flow, "Copy home until nothing is left.", on_spark=True),
            walking("groups", flow, "Place every group on the source."),
            walking("audit", flow, "Compare what no audit of either flow has compared yet.", on_spark=True),
        )
        promote = walking("promote", flow, "Prove all once more, and promote the source.", on_spark=True)
        saved, told = save(), report()
        chain(preview(), *before, gate(), approve, [promote, saved], rejected(), told)
        chain(
            promote,
            walking("follow", flow, "Let schemas and the reverse flow follow."),
            walking("switch_clients", flow, "Run the hook of the reverse flow."),
            walking("canary", flow, "Write a heartbeat to the source, and read it back."),
            told,
        )
    return dag


for dag_id, flow in flow_dags(read_configuration(), "failback").items():
    globals()[dag_id] = failback(dag_id, flow)
