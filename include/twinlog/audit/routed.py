"""Prove the records that rules route to other topics: read these topics whole, and compare.

The topics' ends are read before the maps, so every record below them comes from an offset that these maps know, but for
the milliseconds in which the markers of one transaction are written.  Many lanes, and flows, write to one partition.  A
transaction that is open there hides committed records behind it, so the audit waits for those in front of its end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twinlog.audit.comparison.record_fields import records_of
from twinlog.audit.comparison.routed import Expected, RoutedTopicWalk, known_within, unpacked
from twinlog.audit.comparison.values import LISTED, Comparison
from twinlog.audit.plan import AuditPlan, PartitionPlan
from twinlog.audit.result import AuditedDifference, AuditedRoute
from twinlog.batches.header import LOG_APPEND_TIME
from twinlog.checks.coverage import UnprovedCount, counted
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.open import Clusters
from twinlog.cluster.values import PartitionOffsets, TopicDescription, value_of
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.audit import Unproved
from twinlog.kafka_types import Issue, SourceIncarnation, TopicPartition
from twinlog.logs.partition_reader import Lost, PartitionReader
from twinlog.protocol.brokers import Brokers
from twinlog.state.progress import read_packed
from twinlog.topics.discovery import Discovery
from twinlog.topics.routed import sources

ROUTED_UNREAD = "routed-unread"
"""Code of a routed topic that could not be read."""

OPEN_SECONDS = 60.0
"""How long the audit waits for transactions that are open in a routed topic."""

_PAUSE_SECONDS = 0.2

Found = Mapping[SourceIncarnation, Comparison]


@dataclass(frozen=True, slots=True)
class RoutedAudit:
    """Tell what the audit of routed topics found.

    `found` are the comparisons of the source partitions with the differences of what they route.  `loose` are records
    that belong to no audited source offset, `loose_count` of them.  `unread` are source partitions of which not all
    that they route could be compared: nothing may be remembered of them.
    """

    found: Found
    routes: tuple[AuditedRoute, ...] = ()
    loose: tuple[AuditedDifference, ...] = ()
    loose_count: int = 0
    problems: tuple[Issue, ...] = ()
    unread: frozenset[SourceIncarnation] = frozenset()

    @property
    def equal(self) -> int:
        """Count the routed records that were proved equal."""
        return sum(it.equal for it in self.routes)

    @property
    def expired(self) -> int:
        """Count the routed records that retention has taken."""
        return sum(it.expired for it in self.routes)

    @property
    def unproved(self) -> tuple[UnprovedCount, ...]:
        """Count the routed records of which nothing was proved, by reason."""
        compacted = sum(it.compacted for it in self.routes)
        return counted({"routed-expired": self.expired, "routed-compacted": compacted})


def audit_routed(
    flow: FlowSettings,
    clusters: Clusters,
    discovery: Discovery,
    decided: AuditPlan,
    found: Found,
    *,
    fetch_bytes: int,
    settle_seconds: float,
) -> RoutedAudit:
    """Compare each topic that the flow's rules route records to.  Raises errors of a target that cannot be reached."""
    names = sorted(sources(flow, discovery.topics))
    if not names:
        return RoutedAudit(found)
    there = clusters.target.describe_topics(names)
    problems = [_unread(name, error.message, error.hint) for name, error in there.refused.items()]
    places = [
        TopicPartition(name, it.partition) for name, one in there.found.items() for it in one.partitions
    ]
    ends, refused = _ends(clusters, places)
    problems += refused
    known_to = _known_to(flow, clusters)
    shrinking = compacted(clusters.target, there.found)
    walks = []
    with Brokers(flow.target.connection) as brokers:
        reader = PartitionReader(brokers, Unproved.TARGET_RETENTION, fetch_bytes=fetch_bytes)
        for name, topic in there.found.items():
            expected = (_expected(it, found[it.life], name, known_to) for it in decided.partitions)
            walk = RoutedTopicWalk(name, flow.source.alias, expected)
            starts = _read(walk, topic, ends, reader, problems)
            walk.finish(starts, len(topic.partitions), compacted=name in shrinking)
            walks.append((walk, len(topic.partitions)))
    if any(it.life is not None for walk, _ in walks for it in walk.loose):
        time.sleep(settle_seconds)
        newer = _known_to(flow, clusters)
        for walk, _ in walks:
            walk.settle(newer)
    return RoutedAudit(
        _joined(found, [walk for walk, _ in walks]),
        tuple(_route(walk, partitions) for walk, partitions in walks),
        tuple(it for walk, _ in walks for it in _loose(walk)),
        sum(walk.loose_count for walk, _ in walks),
        tuple(problems),
        _of_topics(decided, {it.topic for it in problems}),
    )


def _unread(topic: str, why: str, hint: str = "") -> Issue:
    return Issue(ROUTED_UNREAD, topic, f"{topic}, to which rules route records: {why}", hint)


