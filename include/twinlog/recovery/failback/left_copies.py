"""Find the copies of a promoted flow that it copies nothing into any more: clients may have written there, too.

Their topics were left out of the flow, or deleted on the source.  Nothing on the source can be compared with them, and
no flow brings home what clients wrote behind the last copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twinlog.cluster.values import NO_SUCH_TOPIC, PartitionOffsets, TopicDescription
from twinlog.formats.ledger.topics import Incarnation
from twinlog.kafka_types import TopicPartition
from twinlog.monitoring.heartbeats import own_heartbeats
from twinlog.topics.discover import all_partitions
from twinlog.topics.discovery import ProblemCode
from twinlog.topics.incarnations import differ, no_longer_copied
from twinlog.topics.snapshot import FlowSnapshot


@dataclass(frozen=True, slots=True)
class LeftCopy:
    """A copy that is still there, and what its partitions hold."""

    life: Incarnation
    copy: TopicDescription
    logs: Mapping[int, PartitionOffsets]


def left_copies(snapshot: FlowSnapshot) -> Iterator[LeftCopy]:
    """Yield the copies, by topic; one that was created again is not the flow's.  Raises errors of the target.

    A flow home has none: what it brings records to are the source's own topics.
    """
    flow, ledger, target = snapshot.flow, snapshot.ledger, snapshot.clusters.target
    if flow.homes is not None:
        return
    seen = {it.topic for it in snapshot.discovery.topics}
    left = {
        topic: life
        for topic, life in ledger.incarnations.items()
        if topic not in seen and no_longer_copied(flow, ledger, topic)
    }
    beats = own_heartbeats(flow, snapshot.clusters.source, left)
    answers = target.describe_topics({life.remote_topic for life in left.values()})
    for error in answers.refused.values():
        if error.code != NO_SUCH_TOPIC:
            raise error
    logs = target.offsets(all_partitions(answers.found.values())).require()
    for topic, life in sorted(left.items()):
        copy = answers.found.get(life.remote_topic)
        if copy is None or topic in beats or differ(life.remote_topic_id, copy.topic_id):
            continue
        places = (TopicPartition(copy.name, it.partition) for it in copy.partitions)
        yield LeftCopy(life, copy, {at.partition: logs[at] for at in places})


def known_to_be_gone(snapshot: FlowSnapshot) -> frozenset[str]:
    """Return the topics that cycles before the failover saw deleted on the source: their owners wanted that.

    A topic that is gone since may have been lost with the source.
    """
    failover = snapshot.ledger.present_failover
    began_ms = failover.started_ms if failover is not None else 0
    return frozenset(
        it.topic
        for it in snapshot.discovery.problems
        if it.code is ProblemCode.DELETED
        and it.topic in snapshot.ledger.deleted
        and snapshot.ledger.deleted[it.topic].first_seen_ms < began_ms
    )
