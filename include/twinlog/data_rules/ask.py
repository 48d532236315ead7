"""Step `data_rules`: apply the user's own rules to a sample of each topic.  Does not affect the copy by default.

With `twinlog.data.quality.stop`, a topic that breaks a critical rule is paused in the ledger, by source topic, until a
person resumes it.  Without it, the result is only reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.flow.tiers import DataRulesSettings
from twinlog.data_rules.sample import SampledPartition
from twinlog.data_rules.suite import TopicRules, read_suite
from twinlog.errors import ExitCode, UsageError
from twinlog.jsonable import Json, to_json
from twinlog.state.changes import Entries, change
from twinlog.state.ledger import read_ledger
from twinlog.topics.discovery import DiscoveredTopic, Discovery
from twinlog.topics.pauses import new_pauses
from twinlog.topics.snapshot import FlowSnapshot

Asker = Callable[[Mapping[str, object], Path, Sequence[SampledPartition]], tuple[TopicRules, ...]]
"""Samples partitions and applies the suite to each topic: Spark's in production."""


@dataclass(frozen=True, slots=True)
class DataRulesResult:
    """The result of the rules on `records` sampled records; `paused` are the source topics paused because of it.

    `success` is true if at least one record was judged and no critical rule is broken.
    """

    flow: str
    suite: str
    success: bool
    topics: tuple[TopicRules, ...]
    paused: tuple[str, ...]
    records: int = 0

    @property
    def exit_code(self) -> ExitCode:
        """Return how an application that asked this ends."""
        return ExitCode.DONE if self.success else ExitCode.SAYS_NO

    @property
    def told(self) -> Json:
        """Return what an application tells of it, without contents of records."""
        found: Json = to_json(self)
        return found


def run(flow: FlowSettings, clusters: Clusters, ask: Asker) -> DataRulesResult:
    """Sample and judge.

    Raises UsageError if the flow has no suite, ConfigError if the suite cannot be used, ClusterUnreachable and
    ClusterRefused.  A broken rule is an answer, not an error.
    """
    settings = flow.data_rules
    if settings.suite is None:
        raise UsageError(f"{flow.name} has no rules of its own", hint="set twinlog.data.quality.suite")
    suite = read_suite(settings.suite)
    partitions = newest(FlowSnapshot(flow, clusters).discovery, settings)
    topics = ask(suite, settings.suite, partitions)
    broken = sorted(it.topic for it in topics if it.broken)
    paused = _pause(flow, clusters, broken) if settings.stop else ()
    records = sum(it.records for it in topics)
    success = records > 0 and not broken
    return DataRulesResult(flow.name, settings.suite.name, success, topics, paused, records)


def newest(discovery: Discovery, settings: DataRulesSettings) -> tuple[SampledPartition, ...]:
    """Choose the newest offsets of each partition of the topics that the rules apply to.  Pure."""
    return tuple(
        it
        for topic in discovery.topics
        if settings.topics.accepts(topic.topic)
        for it in _newest(topic, settings)
    )


def _newest(topic: DiscoveredTopic, settings: DataRulesSettings) -> Iterable[SampledPartition]:
    for partition in topic.partitions:
        log = partition.target
        if log is not None and log.stable_end > log.log_start:
            start = max(log.log_start, log.stable_end - settings.sample_records)
            yield SampledPartition(
                topic.topic, topic.remote_topic, partition.partition, start, log.stable_end
            )


def _pause(flow: FlowSettings, clusters: Clusters, topics: Sequence[str]) -> tuple[str, ...]:
    now, reason = clock.now_ms(), "it breaks a critical rule of twinlog.data.quality.suite"
    before = read_ledger(flow, clusters.target).pauses
    change(
        flow,
        clusters.target,
        lambda ledger: Entries(new_pauses(ledger, topics, now, "data-rules", reason)),
    )
    return tuple(it for it in topics if it not in before)