def _of_topics(decided: AuditPlan, topics: Collection[str]) -> frozenset[SourceIncarnation]:
    """Return the partitions of which an audited scope may route records to these topics."""
    return frozenset(
        plan.life
        for plan in decided.partitions
        if any(route.to in topics for it in plan.specs for route in it.scope.chain.routes)
    )


def _ends(
    clusters: Clusters, places: Sequence[TopicPartition]
) -> tuple[Mapping[TopicPartition, PartitionOffsets], list[Issue]]:
    """Return where the partitions begin and end, once no transaction is open in front of these ends."""
    first = clusters.target.offsets(places)
    problems = [_unread(at.topic, str(error), error.hint) for at, error in first.refused.items()]
    deadline = time.monotonic() + OPEN_SECONDS
    waiting = {at: it for at, it in first.found.items() if it.stable_end < it.end}
    while waiting and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)
        now = clusters.target.offsets(waiting).found
        waiting = {at: it for at, it in waiting.items() if at not in now or now[at].stable_end < it.end}
    hint = "see who writes there (kafka-transactions.sh), and audit again"
    problems += [
        _unread(
            at.topic,
            f"a transaction is open in partition {at.partition} from offset {it.stable_end} on",
            hint,
        )
        for at, it in waiting.items()
    ]
    return {at: it for at, it in first.found.items() if at not in waiting}, problems


def _expected(
    plan: PartitionPlan, found: Comparison, name: str, known_to: Mapping[SourceIncarnation, int]
) -> Expected:
    scopes = [it.scope for it in plan.specs]
    return Expected(
        plan.life,
        unpacked(found.routed, name),
        tuple(part for it in scopes for part in known_within(it.start, it.end, plan.offset_map)),
        found.unread,
        compacted=any(it.compacted for it in scopes),
        known_to=known_to.get(plan.life, 0),
    )


def _known_to(flow: FlowSettings, clusters: Clusters) -> Mapping[SourceIncarnation, int]:
    return {life: it.end_upstream for life, it in read_packed(flow, clusters.target).items()}


def compacted(cluster: ClusterReader, topics: Iterable[str]) -> set[str]:
    """Return the topics that are compacted; one whose configuration may not be read counts as such."""
    answers = cluster.topic_configs(topics)
    known = answers.found.items()
    return {
        name for name, configs in known if "compact" in (value_of(configs, "cleanup.policy") or "")
    } | set(answers.refused)


def _read(
    walk: RoutedTopicWalk,
    topic: TopicDescription,
    ends: Mapping[TopicPartition, PartitionOffsets],
    reader: PartitionReader,
    problems: list[Issue],
) -> Mapping[int, int]:
    """Read the partitions of a routed topic; return where each of them begins now."""
    starts = {}
    for number in sorted(it.partition for it in topic.partitions):
        bounds = ends.get(TopicPartition(topic.name, number))
        if bounds is None:
            continue
        starts[number] = bounds.log_start
        for item in reader.read(topic.name, number, bounds.log_start, bounds.end):
            if isinstance(item, Lost):
                if item.reason is Unproved.TARGET_RETENTION:
                    starts[number] = item.end
                else:
                    why = f"offsets {item.start} to {item.end - 1} of partition {number}: {item.reason}"
                    problems.append(_unread(topic.name, why))
                continue
            for header, data in item.batches():
                append_time = bool(header.attributes & LOG_APPEND_TIME)
                for record in records_of(header, data):
                    if record.offset >= starts[number]:  # a batch may begin before the log does
                        walk.take(number, record, append_time=append_time)
    return starts


def _joined(found: Found, walks: Sequence[RoutedTopicWalk]) -> Found:
    """Add the differences of routed records to those of the partitions that they come from."""
    joined = dict(found)
    for walk in walks:
        for way in walk.ways.values():
            life = way.expected.life
            if way.counts:
                before = joined[life]
                joined[life] = replace(
                    before,
                    differences=(*before.differences, *way.listed)[:LISTED],
                    counts=Counter(before.counts) + Counter(way.counts),
                )
    return joined


def _route(walk: RoutedTopicWalk, partitions: int) -> AuditedRoute:
    def total(name: str) -> int:
        return sum(getattr(it, name) for it in walk.ways.values())

    differences = walk.loose_count + sum(sum(it.counts.values()) for it in walk.ways.values())
    return AuditedRoute(
        topic=walk.topic,
        partitions=partitions,
        records=walk.records,
        equal=total("equal"),
        differences=differences,
        expired=total("expired"),
        compacted=total("compacted"),
        others=walk.others,
        unjudged=walk.unjudged,
    )


def _loose(walk: RoutedTopicWalk) -> Iterator[AuditedDifference]:
    for it in walk.loose[:LISTED]:
        yield AuditedDifference.of(it.difference, walk.topic, walk.topic, it.partition)
