"""The Dag of a flow that asks the readiness gate, on a schedule or by hand."""

from __future__ import annotations

from airflow.sdk import DAG

from twinlog.airflow.assets import readiness
from twinlog.airflow.dags.common import calls, dag_of_flow
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


def of_flow(dag_id: str, flow: FlowSettings) -> DAG:
    """Return the Dag of one flow."""
    outlet = readiness(flow.target.alias)
    ends = {"source": flow.source.alias, "target": flow.target.alias, "asset": outlet.uri}
    what = f"Ask whether {flow.target.alias} could take over from {flow.source.alias}"
    at = CronTriggerTimetable(flow.gate.schedule, timezone="UTC")
    with dag_of_flow(dag_id, flow, what, TEXT.format(**ends), schedule=at, params=PARAMS) as dag:
        calls(
            "gate", ask_gate, flow.name, "Ask the readiness gate; keep page and evidence.", outlets=[outlet]
        )
    return dag
