"""The copy task: one Spark job, when there is something to copy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from twinlog.airflow.copying import failure_of, job_arguments, why_no_job
from twinlog.airflow.flows import REPLICATE_JOB, configuration_path, read_configuration
from twinlog.airflow.request import CycleRequest, followed, request_of
from twinlog.airflow.secrets import RememberedConnections


class ReplicateOperator(BaseOperator):  # type: ignore[misc]
    """Copy what plan_ranges found: by spark-submit, or on a Connect server when the Spark master is `sc://`.

    Its XCom is the CopyResult as JSON, also of a copy that failed.  Skipped when there is nothing to copy: a
    cold Spark job costs 15 CPU-seconds.
    """

    def __init__(self, *, flow: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.flow = flow
        self._hook: Any = None

    def execute(self, context: Context) -> Mapping[str, Any]:
        """Run the job, if there is one to run.  Raises what went wrong, as transient or terminal."""
        flow = read_configuration(RememberedConnections()).flows[self.flow]
        request, ti = request_of(context), context["ti"]
        if flow.continuous:
            request = followed(request, context["dag_run"].run_type.value, flow.copy.follow_seconds)
        reason = why_no_job(ti.xcom_pull(task_ids="plan_ranges"), request)
        if reason:
            raise AirflowSkipException(reason)
        # A retry is another driver: the fence tells two of them apart by this name.
        run_id = f"{context['dag_run'].run_id}/{ti.try_number}"
        outcome = self._replicate(run_id, request)
        failure = failure_of(outcome)
        if failure is not None:
            ti.xcom_push("return_value", outcome)
            raise failure
        return outcome or {}

    def on_kill(self) -> None:
        """End spark-submit with the task."""
        if self._hook is not None:
            self._hook.on_kill()

    def _replicate(self, run_id: str, request: CycleRequest) -> Mapping[str, Any] | None:
        connections = RememberedConnections()
        master = read_configuration(connections).flows[self.flow].copy.spark_master
        os.environ.update(connections.environment())
        if master.startswith("sc://"):
            return self._on_connect_server(master, run_id, request)
        return self._by_spark_submit(master, run_id, request)

    def _on_connect_server(self, master: str, run_id: str, request: CycleRequest) -> Mapping[str, Any]:
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
        outcome: Mapping[str, Any] = to_json(result)
        return outcome

    def _by_spark_submit(self, master: str, run_id: str, request: CycleRequest) -> Mapping[str, Any] | None:
        from twinlog.airflow.submit import ReplicateSubmitHook

        arguments = job_arguments(configuration_path(), self.flow, run_id, request)
        self._hook = ReplicateSubmitHook(master=master, name=f"twinlog {self.flow}", arguments=arguments)
        try:
            self._hook.submit(str(REPLICATE_JOB))
        except AirflowException:
            # The job's own last line says more than "error code is 1"; without one, its output is in the log.
            self.log.exception("spark-submit failed")
        result: Mapping[str, Any] | None = self._hook.result
        return result
