"""What Dags of a flow, and Dags that only people start, have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Param

from twinlog.airflow import form
from twinlog.airflow.plugin.links import TAG, link_in_text
from twinlog.airflow.retries import OUR_TASKS
from twinlog.config.flow.settings import FlowSettings


def dag_of_flow(
    dag_id: str, flow: FlowSettings, description: str, text: str, *, schedule: Any, **arguments: Any
) -> DAG:
    """Return the Dag of one flow, without tasks; one run at a time, none for the past."""
    usual = {
        "catchup": False,
        "max_active_runs": 1,
        "default_args": OUR_TASKS,
        "tags": [TAG, f"source:{flow.source.alias}", f"target:{flow.target.alias}"],
        "doc_md": text + link_in_text(flow),
    }
    return DAG(dag_id, schedule=schedule, description=description, **{**usual, **arguments})


def dag_by_hand(
    dag_id: str, flows: Sequence[FlowSettings], params: dict[str, Param], description: str, text: str
) -> DAG:
    """Return the Dag that people start for one of these flows, without tasks; nobody has to unpause it first."""
    return DAG(
        dag_id,
        schedule=None,
        is_paused_upon_creation=False,
        params={"flow": form.flow(flows), **params},
        default_args=OUR_TASKS,
        tags=[TAG, "by hand"],
        description=description,
        doc_md=text + "".join(map(link_in_text, flows)),
    )


def calls(
    task_id: str, function: Callable[..., object], flow: str, does: str, **arguments: Any
) -> PythonOperator:
    """Return the task that calls a function with a flow's name, and `outlet_events` if that is an argument of it."""
    return PythonOperator(task_id=task_id, python_callable=function, op_args=[flow], doc_md=does, **arguments)
