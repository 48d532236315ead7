"""Find the copies of a promoted flow that it copies nothing into any more: clients may have written there, too.

Their topics were left out of the flow, or deleted on the source.  Nothing on the source can be compared with them, and
no flow brings home what clients wrote behind the last copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twinlog.cluster.values import PartitionOffsets
from twinlog.formats.ledger.topics import Incarnation
from twinlog.monitoring.heartbeats import own_heartbeats
from twinlog.topics.discover import all_partitions
from twinlog.topics.discovery import ProblemCode
from twinlog.topics.incarnations import differ, no_longer_copied
from twinlog.topics.snapshot import FlowSnapshot


@dataclass(frozen=True, slots=True)
class LeftCopy:
    """A copy that is still there, and what its partitions hold; `refused` says why that cannot be told of all."""

    life: Incarnation
    topic_id: str
    logs: Mapping[int, PartitionOffsets]
    refused: str = ""


def left_copies(snapshot: FlowSnapshot) -> Iterator[LeftCopy]:
    """Yield the copies, by topic; one that was created again is not the flow's.

    A flow home has none: what it brings records to are the source's own topics.  Raises ClusterUnreachable.
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
    offsets = target.offsets(all_partitions(answers.found.values()))
    for topic, life in sorted(left.items()):
        name = life.remote_topic
        copy, error = answers.found.get(name), answers.refused.get(name)
        if topic in beats or name in answers.absent:
            continue
        if copy is None:
            yield LeftCopy(life, "", {}, error.message if error is not None else "it was not described")
        elif not differ(life.remote_topic_id, copy.topic_id):
            logs = {at.partition: log for at, log in offsets.found.items() if at.topic == name}
            refused = [why.message for at, why in offsets.refused.items() if at.topic == name]
            yield LeftCopy(life, copy.topic_id, logs, next(iter(refused), ""))


def known_to_be_gone(snapshot: FlowSnapshot) -> frozenset[str]:
    """Return the topics that are gone from both sides, and those that are because their owners wanted it.

    The latter were deleted before the failover, so that cycles saw it.  A topic that is gone since may have been lost
    with the source; a person can leave it out of the flow.
    Raises errors of the target.
    """
    failover = snapshot.ledger.present_failover
    began_ms = failover.started_ms if failover is not None else 0
    seen = {it.topic for it in snapshot.ledger.deleted.values() if it.first_seen_ms < began_ms}
    gone = {it.topic for it in snapshot.discovery.problems if it.code is ProblemCode.DELETED}
    copies = {snapshot.ledger.incarnations[topic].remote_topic: topic for topic in gone}
    from_both = {copies[name] for name in snapshot.clusters.target.describe_topics(copies).absent}
    return frozenset(
        it for it in gone if it in seen | from_both or snapshot.flow.why_left_out(it) is not None
    )
