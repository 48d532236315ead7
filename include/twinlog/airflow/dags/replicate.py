"""The Dag of a flow whose runs are its replication cycles, step by step."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.python import ShortCircuitOperator
from airflow.sdk import DAG, TriggerRule, chain

from twinlog.airflow.alerts import rpo_deadline
from twinlog.airflow.assets import groups_synced, remote_cluster
from twinlog.airflow.cycle import PARAMS, describe_flow
from twinlog.airflow.dags.common import calls, dag_of_flow
from twinlog.airflow.following import RUNS_AT_ONCE, retries
from twinlog.airflow.operators.copy import COPY
from twinlog.airflow.operators.spark_job import SparkStepOperator
from twinlog.airflow.retries import OUR_TASKS
from twinlog.airflow.tasks import cycle as tasks
from twinlog.airflow.versions import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from twinlog.config.flow.settings import FlowSettings


def schedule(flow: FlowSettings) -> Any:
    """Return when runs begin: by the flow's cron expression, or while the one before still follows."""
    if flow.continuous:
        return DeltaDataIntervalTimetable(timedelta(seconds=flow.copy.run_seconds))
    return CronDataIntervalTimetable(flow.schedule, timezone="UTC")


def describe(flow: FlowSettings) -> str:
    """Return the line of the Dag in lists."""
    if flow.homes is not None:
        return f"On the way home: bring what clients wrote on {flow.source.alias} to {flow.target.alias}, exactly once"
    return f"Copy topics of {flow.source.alias} to {flow.target.alias}, exactly once"


def of_flow(dag_id: str, flow: FlowSettings) -> DAG:
    """Return the Dag of one flow: a run is a cycle, and one of them copies at a time."""
    with dag_of_flow(
        dag_id,
        flow,
        describe(flow),
        describe_flow(flow),
        schedule=schedule(flow),
        max_active_runs=RUNS_AT_ONCE if flow.continuous else 1,
        params=PARAMS,
        # A backfill brings its own limit of runs; if one step ran in two runs at once, it would fence the other.
        default_args={
            **OUR_TASKS,
            "max_active_tis_per_dag": 1,
            "retries": retries(flow, OUR_TASKS["retries"]),
        },
        deadline=rpo_deadline(flow),
    ) as cycle:
        copy = SparkStepOperator(
            task_id="copy",
            step=COPY,
            flow=flow.name,
            max_active_tis_per_dag=RUNS_AT_ONCE if flow.continuous else 1,
            doc_md="Copy the ranges with one Spark job, exactly once.",
        )

        def step(name: str, does: str, **arguments: Any) -> Any:
            return calls(name, getattr(tasks, name), flow.name, does, **arguments)

        before = [
            step("discover", "Read what both clusters have, through the filters and the cycle rule."),
            step("sync_topics", "Create remote topics and add partitions; never shrink one."),
            step(
                "plan_ranges",
                "Compute what there is to copy, up to now or to the end of a backfill's interval.",
            ),
        ]
        # Also after a copy that was skipped or failed: the cycle is reported either way, and groups are still
        # translated.
        always = {"trigger_rule": TriggerRule.ALL_DONE}
        behind = [
            step("offset_syncs", "Write MM2-compatible offset syncs, derived from the map.", **always),
            step(
                "checkpoints",
                "Translate every group's position, write checkpoints, and commit for groups without members.",
                outlets=[groups_synced(flow.name)],
                **always,
            ),
            step("heartbeats", "Write MM2-compatible heartbeat records.", **always),
            step("validate", "Compare source, offset map and target, one row per partition."),
            step(
                "publish",
                "Write the cycle report, and tell other Dags about news on the remote cluster.",
                outlets=[remote_cluster(flow.target.alias)],
                **always,
            ),
        ]
        if flow.homes is not None:
            brings_home = ShortCircuitOperator(
                task_id="brings_home",
                python_callable=tasks.brings_home,
                op_args=[flow.name],
                doc_md="Skip everything while no way home is under way, or a process goes on with it.",
            )
            before.insert(0, brings_home)
        chain(*before, copy, *behind)
    return cycle
