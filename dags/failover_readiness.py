"""One Dag per enabled flow of the configuration file: the gate, run on a schedule or by hand.

Wiring only: the gate is twinlog.gate.ask; twinlog.airflow.tasks.readiness runs it from Airflow.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, task

from twinlog.airflow.assets import readiness
from twinlog.airflow.flows import flow_dags, read_configuration
from twinlog.airflow.plugin.links import link_in_text
from twinlog.airflow.retries import OUR_TASKS
from twinlog.airflow.tasks.readiness import PARAMS, ask_gate
from twinlog.airflow.versions import CronTriggerTimetable
from twinlog.config.flow.settings import FlowSettings

TEXT = """\
### Could {target} take over from {source}?

A run asks everything that matters before a failover, and fails when the answer is no. Page, Data Docs and evidence are
kept in the flow's reports; the answer is in the ledger and in XCom, and a yes sends an event of the asset
`{asset}`. Scheduled runs ask whether a planned failover could begin; **trigger** one with *Producers have been stopped*
for the proof, or with mode *source-dead* when {source} is lost. What a check means and what to do: docs/gate.md.
"""


def failover_readiness(dag_id: str, flow: FlowSettings) -> DAG:
    """Return the Dag of one flow."""
    outlet = readiness(flow.target.alias)
    ends = {"source": flow.source.alias, "target": flow.target.alias, "asset": outlet.uri}
    with DAG(
        dag_id,
        schedule=CronTriggerTimetable(flow.gate.schedule, timezone="UTC"),
        catchup=False,
        max_active_runs=1,
        params=PARAMS,
        default_args=OUR_TASKS,
        tags=["twinlog", f"source:{flow.source.alias}", f"target:{flow.target.alias}"],
        description=f"Ask whether {flow.target.alias} could take over from {flow.source.alias}",
        doc_md=TEXT.format(**ends) + link_in_text(flow),
    ) as readiness_dag:

        @task(outlets=[outlet])
        def gate(*, outlet_events: Any) -> Any:
            """Ask the readiness gate; keep page and evidence."""
            return ask_gate(flow.name, outlet_events)

        gate()
    return readiness_dag


for dag_id, flow in flow_dags(read_configuration(), "failover_readiness").items():
    globals()[dag_id] = failover_readiness(dag_id, flow)
