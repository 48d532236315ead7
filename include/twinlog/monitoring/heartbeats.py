"""Step `heartbeats`: write an MM2-compatible heartbeat, and see how old the upstream one is that was copied.

MM2's rule holds for flows that do not copy, too: to see `A.heartbeats` on B, something must beat on A, and that
is the otherwise disabled flow B->A (MirrorMakerConfig.clusterPairs).  config/flow/beats.py says who beats for whom.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from twinlog import clock
from twinlog.cluster.api import Cluster, ClusterReader
from twinlog.cluster.open import Clusters, open_clusters
from twinlog.cluster.values import InternalRecord, ReadRecord, TopicPartition
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FormatError, TwinlogError
from twinlog.formats.mm2.heartbeat import Heartbeat
from twinlog.state.internal_topics import heartbeats_topics
from twinlog.topics.own_topics import ensure_topics

# The copied heartbeats may end with transaction markers, and beats of several flows may share the topic.
LOOK_BACK = 50


@dataclass(frozen=True, slots=True)
class HeartbeatsResult:
    """What was written and what was seen.

    `latency_ms` is the age of the newest copied heartbeat of the source (`upstream_heartbeat_ms` its time) in
    the topic `remote_topic`; None where none has been copied.  `warning` says why the way back did not beat on the
    source, or a pair that this flow carries on its own target.
    """

    flow: str
    emitted: bool
    timestamp_ms: int
    remote_topic: str
    upstream_heartbeat_ms: int | None
    latency_ms: int | None
    warning: str = ""


def run(flow: FlowSettings, clusters: Clusters) -> HeartbeatsResult:
    """Beat once on the target, if the flow beats, on the source for a way back, and for pairs it carries; and measure.

    The beat of the way back is what this flow copies: its age on the target shows that records arrive.
    Raises ClusterUnreachable and ClusterRefused (needs WRITE on `heartbeats`, and CREATE while it is missing).
    """
    now = clock.now_ms()
    warnings = [beat(flow, clusters, now), *(beat_alone(pair, now) for pair in flow.carries)]
    remote = remote_heartbeats(flow)
    newest = newest_beat(tail_of(clusters.target, remote))
    return HeartbeatsResult(
        flow=flow.name,
        emitted=flow.emit_heartbeats,
        timestamp_ms=now,
        remote_topic=remote,
        upstream_heartbeat_ms=newest,
        latency_ms=None if newest is None else max(0, now - newest),
        warning="; ".join(filter(None, warnings)),
    )


def beat(flow: FlowSettings, clusters: Clusters, now: int | None = None) -> str:
    """Beat at `now` (epoch ms), without measuring; return why the way back could not, "" when all is well.

    Raises as `run`.
    """
    now = now or clock.now_ms()
    if flow.emit_heartbeats:
        _beat(flow, clusters.target, now)
    return _beat_on_the_source(flow, clusters.source, now)


def make_ready(flow: FlowSettings, source: Cluster) -> str:
    """Make the source's `heartbeats` before the flow looks at it for the first time; return why that failed, "" if not.

    Its copy is then made in the first cycle, and with a way back that only beats a beat is in it.  A source that does
    not answer is left to the discovery, which says so.
    """
    topic, beating = missing_on_source(flow, source), flow.beaten_into
    if not topic or beating is None:
        return ""
    if flow.way_back is not None:
        return _beat_on_the_source(flow, source, clock.now_ms())
    try:
        ensure_topics(source, heartbeats_topics(beating))
    except TwinlogError as error:
        return f"no {topic} on {flow.source.alias}: {error}"
    return ""


def missing_on_source(flow: FlowSettings, source: ClusterReader) -> str:
    """Name the heartbeats topic to be made on the source, "" if it is there, not wanted, or cannot be asked for."""
    if flow.beaten_into is None or not flow.heartbeats_replication:
        return ""
    topic = flow.beaten_into.policy.heartbeats_topic()
    try:
        return "" if source.describe_topics([topic]).found else topic
    except TwinlogError:
        return ""


def beat_alone(pair: FlowSettings, now: int | None = None) -> str:
    """Beat for a pair without a flow, on a cluster that may be in no flow; return why not, "" when all is well."""
    with open_clusters(pair) as clusters:
        try:
            _beat(pair, clusters.target, now or clock.now_ms())
        except TwinlogError as error:
            return f"no heartbeat of {pair.name} on {pair.target.alias}: {error}"
    return ""


def _beat(flow: FlowSettings, target: Cluster, now: int) -> None:
    ensure_topics(target, heartbeats_topics(flow))  # a flow that only beats has no other step that would
    pulse = Heartbeat(flow.source.alias, flow.target.alias, now)
    record = InternalRecord(pulse.key(), pulse.value(), partition=0, timestamp=now)
    target.produce(flow.policy.heartbeats_topic(), [record])


def _beat_on_the_source(flow: FlowSettings, source: Cluster, now: int) -> str:
    """Beat for the way back; a source that cannot be written to is no reason to stop, only one to say so."""
    if flow.way_back is None:
        return ""
    try:
        _beat(flow.way_back, source, now)
    except TwinlogError as error:
        return f"no heartbeat on {flow.source.alias}: {error}"
    return ""


def remote_heartbeats(flow: FlowSettings) -> str:
    """Name the copy of the source's heartbeats on the target."""
    return flow.policy.format_remote_topic(flow.source.alias, flow.policy.heartbeats_topic())


def newest_beat(records: Iterable[ReadRecord]) -> int | None:
    """Find the time of the newest heartbeat among records; what is no heartbeat is passed over."""
    times = [found.timestamp_ms for record in records if (found := parsed_beat(record)) is not None]
    return max(times, default=None)


def parsed_beat(record: ReadRecord) -> Heartbeat | None:
    """Read a heartbeat; None for a record that is none."""
    if record.key is None or record.value is None:
        return None
    try:
        return Heartbeat.parse(record.key, record.value)
    except FormatError:
        return None


def tail_of(target: ClusterReader, topic: str) -> tuple[ReadRecord, ...]:
    """Read the end of partition 0, where MM2 and we write heartbeats; nothing while the topic is missing."""
    if target.describe_topics([topic]).refused:
        return ()
    it = TopicPartition(topic, 0)
    offsets = target.offsets([it]).require()[it]
    start = max(offsets.log_start, offsets.stable_end - LOOK_BACK)
    return target.read_records({it: start}, LOOK_BACK)[it] if start < offsets.stable_end else ()
