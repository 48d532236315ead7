"""spark-submit of our job, through the Spark provider's own hook."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import Connection

from twinlog.airflow.flows import SPARK_CONNECTION
from twinlog.airflow.versions import AirflowNotFoundException
from twinlog.airflow.xcom import short
from twinlog.errors import ConfigError
from twinlog.jsonable import Json
from twinlog.spark.classes import submit_options
from twinlog.spark.request import MARK
from twinlog.spark.session import local_address
from twinlog.visible import visible

MOST_CHARACTERS = 2_000
"""Characters of one line of the job in the task's log."""


class StepSubmitHook(SparkSubmitHook):  # type: ignore[misc]
    """SparkSubmitHook that knows the flow's master and keeps the JSON line with which the job ends.

    That line begins with a mark that only this run knows: whoever names a transactional id can write lines into a log.
    The Airflow connection `twinlog_spark` says where to submit; without it, `master` does (the provider itself would
    go to YARN).  Raises ConfigError if it wants the driver on the cluster, which would keep that line.
    """

    def __init__(self, *, master: str, name: str, arguments: Sequence[str]) -> None:
        self._master = master
        self._mark = f"twinlog-{secrets.token_hex(16)}"
        self.result: Json | None = None
        super().__init__(
            conn_id=SPARK_CONNECTION,
            name=name,
            application_args=list(arguments),
            # Before our own session sets it, Spark would fill the task's log with hundreds of INFO lines.
            conf={"spark.log.level": "WARN"},
        )
        if self._connection["deploy_mode"] == "cluster":
            raise ConfigError(
                f"the Airflow connection {SPARK_CONNECTION} has deploy mode cluster, where a job's result stays",
                "set its deploy mode to client",
            )
        # As `env_vars` the provider would put it on a command line for YARN, and for Kubernetes nowhere else.
        self._env = job_environment(self._connection["master"]) | {MARK: self._mark}

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Run spark-submit, which does not outlive this call; bytes of its output that are no text are replaced."""
        try:
            driver: str | None = super().submit(application, errors="replace", **kwargs)
            return driver
        finally:
            if self._submit_sp is not None and self._submit_sp.poll() is None:
                self.on_kill()

    def get_connection(self, conn_id: str) -> Connection:
        """Return the Airflow connection, or one made of the configured master."""
        try:
            return super().get_connection(conn_id)
        except AirflowNotFoundException:
            return Connection(conn_id=conn_id, conn_type="spark", host=self._master)

    def _process_spark_submit_log(self, itr: Iterable[str]) -> None:
        super()._process_spark_submit_log(self._keep_result(itr))

    def _keep_result(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if not line.startswith(f'{{"{self._mark}":'):
                yield visible(short(line.rstrip("\n"), MOST_CHARACTERS))
                continue
            try:  # the task writes it to its log, in lines
                self.result = json.loads(line)[self._mark]
            except ValueError:
                yield "the job's result was cut short"


def job_environment(master: str) -> dict[str, str]:
    """Return the environment in which spark-submit is found and runs its Python side with this interpreter.

    With a local `master` it listens to this machine alone.
    """
    scripts = str(Path(sys.executable).parent)
    return {
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)]),
        "PYSPARK_PYTHON": sys.executable,
        **submit_options(os.environ),
        **local_address(master, os.environ),
    }
