"""The copy as a Spark application that stays for a while and copies what arrives."""

from __future__ import annotations

import functools
import logging
import time
from typing import TYPE_CHECKING

from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.result import CopyResult, keep_outcome
from twinlog.follow import follow
from twinlog.follow.background import HEAD_START_SECONDS, beside, turns
from twinlog.follow.report import RunState
from twinlog.spark.request import CopyRequest, OnStart
from twinlog.spark.runner import COPY, SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def run(
    flow: FlowSettings,
    request: CopyRequest,
    spark: SparkSession,
    master: str,
    on_start: OnStart,
) -> CopyResult:
    """Follow the flow for the seconds asked for, and do its other duties beside the copy."""
    runner = SparkRunner(spark, COPY, master, flow.copy.lanes)
    on_start(runner)
    with open_clusters(flow) as clusters:
        runner.warm()  # a run that follows until now goes on meanwhile
        run_state = RunState(request.run_id, round(time.time() * 1000))
        listed, tell = turns(flow, run_state), functools.partial(log.warning, "%s: %s")
        with beside(flow, listed, tell, head_start=HEAD_START_SECONDS):
            result = follow.run(
                flow,
                clusters,
                runner,
                run_id=request.run_id,
                seconds=request.follow_seconds or 0.0,
                topics=frozenset(request.topics) or None,
                on_generation=lambda generation: log.info(generation.line),
                on_refresh=log.info,
                gives_way_to=lambda rival: (
                    bool(request.gives_way_to) and rival.startswith(request.gives_way_to)
                ),
                run_state=run_state,
            )
        keep_outcome(flow, clusters.target, result)
        return result
