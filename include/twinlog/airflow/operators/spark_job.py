"""Submit a Spark job of ours as a part of a task, and read its last line."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

from twinlog.airflow.flows import read_configuration
from twinlog.airflow.secrets import RememberedConnections
from twinlog.config.flow.settings import FlowSettings
from twinlog.jsonable import Json

if TYPE_CHECKING:
    from twinlog.spark.application import Running

CANCEL_SECONDS = 3.0
"""Seconds that a Connect server has to confirm a cancellation; two seconds later Airflow kills the task."""


class JobOperator(BaseOperator):  # type: ignore[misc]
    """Base of operators that run one job of ours for one flow."""

    def __init__(self, *, flow: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.flow = flow
        self._hook: Any = None
        self._running: Running | None = None

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
        flow = read_configuration(connections).flows[self.flow]
        os.environ.update(connections.environment())
        return flow

    def submit(self, job: Path, master: str, arguments: Sequence[str]) -> Json | None:
        """Run a job by spark-submit; return the JSON of its last line, None if it died without one."""
        from twinlog.airflow.operators.submit import ReplicateSubmitHook

        self._hook = ReplicateSubmitHook(
            master=master, name=f"twinlog {job.stem} {self.flow}", arguments=arguments
        )
        try:
            self._hook.submit(str(job))
        except AirflowException:
            # The job's own last line says more than "error code is 1"; without one, its output is in the log.
            self.log.exception("spark-submit failed")
        result: Json | None = self._hook.result
        return result
