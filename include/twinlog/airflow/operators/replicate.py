"""The copy task: one Spark job, if there is something to copy."""

from __future__ import annotations

import functools

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from twinlog.airflow.cycle_request import CycleRequest, request_of
from twinlog.airflow.flows import REPLICATE_JOB, configuration_path
from twinlog.airflow.following import driver_name, followed, gives_way_to, leaves_it_to, overlaps
from twinlog.airflow.operators.outcome import failure_of, for_xcom, job_arguments, why_no_job
from twinlog.airflow.operators.spark_job import JobOperator
from twinlog.jsonable import Json


class ReplicateOperator(JobOperator):
    """Copy what plan_ranges found: by spark-submit, or on a Connect server if the Spark master is `sc://`.

    Its XCom is the CopyResult as JSON, cut if it is large, also if the copy failed.

    Skipped if there is nothing to copy, because a cold Spark job costs 15 CPU-seconds, and if another run of a
    continuous Dag is copying it.
    """

    def execute(self, context: Context) -> Json:
        """Run the job if one is needed.  Raises its error, as transient or terminal."""
        flow, ti, run = self.settings(), context["ti"], context["dag_run"]
        request = followed(request_of(context), run.run_type.value, flow)
        reason = why_no_job(ti.xcom_pull(task_ids="plan_ranges"), request, ti.try_number)
        if not reason and overlaps(flow):
            ask = functools.partial(ti.get_task_states, run.dag_id, task_ids=[self.task_id])
            follower = leaves_it_to(ask, self.task_id, run.run_id, request, ti.try_number)
            reason = f"run {follower} follows the source, and copies all there is" if follower else ""
        if reason:
            raise AirflowSkipException(reason)
        name = driver_name(run.dag_id, run.run_id, ti.try_number)
        outcome = self._replicate(flow.copy.spark_master, name, request, gives_way_to(flow, run.dag_id))
        failure = failure_of(outcome)
        if failure is not None:
            ti.xcom_push("return_value", for_xcom(outcome) if outcome else outcome)
            raise failure
        return for_xcom(outcome or {})

    def _replicate(self, master: str, name: str, request: CycleRequest, gives_way_to: str) -> Json | None:
        if master.startswith("sc://"):
            return self._on_connect_server(master, name, request, gives_way_to)
        arguments = job_arguments(configuration_path(), self.flow, name, request, gives_way_to)
        return self.submit(REPLICATE_JOB, master, arguments)

    def _on_connect_server(self, master: str, name: str, request: CycleRequest, gives_way_to: str) -> Json:
        from twinlog.jsonable import to_json
        from twinlog.spark.application import replicate

        topics = frozenset(request.topics) or None
        result = replicate(
            configuration_path(),
            self.flow,
            name,
            until_ms=request.until_ms,
            topics=topics,
            follow_seconds=request.follow_seconds,
            gives_way_to=gives_way_to,
            master=master,
            on_start=self.started,
        )
        outcome: Json = to_json(result)
        return outcome
