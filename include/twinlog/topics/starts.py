"""Find where the copies of topics begin that a flow has never seen, if `twinlog.start` says where.

Invariant: a topic with a start is not copied before its beginning is in the ledger (copying/resolve.py), and that is
written only once every partition's offset is known.  So no restart, and no record written meanwhile, moves it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import Answers
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.flow.tiers import Start, StartKind
from twinlog.errors import ClusterRefused, TwinlogError
from twinlog.grouped import grouped
from twinlog.kafka_types import Positions, ReadRecord, TopicPartition
from twinlog.state.ledger import Ledger
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic


def start_of(
    flow: FlowSettings, topic: DiscoveredTopic, ledger: Ledger, copied: Collection[str]
) -> Start | None:
    """Return the start that decides where the copy of a topic begins; None if none does, or it is noted.  Pure.

    It is noted when the flow first sees the topic, whether its copy can be made or not.  `copied` are topics with
    progress, of MM2 perhaps: they go on where they are.
    """
    name = topic.topic
    noted = name in ledger.beginnings and ledger.beginnings[name].topic_id == topic.topic_id
    known = noted or name in ledger.incarnations or name in copied
    return None if known else flow.tier_of(name).start


def with_starts(
    flow: FlowSettings,
    source: ClusterReader,
    topics: Iterable[DiscoveredTopic],
    ledger: Ledger,
    copied: Collection[str],
    now_ms: int,
) -> tuple[DiscoveredTopic, ...]:
    """Put into topics that the flow has never seen where their copies would begin now.

    A partition whose leader does not tell is left out, as one whose offsets it does not tell.  Raises
    ClusterUnreachable.
    """
    found = tuple(topics)
    starts = {
        discovered_topic.topic: start
        for discovered_topic in found
        if (start := start_of(flow, discovered_topic, ledger, copied)) is not None
    }
    by_time: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for topic in found:
        if topic.topic in starts and (at := starts[topic.topic].moment_ms(now_ms)) is not None:
            by_time[at] += [partition.topic_partition for partition in topic.partitions]
    answers: dict[TopicPartition, int | None] = {}
    for at, partitions in by_time.items():
        answers |= source.offsets_at(partitions, at).found
    return tuple(
        replace(topic, partitions=tuple(_begun(topic, starts[topic.topic].kind, answers)))
        if topic.topic in starts
        else topic
        for topic in found
    )


def _begun(
    topic: DiscoveredTopic, kind: StartKind, answers: Mapping[TopicPartition, int | None]
) -> Iterator[DiscoveredPartition]:
    for partition in topic.partitions:
        match kind:
            case StartKind.EARLIEST:
                yield replace(partition, begins=partition.source.log_start)
            case StartKind.LATEST:
                yield replace(partition, begins=partition.source.stable_end)
            case _ if partition.topic_partition in answers:
                at = answers[partition.topic_partition]
                yield replace(
                    partition,
                    begins=partition.source.stable_end if at is None else max(at, partition.source.log_start),
                )


def first_records(
    source: ClusterReader, starts: Positions, *, read_committed: bool
) -> Answers[TopicPartition, ReadRecord]:
    """Read the first record from each start; if a topic is refused, those of the others are read all the same."""

    def read(some: Positions) -> Mapping[TopicPartition, ReadRecord]:
        found = source.read_records(some, limit=1, read_committed=read_committed)
        return {at: records[0] for at, records in found.items() if records}

    try:
        return Answers(read(starts))
    except ClusterRefused:
        found: dict[TopicPartition, ReadRecord] = {}
        refused: dict[TopicPartition, TwinlogError] = {}
    for some in grouped((at.topic, (at, start)) for at, start in starts.items()).values():
        try:
            found |= read(dict(some))
        except ClusterRefused as error:
            refused |= dict.fromkeys(dict(some), error)
    return Answers(found, refused)
