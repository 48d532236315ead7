"""The user's own rules as one Spark application: sample topics into a frame, apply each suite (driver)."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twinlog.cluster.open import open_clusters
from twinlog.config.flow.tiers import SampledSide
from twinlog.config.security.connection import ConnectionSettings
from twinlog.data_rules import ask as data_rules
from twinlog.data_rules.ask import SampledPartition
from twinlog.data_rules.suite import TopicRules, ask
from twinlog.spark import session as spark_session
from twinlog.spark.application import SUBMITTED, flow_named
from twinlog.spark.build import BUILD
from twinlog.spark.sample_task import SCHEMA, sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_data(config: Path, flow_name: str, *, master: str = SUBMITTED) -> data_rules.DataRulesResult:
    """Load the configuration, open a classic session on `master` and apply one flow's rules."""
    flow = flow_named(config, flow_name)
    side = flow.source if flow.data_rules.side is SampledSide.SOURCE else flow.target
    with (
        spark_session.session(master, f"twinlog data rules {flow.name}") as spark,
        open_clusters(flow) as clusters,
    ):
        return data_rules.run(flow, clusters, functools.partial(ask_on_spark, spark, side.connection))


def ask_on_spark(
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
    return tuple(ask(suite, path, topic, frame.where(frame.topic == topic).coalesce(1)) for topic in topics)
