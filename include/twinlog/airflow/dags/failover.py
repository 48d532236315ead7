"""The Dag that promotes a flow's target: triggered by hand, with a form, approved by a person.

The procedure is twinlog.recovery.failover; each task walks the steps that twinlog.airflow.recovery names.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import DAG, TriggerRule, chain

from twinlog.airflow.assets import FAILED_OVER
from twinlog.airflow.dags.common import calls, dag_by_hand
from twinlog.airflow.form import CHOSEN, CHOSEN_TARGET
from twinlog.airflow.operators.recovery import asking, walking
from twinlog.airflow.tasks import failover as tasks
from twinlog.config.flow.settings import FlowSettings

TEXT = """\
### Clients of the source are to work on the target

**Trigger** it with mode *planned* while the source lives, or *source-dead* when it is lost; for a flow `B.home->A` if B
is lost on the way home. The steps up to `gate` stop producers (*planned*), copy, place and prove; then a person is
asked under *Required Actions*, with what was found. A yes promotes the target; a no takes all back, or lets it wait; a
run with mode *abort* takes it back at once, one with *accept* answers for what the gate says no to. If a task fails,
its last line says what to do: clear it, and it goes on. While a run is at work, or waits, another one for the same flow
is refused. The end is an event of the asset `twinlog://<target>/failover/<source>`; see docs/failover.md.
"""


def by_hand(dag_id: str, flows: Sequence[FlowSettings]) -> DAG:
    """Return the Dag."""
    what = "Promote the target of a flow: clients of its source are to work there"
    with dag_by_hand(dag_id, flows, tasks.PARAMS, what, TEXT) as dag:
        approve = asking(f"{CHOSEN}: promote {CHOSEN_TARGET}?")

        promote = walking("promote", "Prove all once more, and promote the target.", on_spark=True)
        planned = (
            walking("fence_producers", "Stop the producers of the source.", on_spark=True),
            walking("drain", "Copy until nothing is left.", on_spark=True),
            walking("groups", "Place every group on the target."),
            walking("audit", "Compare what no audit has compared yet.", on_spark=True),
        )
        begun, asked, told = (
            walking("begin", "Begin: only this failover copies from now on."),
            calls(
                "gate",
                tasks.ask,
                CHOSEN,
                "Ask the readiness gate, and put together what a person has to know.",
                trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
            ),
            calls(
                "report",
                tasks.report,
                CHOSEN,
                "Write the evidence and tell of the promotion, or say why there was none.",
                outlets=[FAILED_OVER],
                trigger_rule=TriggerRule.NONE_FAILED,
            ),
        )
        chain(
            calls(
                "preview",
                tasks.preview,
                CHOSEN,
                "Show what would be done, with the numbers of now; a dry run ends here.",
            ),
            begun,
            *planned,
            asked,
            approve,
            promote,
        )
        chain(begun, walking("loss", "Say what is lost with the source."), asked)
        chain(
            promote,
            walking("switch_clients", "Let schemas follow, and run the hook."),
            walking("canary", "Write a heartbeat to the target, and read it back."),
            told,
        )
        chain(
            promote,
            calls(
                "rejected",
                tasks.rejected,
                CHOSEN,
                "After a no: take the failover back, or let it wait.",
                trigger_rule=TriggerRule.ALL_SKIPPED,
            ),
            told,
        )
    return dag
