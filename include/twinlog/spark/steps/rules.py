"""The user's own rules of the data as a Spark application: each partition is sampled in a task of its own."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import ConnectionSettings
from twinlog.data_rules import ask
from twinlog.data_rules.ask import DataRulesResult
from twinlog.data_rules.sample import SampledPartition
from twinlog.data_rules.suite import TopicRules
from twinlog.data_rules.suite import ask as ask_of_topic
from twinlog.spark.build import BUILD
from twinlog.spark.sample_task import SCHEMA, sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(flow: FlowSettings, spark: SparkSession) -> DataRulesResult:
    """Sample the flow's topics and apply their suite."""
    with open_clusters(flow) as clusters:
        return ask.run(flow, clusters, functools.partial(_ask_on_spark, spark, flow.target.connection))


def _ask_on_spark(
    spark: SparkSession,
    connection: ConnectionSettings,
    suite: Mapping[str, object],
    path: Path,
    partitions: Sequence[SampledPartition],
) -> tuple[TopicRules, ...]:
    """Read every partition in a task of its own, then apply the suite topic by topic."""
    if not partitions:
        return ()
    read = functools.partial(sample, pickle.dumps((connection, tuple(partitions))), BUILD)
    frame = spark.range(0, len(partitions), 1, len(partitions)).mapInArrow(read, SCHEMA).cache()
    # Great Expectations runs dozens of small queries: one task each, not Spark's 200.
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    topics = sorted({it.topic for it in partitions})
    return tuple(
        ask_of_topic(suite, path, topic, frame.where(frame.topic == topic).coalesce(1)) for topic in topics
    )
