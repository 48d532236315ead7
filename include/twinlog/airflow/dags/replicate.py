"""The Dag of a flow whose runs are its replication cycles, step by step."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, TriggerRule, chain, task

from twinlog.airflow.alerts import rpo_deadline
from twinlog.airflow.assets import groups_synced, remote_cluster
from twinlog.airflow.cycle import PARAMS, describe_flow
from twinlog.airflow.dags.common import dag_of_flow
from twinlog.airflow.following import RUNS_AT_ONCE, interval, retries
from twinlog.airflow.operators.copy import COPY
from twinlog.airflow.operators.spark_job import SparkStepOperator
from twinlog.airflow.retries import OUR_TASKS
from twinlog.airflow.tasks import cycle as tasks
from twinlog.airflow.versions import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from twinlog.config.flow.settings import FlowSettings


def schedule(flow: FlowSettings) -> Any:
    """Return when runs begin: by the flow's cron expression, or while the one before still follows."""
    if flow.continuous:
        return DeltaDataIntervalTimetable(interval(flow))
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

        @task
        def discover() -> Any:
            """Read what both clusters have, through the filters and the cycle rule."""
            return tasks.discover(flow.name)

        @task
        def sync_topics() -> Any:
            """Create remote topics and add partitions; never shrink one."""
            return tasks.sync_topics(flow.name)

        @task
        def plan_ranges() -> Any:
            """Compute what there is to copy, up to now or to the end of a backfill's data interval."""
            return tasks.plan_ranges(flow.name)

        copy = SparkStepOperator(
            task_id="copy",
            step=COPY,
            flow=flow.name,
            max_active_tis_per_dag=RUNS_AT_ONCE if flow.continuous else 1,
            doc_md="Copy the ranges with one Spark job, exactly once.",
        )

        # Also after a copy that was skipped or failed: the cycle is reported either way, and groups are still
        # translated.
        @task(trigger_rule=TriggerRule.ALL_DONE)
        def offset_syncs() -> Any:
            """Write MM2-compatible offset syncs, derived from the map."""
            return tasks.offset_syncs(flow.name)

        @task(trigger_rule=TriggerRule.ALL_DONE, outlets=[groups_synced(flow.name)])
        def checkpoints(*, outlet_events: Any) -> Any:
            """Translate every group's position, write checkpoints, and commit for groups without members."""
            return tasks.checkpoints(flow.name, outlet_events)

        @task(trigger_rule=TriggerRule.ALL_DONE)
        def heartbeats() -> Any:
            """Write MM2-compatible heartbeat records."""
            return tasks.heartbeats(flow.name)

        @task
        def validate() -> Any:
            """Compare source, offset map and target, one row per partition."""
            return tasks.validate(flow.name)

        @task(trigger_rule=TriggerRule.ALL_DONE, outlets=[remote_cluster(flow.target.alias)])
        def publish(*, outlet_events: Any) -> Any:
            """Write the cycle report, and tell other Dags about news on the remote cluster."""
            return tasks.publish(flow.name, outlet_events)

        before = [discover(), sync_topics(), plan_ranges()]
        if flow.homes is not None:

            @task.short_circuit
            def brings_home() -> Any:
                """Skip everything while no way home is under way, or a process goes on with it."""
                return tasks.brings_home(flow.name)

            before.insert(0, brings_home())
        chain(*before, copy, offset_syncs(), checkpoints(), heartbeats(), validate(), publish())
    return cycle
