"""Look at the ends of the source's partitions, twice, for a consistent cut (cut/plan.py says what a look proves)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twinlog import clock
from twinlog.cluster.api import Cluster, ClusterReader
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.transactions import Look
from twinlog.kafka_types import TopicPartition
from twinlog.topics.discover import all_partitions, copied_names

SECONDS = 2.0
"""How often a flow in follow mode looks: the cut goes back behind the transactions that ended since the last look."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A look that is not noted yet."""

    at_ms: int
    topic_ids: Mapping[str, str]
    before: Mapping[TopicPartition, int]
    after: Mapping[TopicPartition, int]

    def note(self, flow: FlowSettings, target: Cluster, recording: str) -> None:
        """Write the look into the flow's topic.  Raises errors of the target."""
        look = Look(recording, self.at_ms, self.topic_ids, self.before, self.after)
        target.produce(flow.transactions_topic, [InternalRecord(look.key(), look.value())])


def look(flow: FlowSettings, source: ClusterReader) -> Looked:
    """Ask for topics and their ends, and when all have answered once more.

    The topics are asked for between the two: records that were written before the second answers may lie in a topic
    that was created after the first.  Raises errors of the source, also if one partition does not answer: a look that
    leaves out a partition proves nothing.
    """
    at_ms = clock.now_ms()
    _, before = _ends(flow, source)
    topic_ids, after = _ends(flow, source)
    return Looked(at_ms, topic_ids, {it: end for it, end in before.items() if it in after}, after)


def _ends(
    flow: FlowSettings, source: ClusterReader
) -> tuple[Mapping[str, str], Mapping[TopicPartition, int]]:
    topics = source.describe_topics(copied_names(flow, source)).require()
    offsets = source.offsets(all_partitions(topics.values())).require()
    return {name: it.topic_id for name, it in topics.items()}, {
        it: found.end for it, found in offsets.items()
    }
