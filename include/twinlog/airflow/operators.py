"""The copy task: one Spark job, when there is something to copy."""

from __future__ import annotations

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from twinlog.airflow.copying import failure_of, job_arguments, why_no_job
from twinlog.airflow.flows import REPLICATE_JOB, configuration_path
from twinlog.airflow.request import CycleRequest, followed, request_of
from twinlog.airflow.spark_job import JobOperator, Json


class ReplicateOperator(JobOperator):
    """Copy what plan_ranges found: by spark-submit, or on a Connect server when the Spark master is `sc://`.

    Its XCom is the CopyResult as JSON, also of a copy that failed.  Skipped when there is nothing to copy: a
    cold Spark job costs 15 CPU-seconds.
    """

    def execute(self, context: Context) -> Json:
        """Run the job, if there is one to run.  Raises what went wrong, as transient or terminal."""
        flow = self.settings()
        request, ti = request_of(context), context["ti"]
        if flow.continuous:
            request = followed(request, context["dag_run"].run_type.value, flow.copy.follow_seconds)
        reason = why_no_job(ti.xcom_pull(task_ids="plan_ranges"), request)
        if reason:
            raise AirflowSkipException(reason)
        # A retry is another driver: the fence tells two of them apart by this name.
        run_id = f"{context['dag_run'].run_id}/{ti.try_number}"
        outcome = self._replicate(flow.copy.spark_master, run_id, request)
        failure = failure_of(outcome)
        if failure is not None:
            ti.xcom_push("return_value", outcome)
            raise failure
        return outcome or {}

    def _replicate(self, master: str, run_id: str, request: CycleRequest) -> Json | None:
        if master.startswith("sc://"):
            return self._on_connect_server(master, run_id, request)
        arguments = job_arguments(configuration_path(), self.flow, run_id, request)
        return self.submit(REPLICATE_JOB, master, arguments)

    def _on_connect_server(self, master: str, run_id: str, request: CycleRequest) -> Json:
        from twinlog.jsonable import to_json
        from twinlog.spark.application import replicate

        topics = frozenset(request.topics) or None
        result = replicate(
            configuration_path(),
            self.flow,
            run_id,
            until_ms=request.until_ms,
            topics=topics,
            follow_seconds=request.follow_seconds,
            master=master,
        )
        outcome: Json = to_json(result)
        return outcome
