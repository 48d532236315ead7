"""The copy as a Spark application: one micro-batch."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import copy
from twinlog.copying.progress import Lines
from twinlog.copying.result import CopyResult, keep_outcome
from twinlog.observe.run import run as observe
from twinlog.recovery.reverse import as_noted
from twinlog.spark.request import CopyRequest, OnStart
from twinlog.spark.runner import COPY, SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def run(
    flow: FlowSettings, request: CopyRequest, spark: SparkSession, master: str, on_start: OnStart
) -> CopyResult:
    """Copy what is pending, or read what another engine has copied; what became of it is kept in the ledger."""
    runner = SparkRunner(spark, COPY, master)
    on_start(runner)
    with open_clusters(flow) as clusters:
        if flow.observed:
            looks, only = runner.looks(), frozenset(request.topics) or None
            return observe(flow, clusters, looks, run_id=request.run_id, topics=only)
        flow = as_noted(flow, clusters.target)
        result = copy.run(
            flow,
            clusters,
            runner,
            run_id=request.run_id,
            until_ms=request.until_ms,
            topics=frozenset(request.topics) or None,
            on_progress=Lines(log.info).tell,
        )
        keep_outcome(flow, clusters.target, result)
        return result
