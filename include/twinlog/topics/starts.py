"""Find where the copies of topics begin that a flow has never seen, if `twinlog.start` says where.

Invariant: a topic with a start is not copied before its beginning is in the ledger (copying/resolve.py), and that is
written only once every partition's offset is known.  So no restart, and no record written meanwhile, moves it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace

from twinlog.cluster.api import ClusterReader
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.flow.start import StartKind
from twinlog.kafka_types import TopicPartition
from twinlog.state.ledger import Ledger
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic


def awaits_start(flow: FlowSettings, topic: str, ledger: Ledger, copied: Collection[str]) -> bool:
    """Say whether `twinlog.start` decides where the copy of a topic begins, and it is not noted yet.  Pure.

    `copied` are topics with progress, of MM2 perhaps: they go on where they are.
    """
    known = topic in ledger.incarnations or topic in copied
    return not known and flow.tier_of(topic).start is not None


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
    waiting = {it.topic for it in found if awaits_start(flow, it.topic, ledger, copied)}
    by_time: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for topic in found:
        if topic.topic in waiting and (at := _moment(flow, topic.topic, now_ms)) is not None:
            by_time[at] += [TopicPartition(topic.topic, it.partition) for it in topic.partitions]
    answers: dict[TopicPartition, int | None] = {}
    for at, partitions in by_time.items():
        answers |= source.offsets_at(partitions, at).found
    return tuple(
        replace(topic, partitions=tuple(_begun(flow, topic, answers, now_ms)))
        if topic.topic in waiting
        else topic
        for topic in found
    )


def _begun(
    flow: FlowSettings, topic: DiscoveredTopic, answers: dict[TopicPartition, int | None], now_ms: int
) -> Iterable[DiscoveredPartition]:
    start = flow.tier_of(topic.topic).start
    for it in topic.partitions:
        place = TopicPartition(topic.topic, it.partition)
        if _moment(flow, topic.topic, now_ms) is None:
            latest = start is not None and start.kind is StartKind.LATEST
            yield replace(it, begins=it.source.stable_end if latest else it.source.log_start)
        elif place in answers:
            at = answers[place]
            yield replace(it, begins=it.source.stable_end if at is None else max(at, it.source.log_start))


def _moment(flow: FlowSettings, topic: str, now_ms: int) -> int | None:
    start = flow.tier_of(topic).start
    return None if start is None else start.moment_ms(now_ms)
