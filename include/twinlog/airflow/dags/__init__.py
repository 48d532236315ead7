"""Build twinlog's Dags: those of each flow, and those that only people start, with the flow as a choice of their form.

Wiring only: tasks are in twinlog.airflow.tasks and .operators, their work in twinlog.steps and its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module

from airflow.sdk import DAG, get_parsing_context

from twinlog.airflow.flows import BY_HAND, OF_A_FLOW, flows_by_dag, read_configuration
from twinlog.config.flow.values import NEVER


def flow_dags(prefix: str = "") -> dict[str, DAG]:
    """Return the Dags of the file that TWINLOG_CONFIG names, by their ids, which begin with `prefix`.

    A task's process builds its own Dag alone.  Raises ConfigError if the file is not named, or cannot be used: Airflow
    shows that as an import error.
    """
    builders = _builders(prefix)
    only = get_parsing_context().dag_id
    return {dag_id: build(dag_id) for dag_id, build in builders.items() if only in {None, dag_id}}


def _builders(prefix: str) -> dict[str, Callable[[str], DAG]]:
    configuration = read_configuration()
    found: dict[str, Callable[[str], DAG]] = {}
    for kind in OF_A_FLOW:
        for dag_id, flow in flows_by_dag(configuration, kind).items():
            if kind != "drill" or flow.failover.drill_schedule != NEVER:
                found[prefix + dag_id] = partial(_build, kind, "of_flow", flow)
    for kind in BY_HAND if found else ():
        if flows := tuple(flows_by_dag(configuration, kind).values()):
            found[prefix + kind] = partial(_build, kind, "by_hand", flows)
    return found


def _build(kind: str, how: str, flows: object, dag_id: str) -> DAG:
    """Import the module of one kind of Dag, and no other: a task pays for what it uses only."""
    build: Callable[[str, object], DAG] = getattr(import_module(f"{__name__}.{kind}"), how)
    return build(dag_id, flows)
