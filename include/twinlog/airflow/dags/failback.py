"""The Dag that brings a flow's clients home after a failover: by hand, with a form, approved by a person.

The procedures are twinlog.recovery.failback.failback and .home; each task of the way home walks the steps that
twinlog.airflow.recovery names.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import DAG, TriggerRule, chain

from twinlog.airflow.assets import WENT_HOME
from twinlog.airflow.dags.common import calls, dag_by_hand
from twinlog.airflow.form import CHOSEN, CHOSEN_SOURCE
from twinlog.airflow.operators.recovery import asking, walking
from twinlog.airflow.tasks import failback as tasks
from twinlog.airflow.tasks.failover import rejected as take_back
from twinlog.config.flow.settings import FlowSettings

TEXT = """\
### The source is back, and clients of the target are to work there again

**Trigger** it once the source answers. As it stands the form saves: `save` exports what the source alone has, and
changes nothing else. With *Home* clients go home: the steps up to `gate` copy both ways, stop producers, place and
prove; a yes lets the flow follow again. A person is asked under *Required Actions*, with what was found. If a task
fails, its last line says what to do: clear it, and it goes on. While a run is at work, or waits, another one for the
same flow is refused; `failover` with mode *abort* takes a way home back. If clients went home, that is an event of the
asset `twinlog://<source>/failback/<target>`. See docs/failback.md.
"""


def by_hand(dag_id: str, flows: Sequence[FlowSettings]) -> DAG:
    """Return the Dag."""
    what = "After a failover: save what the source alone has, and bring clients home to it"
    with dag_by_hand(dag_id, flows, tasks.PARAMS, what, TEXT) as dag:
        approve = asking(
            CHOSEN
            + "{{ ': bring clients home to ' if params.home else ': save what ' }}"
            + CHOSEN_SOURCE
            + "{{ '?' if params.home else ' alone has?' }}"
        )

        before = (
            walking("begin", "Begin the way home."),
            walking("bring_home", "Save what the source alone has, and copy both ways.", on_spark=True),
            walking("fence_producers", "Stop the producers of the target.", on_spark=True),
            walking("drain", "Copy home until nothing is left.", on_spark=True),
            walking("groups", "Place every group on the source."),
            walking("audit", "Compare what no audit of either flow has compared yet.", on_spark=True),
        )
        promote = walking("promote", "Prove all once more, and promote the source.", on_spark=True)
        saved, told = (
            calls(
                "save",
                tasks.save,
                CHOSEN,
                "Export what the source alone has, to topics on the target and to files.",
            ),
            calls(
                "report",
                tasks.report,
                CHOSEN,
                "Tell what was saved, or that clients went home, or say why nothing was done.",
                outlets=[WENT_HOME],
                trigger_rule=TriggerRule.NONE_FAILED,
            ),
        )
        chain(
            calls(
                "preview",
                tasks.preview,
                CHOSEN,
                "Show what would be done, and what each side alone has, with the numbers of now.",
            ),
            *before,
            calls(
                "gate",
                tasks.ask,
                CHOSEN,
                "Ask the readiness gate, and put together what a person has to know.",
                trigger_rule=TriggerRule.NONE_FAILED,
            ),
            approve,
            [promote, saved],
            calls(
                "rejected",
                take_back,
                CHOSEN,
                "After a no: leave clients where they are, or let the way home wait.",
                trigger_rule=TriggerRule.ALL_SKIPPED,
            ),
            told,
        )
        chain(
            promote,
            walking("follow", "Let schemas and the reverse flow follow."),
            walking("switch_clients", "Run the hook of the reverse flow."),
            walking("canary", "Write a heartbeat to the source, and read it back."),
            told,
        )
    return dag
