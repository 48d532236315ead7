"""Run a step of a flow on Spark as an Airflow task: its result is the XCom, its verdict the task's state."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Connection, Context

from twinlog import errors
from twinlog.airflow.flows import SPARK_CONNECTION, STEP_JOB, read_configuration
from twinlog.airflow.plugin.links import FlowPageLink
from twinlog.airflow.secrets import RememberedConnections
from twinlog.airflow.versions import AirflowException, AirflowNotFoundException
from twinlog.airflow.xcom import MOST_CHARACTERS, lines_of, short
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.flow.values import ALONE, AUTO
from twinlog.errors import TerminalError, TransientError, TwinlogError
from twinlog.jsonable import Json
from twinlog.recovery.ways_home import flow_called

if TYPE_CHECKING:
    from twinlog.spark.request import Request, Running

CANCEL_SECONDS = 3.0
"""Seconds that a Connect server has to confirm a cancellation; two seconds later Airflow kills the task."""


@dataclass(frozen=True, slots=True)
class Step:
    """Tell what the operator has to know of a step.

    `request` says what to run; it raises AirflowSkipException if there is nothing to do, or the error of a wrong form.
    `for_xcom` cuts a result to what XCom holds.  `failure` returns the error that a result amounts to, None if all is
    in order.
    """

    request: Callable[[FlowSettings, Context], Request]
    for_xcom: Callable[[Json], Json]
    failure: Callable[[Json], Exception | None]


class SparkStepOperator(BaseOperator):  # type: ignore[misc]
    """Run a step of a flow: by spark-submit, or on a Connect server if the Spark master is `sc://`.

    Its XCom is the step's result as JSON, cut if it is large, also if the step failed.
    """

    template_fields: Sequence[str] = ("flow",)
    operator_extra_links = (FlowPageLink(),)

    def __init__(self, *, step: Step, flow: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.step = step
        self.flow = flow
        self._hook: Any = None
        self._running: Running | None = None

    def execute(self, context: Context) -> Json:
        """Run the step if there is something to do.  Raises its error, as transient or terminal."""
        flow = self.settings()
        outcome = self.run_on_spark(self.step.request(flow, context), flow.copy.spark_master)
        failure: Exception | None = error_of(outcome)
        document = outcome or {}
        if failure is None:
            document, failure = self.step.for_xcom(document), self.step.failure(document)
            for line in lines_of(document):
                self.log.info(line)
        if failure is not None:
            if document:
                context["ti"].xcom_push("return_value", document)
            raise failure
        return document

    def on_kill(self) -> None:
        """End the Spark job with the task: spark-submit, or the jobs on a Connect server, and then this process.

        Raises SystemExit if there is no spark-submit to end: an ordinary error would be taken for one of the job, and
        the driver would fence and begin again.
        """
        if self._hook is not None:
            self._hook.on_kill()
            return
        if self._running is not None:
            # In a thread: the code that this signal has interrupted may hold a lock of the session.
            cancelling = Thread(target=self._running.cancel, daemon=True)
            cancelling.start()
            cancelling.join(CANCEL_SECONDS)
        sys.exit(128 + signal.SIGTERM)

    def started(self, running: Running) -> None:
        """Keep the jobs on a Connect server, to be ended with the task."""
        self._running = running

    def settings(self) -> FlowSettings:
        """Read the flow, and hand the values of Airflow's connections to the processes that this task starts."""
        connections = RememberedConnections()
        flow = flow_called(read_configuration(connections), self.flow)
        os.environ.update(connections.environment())
        return flow

    def run_on_spark(self, request: Request, configured: str) -> Json | None:
        """Return the result, or the error, of a step as JSON; None if spark-submit died without one.

        Raises TerminalError `java` if it found no Java.
        """
        master = self._choose_master(request, configured)
        if not master.startswith("sc://"):
            return self._submit(request, master)
        from twinlog.spark import application

        return application.run(request, master=master, on_start=self.started).told

    def _choose_master(self, request: Request, configured: str) -> str:
        """Return the Spark master of a step; if `auto` is configured, an Airflow connection to Spark comes first.

        A step that follows has a Spark of its own: it would hold the slots of a server.
        """
        if configured != AUTO:
            return configured
        from twinlog.spark.server import choose

        if getattr(request, "follow_seconds", None) or _has_connection():
            return ALONE
        choice = choose(configured)
        if choice.line:
            self.log.info(choice.line)
        return choice.master

    def _submit(self, request: Request, master: str) -> Json | None:
        from twinlog.airflow.operators.submit import StepSubmitHook
        from twinlog.spark.request import as_json

        name = f"twinlog: {request.step} {self.flow}"
        self._hook = StepSubmitHook(master=master, name=name, arguments=[as_json(request)])
        try:
            self._hook.submit(str(STEP_JOB))
        except AirflowException as error:
            # The job's result says more than "error code is 1"; without one, its output is in the log.
            if self._hook.result is None:
                self.log.error("spark-submit failed: %s", short(str(error), MOST_CHARACTERS))
        result: Json | None = self._hook.result
        if result is None and (missing := no_java(os.environ)):
            raise missing
        return result


def _has_connection() -> bool:
    try:
        Connection.get(SPARK_CONNECTION)
    except AirflowNotFoundException:
        return False
    return True


def no_java(environment: Mapping[str, str]) -> TerminalError | None:
    """Return the error of a machine on which Spark finds no Java, None if it finds one."""
    from twinlog.spark.classes import spark_java

    if spark_java(environment) is not None:
        return None
    home = environment.get("JAVA_HOME")
    return TerminalError(
        f"Spark finds no Java: JAVA_HOME is {home}, which has no bin/java"
        if home
        else "Spark finds no Java: JAVA_HOME is not set, and there is none on the path",
        "set JAVA_HOME to a JDK 17 or 21 for Airflow's workers",
        code="java",
    )


def error_of(outcome: Json | None) -> TwinlogError | None:
    """Return the error with which a job ended, None if it has a result.

    `outcome` is a result as JSON, or `{"error": {"kind", "code", "message"}}`; None means that the job died without
    printing one.
    """
    if outcome is None:
        return TransientError(
            "the Spark job ended without a result", "its last lines are above", code="spark-job"
        )
    error = outcome.get("error")
    if not isinstance(error, Mapping):
        return None
    return _error_class(error["kind"])(error["message"], code=error["code"])


def _error_class(name: str) -> type[TwinlogError]:
    """Return the class, by its name, of an error that was raised in another process."""
    kind = getattr(errors, name, TerminalError)
    return kind if isinstance(kind, type) and issubclass(kind, TwinlogError) else TerminalError
