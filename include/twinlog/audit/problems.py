"""Say why topics and partitions of a flow cannot be audited, before anything is compared.  Pure.

Law: a partition of which something was copied is compared, or a problem says that it is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.audit.deleted_early import DeletedEarly
from twinlog.audit.map_holes import LostStretch
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.map.packed_map import UnreadableMap
from twinlog.kafka_types import Issue, Positions, SourceIncarnation, TopicPartition
from twinlog.offsets.offset_map import OffsetMap
from twinlog.state.ledger import Ledger
from twinlog.state.progress import Maps
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic, Discovery, Problem, ProblemCode
from twinlog.topics.other_writers import OtherWriters

NOTHING_COPIED = "nothing-copied"
"""Code of a flow whose copies hold no record: there is nothing to compare."""

MAP_LOST = "map-lost"
"""Code of a partition that has lost a part of its offset map."""

MAP_LOST_HINT = (
    "`twinlog audit --full` names what is missing; `twinlog topics rebuild` makes copy and map anew"
)

NO_MAP_HINT = (
    "what MirrorMaker 2 copied is proved after `twinlog migrate takeover`; a lost map needs a new copy"
)


@dataclass(frozen=True, slots=True)
class AuditState:
    """Tell what the plan is made from, in this order: progress and `map_ends`, the ends of the logs, ledger and map.

    `map_ends` is the end of each map at that time.  `compacted` are the source topics that have `compact` in their
    cleanup.policy on either side.  `sharing` says which records in either log are not the flow's.  `early` is what was
    deleted from the copies early, by source partition.
    """

    discovery: Discovery
    ledger: Ledger
    maps: Maps[OffsetMap]
    progress: Positions
    map_ends: Mapping[SourceIncarnation, int]
    compacted: Collection[str]
    sharing: OtherWriters = field(default_factory=OtherWriters)
    early: Mapping[TopicPartition, DeletedEarly] = field(default_factory=dict)


def map_lost(name: str, copy: str, lost: Sequence[LostStretch]) -> Iterator[Issue]:
    """Report the copied offsets of a partition that the map has lost."""
    for stretch in lost:
        message = (
            f"{name}-{copy.rpartition('-')[2]}: upstream offsets {stretch.start} to {stretch.end - 1} were copied,"
            f" at most {stretch.records} records, and the offset map has lost where to:"
            f" between {stretch.after} and {stretch.before} of {copy}"
        )
        yield Issue(MAP_LOST, name, message, MAP_LOST_HINT)


def found_problems(
    flow: FlowSettings, state: AuditState, wanted: Collection[str] | None = None
) -> Iterator[Issue]:
    """Report what keeps the `wanted` source topics from being audited; None means all of the flow."""
    known = _Known.of(state)
    for topic in state.discovery.topics:
        if wanted is None or topic.topic in wanted:
            yield from _topic_problems(topic, known)
            for partition in topic.partitions:
                yield from _partition_problems(topic, partition, state, known)
    yield from _hidden(flow, state, wanted)


def _hidden(flow: FlowSettings, state: AuditState, wanted: Collection[str] | None) -> Iterator[Issue]:
    """Report copied topics that the source has but no longer shows to this user."""
    copied = {it.topic for it in state.progress}
    for problem in state.discovery.problems:
        if (
            problem.code is ProblemCode.SOURCE_REFUSED
            and problem.topic in copied
            and (wanted is None or problem.topic in wanted)
            and flow.why_left_out(problem.topic) is None
        ):
            yield problem


@dataclass(frozen=True, slots=True)
class _Known:
    """Tell what is known of each source topic, by name.

    `lives` are the topic ids (incarnations) of which a map says what became of some offsets, or may say it.  `broken`
    are the maps that cannot be read, in order.
    """

    copied: Mapping[str, list[int]]
    against: Mapping[str, list[Problem]]
    lives: Mapping[str, set[str]]
    broken: Mapping[str, list[tuple[SourceIncarnation, UnreadableMap]]]

    @classmethod
    def of(cls, state: AuditState) -> _Known:
        """Collect it from the state, once."""
        known = cls(defaultdict(list), defaultdict(list), defaultdict(set), defaultdict(list))
        for at in sorted(state.progress):
            known.copied[at.topic].append(at.partition)
        for problem in state.discovery.problems:
            known.against[problem.topic].append(problem)
        for life, offset_map in state.maps.items():
            if offset_map.end_upstream > offset_map.first_upstream:  # it may hold no records, only say why
                known.lives[life.topic].add(life.topic_id)
        for life, error in sorted(state.maps.broken.items()):
            known.lives[life.topic].add(life.topic_id)
            known.broken[life.topic].append((life, error))
        return known


def _topic_problems(topic: DiscoveredTopic, known: _Known) -> Iterator[Issue]:
    name = topic.topic
    yield from _unreadable(topic, known)
    lives, copied, against = known.lives[name], known.copied[name], known.against[name]
    if lives and topic.topic_id not in lives:
        message = (
            f"topic {name} was made anew on the source: {topic.remote_topic} is the copy of an earlier life"
        )
        yield Issue(ProblemCode.RECREATED, name, message, "decide what becomes of the copy")
    elif copied and not lives:
        message = f"partitions {copied} of {name} were copied, but no offset map says where to"
        yield Issue("no-map", name, message, NO_MAP_HINT)
    elif (lives or copied) and topic.remote is None:
        message = f"the copy {topic.remote_topic} of {name} does not exist"
        yield Issue(ProblemCode.COPY_DELETED, name, message, "it must be copied anew")
    yield from (
        problem
        for problem in against
        if (problem.blocking and problem.code not in {ProblemCode.RECREATED, ProblemCode.COPY_DELETED})
        or problem.code is ProblemCode.PARTITION_UNAVAILABLE
    )


def _unreadable(topic: DiscoveredTopic, known: _Known) -> Iterator[Issue]:
    for life, error in known.broken[topic.topic]:
        if life.topic_id == topic.topic_id:
            yield Issue(error.code, topic.topic, error.message, error.hint)


def _partition_problems(
    topic: DiscoveredTopic, partition: DiscoveredPartition, state: AuditState, known: _Known
) -> Iterator[Issue]:
    """Report what keeps one partition from being audited although its topic can be."""
    name, copy = f"{topic.topic}-{partition.partition}", f"{topic.remote_topic}-{partition.partition}"
    life = partition.life
    copied, mapped = life.topic_partition in state.progress, life in state.maps
    if topic.remote is None or life in state.maps.broken or not (copied or mapped):
        return
    if partition.target is None and partition.partition < topic.remote.partitions:
        message = f"the offsets of {copy}, the copy of {name}, cannot be read"
        hint = "wait until it has a leader that answers, and audit again"
        yield Issue(ProblemCode.PARTITION_UNAVAILABLE.value, topic.topic, message, hint)
    elif partition.target is None:
        message = f"{copy}, the copy of {name}, does not exist"
        yield Issue(ProblemCode.COPY_DELETED.value, topic.topic, message, "it must be copied anew")
    elif not mapped and topic.topic_id in known.lives[topic.topic] and not _expired(partition.target):
        message = f"{name} was copied, but no offset map says where to"
        yield Issue("no-map", topic.topic, message, NO_MAP_HINT)


def _expired(copy: PartitionOffsets) -> bool:
    """Say whether the copy once held records and none of them is left to compare."""
    return 0 < copy.end == copy.log_start
