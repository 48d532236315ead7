"""Write MM2-compatible heartbeats, and read those that were copied: from which clusters, over how many hops, how old.

MM2's rule also applies to disabled flows: `A.heartbeats` appears on B only if heartbeats are written on A, and that is
done by the otherwise disabled flow B->A (MirrorMakerConfig.clusterPairs).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from twinlog import clock
from twinlog.clock import CLOCKS_APART_MS
from twinlog.cluster.api import Cluster, ClusterReader, Clusters, open_clusters
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FormatError, TwinlogError
from twinlog.formats.mm2.records import Heartbeat
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.policy.replication import ReplicationPolicy
from twinlog.policy.state_topics import is_known_heartbeats
from twinlog.state.internal_topics import heartbeats_topics
from twinlog.topics.discovery import remote_name
from twinlog.topics.own_topics import ensure_topics

# The copied heartbeats may end with transaction markers, and heartbeats of several flows may share the topic.
LOOK_BACK = 50


@dataclass(frozen=True, slots=True)
class HeartbeatsResult:
    """Tell what was written and what was seen.

    `latency_ms` is the age of the newest copied heartbeat of the source in the topic `remote_topic`, and
    `upstream_heartbeat_ms` its time; None if none was copied.  `warning` says why no heartbeat could be written on the
    source for the reverse flow, or on the target for a pair that this flow serves.
    """

    flow: str
    emitted: bool
    timestamp_ms: int
    remote_topic: str
    upstream_heartbeat_ms: int | None
    latency_ms: int | None
    warning: str = ""


def run(flow: FlowSettings, clusters: Clusters, *, begun: bool = False) -> HeartbeatsResult:
    """Write heartbeats, and measure the age of the copied one.

    Writes one on the target if the flow is configured to, one on the source for the reverse flow unless the cycle has
    `begun` with it (`make_ready`), and one for each pair that this flow serves.  This flow copies the reverse flow's
    heartbeat: its age on the target shows that records arrive.  Raises ClusterUnreachable and ClusterRefused (needs
    WRITE on `heartbeats`, and CREATE while it is missing).
    """
    now = clock.now_ms()
    warnings = [
        beat(flow, clusters, now, begun=begun),
        *(beat_alone(pair, now) for pair in flow.other_heartbeats),
    ]
    remote = remote_heartbeats(flow)
    newest = newest_copied(flow, clusters.target, now)
    return HeartbeatsResult(
        flow=flow.name,
        emitted=flow.emit_heartbeats,
        timestamp_ms=now,
        remote_topic=remote,
        upstream_heartbeat_ms=newest,
        latency_ms=None if newest is None else max(0, now - newest),
        warning="; ".join(filter(None, warnings)),
    )


def beat(flow: FlowSettings, clusters: Clusters, now: int | None = None, *, begun: bool = False) -> str:
    """Write heartbeats at `now` (epoch ms) without measuring; `begun` as for `run`.

    Returns why the reverse flow's heartbeat could not be written, "" if all is well.  Raises as `run`.
    """
    now = now or clock.now_ms()
    if flow.emit_heartbeats:
        _beat(flow, clusters.target, now)
    return "" if begun else _beat_on_the_source(flow, clusters.source, now)


def make_ready(flow: FlowSettings, source: Cluster) -> str:
    """Write the heartbeat that this flow copies, before its topics are discovered; return why not, "" if all is well.

    It is copied in the same cycle then; written at the end, it would be a record to go until the next one.  If the
    reverse flow writes it, only the topic is created, so that the first cycle creates its copy.  A source that does not
    answer is left to topic discovery, which reports it.
    """
    if flow.reverse_heartbeats is not None:
        return _beat_on_the_source(flow, source, clock.now_ms())
    topic, beating = missing_on_source(flow, source), flow.source_heartbeats
    if not topic or beating is None:
        return ""
    try:
        ensure_topics(source, heartbeats_topics(beating))
    except TwinlogError as error:
        return f"no {topic} on {flow.source.alias}: {error}"
    return ""


def missing_on_source(flow: FlowSettings, source: ClusterReader) -> str:
    """Return the heartbeats topic to create on the source; "" if it exists, is not wanted, or cannot be asked for."""
    if flow.source_heartbeats is None or not flow.heartbeats_replication:
        return ""
    topic = flow.source_heartbeats.policy.heartbeats_topic()
    try:
        return "" if source.describe_topics([topic]).found else topic
    except TwinlogError:
        return ""


def beat_alone(pair: FlowSettings, now: int | None = None) -> str:
    """Write a heartbeat for a pair without a flow, on a cluster that may be in no flow.

    Returns why that failed, "" if all is well.
    """
    with open_clusters(pair) as clusters:
        try:
            _beat(pair, clusters.target, now or clock.now_ms())
        except TwinlogError as error:
            return f"no heartbeat of {pair.name} on {pair.target.alias}: {error}"
    return ""


def _beat(flow: FlowSettings, target: Cluster, now: int) -> None:
    ensure_topics(target, heartbeats_topics(flow))  # this flow may have no other step for it
    pulse = Heartbeat(flow.source.alias, flow.target.alias, now)
    record = InternalRecord(pulse.key(), pulse.value(), partition=0, timestamp=now)
    target.produce(flow.policy.heartbeats_topic(), [record])


def _beat_on_the_source(flow: FlowSettings, source: Cluster, now: int) -> str:
    """Write the reverse flow's heartbeat; if the source cannot be written to, return a warning and go on."""
    if flow.reverse_heartbeats is None:
        return ""
    try:
        _beat(flow.reverse_heartbeats, source, now)
    except TwinlogError as error:
        return f"no heartbeat on {flow.source.alias}: {error}"
    return ""


def remote_heartbeats(flow: FlowSettings) -> str:
    """Return the name of the source's heartbeats topic on the target."""
    return flow.policy.format_remote_topic(flow.source.alias, flow.policy.heartbeats_topic())


def newest_copied(flow: FlowSettings, target: ClusterReader, now_ms: int) -> int | None:
    """Return the time of the newest copied heartbeat that a flow wrote on the source; None if there is none."""
    beats = _beats(target, remote_heartbeats(flow), now_ms)
    return max((it.timestamp_ms for it in beats if it.target_alias == flow.source.alias), default=None)


def _beats(cluster: ClusterReader, topic: str, now_ms: int) -> Iterator[Heartbeat]:
    """Yield the heartbeats at the end of a topic; a time that has yet to come says nothing of what has arrived."""
    found = map(parsed_beat, tail_of(cluster, topic))
    return (it for it in found if it is not None and it.timestamp_ms <= now_ms + CLOCKS_APART_MS)


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
    return _sure(flow, target, {topic: remote_name(flow, topic) for topic in topics})


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
