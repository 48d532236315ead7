"""The audit as a Spark application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlog.audit import audit
from twinlog.audit.result import AuditResult
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.spark.request import AuditStepRequest, OnStart
from twinlog.spark.runner import AUDIT, SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(
    flow: FlowSettings, request: AuditStepRequest, spark: SparkSession, master: str, on_start: OnStart
) -> AuditResult:
    """Compare what the request names."""
    runner = SparkRunner(spark, AUDIT, master)
    on_start(runner)
    with open_clusters(flow) as clusters:
        return audit.run(flow, clusters, runner, request.audit)
