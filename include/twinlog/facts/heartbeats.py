"""Read the heartbeats that were copied: from which clusters, over how many hops, how old.

MM2's rule also applies to disabled flows: `A.heartbeats` appears on B only if heartbeats are written on A, and that is
done by the otherwise disabled flow B->A (MirrorMakerConfig.clusterPairs).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from twinlog import clock
from twinlog.clock import CLOCKS_APART_MS
from twinlog.cluster.api import ClusterReader
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FormatError, TwinlogError
from twinlog.formats.mm2.records import Heartbeat
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.policy.replication import ReplicationPolicy
from twinlog.policy.state_topics import is_known_heartbeats

# The copied heartbeats may end with transaction markers, and heartbeats of several flows may share the topic.
LOOK_BACK = 50


def remote_heartbeats(flow: FlowSettings) -> str:
    """Return the name of the source's heartbeats topic on the target."""
    return flow.policy.format_remote_topic(flow.source.alias, flow.policy.heartbeats_topic())


def newest_copied(flow: FlowSettings, target: ClusterReader, now_ms: int) -> int | None:
    """Return the time of the newest copied heartbeat that a flow wrote on the source; None if there is none."""
    beats = _beats(target, remote_heartbeats(flow), now_ms)
    return max((beat.timestamp_ms for beat in beats if beat.target_alias == flow.source.alias), default=None)


def _beats(cluster: ClusterReader, topic: str, now_ms: int) -> Iterator[Heartbeat]:
    """Yield the heartbeats at the end of a topic; a time that has yet to come says nothing of what has arrived."""
    found = map(parsed_beat, tail_of(cluster, topic))
    return (
        heartbeat
        for heartbeat in found
        if heartbeat is not None and heartbeat.timestamp_ms <= now_ms + CLOCKS_APART_MS
    )


def parsed_beat(record: ReadRecord) -> Heartbeat | None:
    """Parse a heartbeat; None if the record is not one."""
    if record.key is None or record.value is None:
        return None
    try:
        return Heartbeat.parse(record.key, record.value)
    except FormatError:
        return None


def tail_of(target: ClusterReader, topic: str) -> tuple[ReadRecord, ...]:
    """Read the end of partition 0, where MM2 and twinlog write heartbeats; empty if the topic is missing."""
    if target.describe_topics([topic]).refused:
        return ()
    it = TopicPartition(topic, 0)
    offsets = target.offsets([it]).require()[it]
    start = max(offsets.log_start, offsets.stable_end - LOOK_BACK)
    return target.read_records({it: start}, LOOK_BACK)[it] if start < offsets.stable_end else ()


@dataclass(frozen=True, slots=True)
class UpstreamBeat:
    """The newest heartbeat of one flow that was copied here.

    `chain` names the clusters it came over, the nearest first: A for `A.heartbeats`, B then A for `B.A.heartbeats`.
    The flow `source_alias`->`target_alias` wrote it on the last of them at `at_ms` (that cluster's clock).  `age_ms`
    is how long ago that is by our clock: the replication latency plus the time since the last heartbeat.
    """

    topic: str
    chain: tuple[str, ...]
    source_alias: str
    target_alias: str
    at_ms: int
    age_ms: int


def upstream_beats(
    policy: ReplicationPolicy, cluster: ClusterReader, now_ms: int | None = None
) -> tuple[UpstreamBeat, ...]:
    """Read the copied heartbeats on a cluster, nearest sources first.  Raises ClusterUnreachable, ClusterRefused."""
    now = clock.now_ms() if now_ms is None else now_ms
    found: list[UpstreamBeat] = []
    for topic in cluster.topic_names():
        chain = chain_of(policy, topic)
        if chain:
            found += _newest(cluster, topic, chain, now)
    return tuple(sorted(found, key=lambda it: (len(it.chain), it.topic, it.source_alias, it.target_alias)))


def chain_of(policy: ReplicationPolicy, topic: str) -> tuple[str, ...]:
    """Return the clusters that a heartbeats topic came over, the nearest first; () if it came over none."""
    if not policy.is_heartbeats_topic(topic):
        return ()
    chain: list[str] = []
    at: str | None = topic
    while at is not None and (source := policy.topic_source(at)) is not None and source not in chain:
        chain.append(source)
        at = policy.upstream_topic(at)
    return tuple(chain)


def own_heartbeats(flow: FlowSettings, source: ClusterReader, topics: Iterable[str]) -> frozenset[str]:
    """Return those source topics that certainly hold heartbeats of MM2 or twinlog.

    The name decides if every hop is a cluster of the configuration file.  For other clusters the content decides.  A
    topic that is not certain is a user's topic.
    """
    return _sure(flow, source, {topic: topic for topic in topics})


def copied_heartbeats(flow: FlowSettings, target: ClusterReader, topics: Iterable[str]) -> frozenset[str]:
    """Return the same without the source, by the content of the copies."""
    return _sure(flow, target, {topic: flow.remote_name(topic) for topic in topics})


def _sure(flow: FlowSettings, cluster: ClusterReader, names: Mapping[str, str]) -> frozenset[str]:
    aliases = flow.aliases | {flow.source.alias, flow.target.alias}
    return frozenset(
        topic
        for topic, name in names.items()
        if is_known_heartbeats(flow.policy, aliases, topic)
        or _holds_heartbeats(cluster, name, chain_of(flow.policy, topic))
    )


def _holds_heartbeats(cluster: ClusterReader, topic: str, chain: tuple[str, ...]) -> bool:
    """Say whether all records at the end of a topic are heartbeats of the cluster where the topic began by its name.

    That cluster is the last of `chain`.  MM2 writes heartbeats on the target of the flow they belong to, into a topic
    of one partition.
    """
    if not chain:
        return False
    try:
        described = cluster.describe_topics([topic]).found.get(topic)
        if described is None or len(described.partitions) != 1:
            return False
        beats = [parsed_beat(record) for record in tail_of(cluster, topic)]
    except TwinlogError:
        return False
    return bool(beats) and all(beat is not None and beat.target_alias == chain[-1] for beat in beats)


def _newest(cluster: ClusterReader, topic: str, chain: tuple[str, ...], now: int) -> Iterator[UpstreamBeat]:
    newest: dict[tuple[str, str], int] = {}
    for beat in _beats(cluster, topic, now):
        flow = beat.source_alias, beat.target_alias
        newest[flow] = max(newest.get(flow, 0), beat.timestamp_ms)
    for (source, target), at_ms in newest.items():
        yield UpstreamBeat(topic, chain, source, target, at_ms, max(0, now - at_ms))
