"""One Dag per enabled flow that promotes its target: triggered by hand, with a form, approved by a person.

Wiring only: the procedure is twinlog.recovery.failover; each task walks the steps that twinlog.airflow.recovery names.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import DAG, TriggerRule, chain, task

from twinlog.airflow.assets import failed_over
from twinlog.airflow.flows import flow_dags, read_configuration
from twinlog.airflow.operators.recovery import walking
from twinlog.airflow.plugin.links import link_in_text
from twinlog.airflow.retries import OUR_TASKS
from twinlog.airflow.tasks import failover as tasks
from twinlog.config.flow.settings import FlowSettings

TEXT = """\
### Clients of {source} are to work on {target}

**Trigger** it {when}. The steps up to `gate` stop producers (*planned*), copy, place and prove; then a person is asked
under *Required Actions*, with what was found. A yes promotes {target}; a no takes all back, or lets it wait. If a task
fails, its last line says what to do: clear it, and it goes on. A run that waits holds up the next one: reject it first.
The end is an event of the asset `{asset}`. See docs/failover.md.
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
            """Show what would be done, with the numbers of now; a dry run ends here."""
            return tasks.preview(flow.name)

        @task(trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)
        def gate() -> None:
            """Ask the readiness gate, and put together what a person has to know."""
            tasks.ask(flow.name)

        # An ApprovalOperator keeps no answer that is a no.
        approve = HITLOperator(
            task_id="approve",
            options=tasks.OPTIONS,
            subject=f"{flow.name}: promote {flow.target.alias}?",
            # A table whose cells are escaped, whatever names on the clusters hold.
            body="{{ ti.xcom_pull(task_ids='gate', key='note') }}",
            params=tasks.IF_REJECTED,
            doc_md="Wait for a person, who sees the facts.",
        )

        @task(trigger_rule=TriggerRule.ALL_SKIPPED)
        def rejected() -> Any:
            """After a no: take the failover back, or let it wait."""
            return tasks.rejected(flow.name)

        @task(outlets=[outlet], trigger_rule=TriggerRule.NONE_FAILED)
        def report(*, outlet_events: Any) -> Any:
            """Write the evidence and tell of the promotion, or say why there was none."""
            return tasks.report(flow.name, outlet_events)

        promote = walking("promote", flow, "Prove all once more, and promote the target.", on_spark=True)
        planned = (
            walking(
                "fence_producers",
                flow,
                "Stop the producers of the source.",
                on_spark=True,
            ),
            walking("drain", flow, "Copy until nothing is left.", on_spark=True),
            walking("groups", flow, "Place every group on the target."),
            walking("audit", flow, "Compare what no audit has compared yet.", on_spark=True),
        )
        begun, asked, told = (
            walking("begin", flow, "Begin: only this failover copies from now on."),
            gate(),
            report(),
        )
        chain(preview(), begun, *planned, asked, approve, promote)
        chain(begun, walking("loss", flow, "Say what is lost with the source."), asked)
        chain(
            promote,
            walking("switch_clients", flow, "Let schemas follow, and run the hook."),
            walking("canary", flow, "Write a heartbeat to the target, and read it back."),
            told,
        )
        chain(promote, rejected(), told)
    return dag


for dag_id, flow in flow_dags(read_configuration(), "failover").items():
    globals()[dag_id] = failover(dag_id, flow)
