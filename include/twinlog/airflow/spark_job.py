"""A Spark job of ours as a part of a task: submitted, and its last line read back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

from twinlog.airflow.flows import read_configuration
from twinlog.airflow.secrets import RememberedConnections
from twinlog.config.settings import FlowSettings
from twinlog.jsonable import Json


class JobOperator(BaseOperator):  # type: ignore[misc]
    """Base of operators that run one job of ours for one flow."""

    def __init__(self, *, flow: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.flow = flow
        self._hook: Any = None

    def on_kill(self) -> None:
        """End spark-submit with the task."""
        if self._hook is not None:
            self._hook.on_kill()

    def settings(self) -> FlowSettings:
        """Read the flow, and hand what Airflow's connections say to the processes this task starts."""
        connections = RememberedConnections()
        flow = read_configuration(connections).flows[self.flow]
        os.environ.update(connections.environment())
        return flow

    def submit(self, job: Path, master: str, arguments: Sequence[str]) -> Json | None:
        """Run a job by spark-submit; return what its last line says, None when it died without a word."""
        from twinlog.airflow.submit import ReplicateSubmitHook

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
