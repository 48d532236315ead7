"""Write MM2-compatible heartbeats, and measure how old the newest copied one is."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog import clock
from twinlog.cluster.api import Cluster, ClusterReader, Clusters, open_clusters
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.facts.heartbeats import newest_copied, remote_heartbeats
from twinlog.formats.mm2.records import Heartbeat
from twinlog.state.internal_topics import heartbeats_topics
from twinlog.topics.own_topics import ensure_topics


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
    warning: str


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


def beat_alone(pair: FlowSettings, now: int) -> str:
    """Write a heartbeat at `now` (epoch ms) for a pair without a flow, on a cluster that may be in no flow.

    Returns why that failed, "" if all is well.
    """
    with open_clusters(pair) as clusters:
        try:
            _beat(pair, clusters.target, now)
        except TwinlogError as error:
            return f"no heartbeat of {pair.name} on {pair.target.alias}: {error}"
    return ""


def _beat(flow: FlowSettings, target: Cluster, now: int) -> None:
    write(flow, target, Heartbeat(flow.source.alias, flow.target.alias, now))


def write(flow: FlowSettings, cluster: Cluster, pulse: Heartbeat) -> None:
    """Write a heartbeat to a cluster.  Raises ClusterUnreachable, ClusterRefused."""
    ensure_topics(cluster, heartbeats_topics(flow))  # this flow may have no other step for it
    record = InternalRecord(pulse.key(), pulse.value(), partition=0, timestamp=pulse.timestamp_ms)
    cluster.produce(flow.policy.heartbeats_topic(), [record])


def _beat_on_the_source(flow: FlowSettings, source: Cluster, now: int) -> str:
    """Write the reverse flow's heartbeat; if the source cannot be written to, return a warning and go on."""
    if flow.reverse_heartbeats is None:
        return ""
    try:
        _beat(flow.reverse_heartbeats, source, now)
    except TwinlogError as error:
        return f"no heartbeat on {flow.source.alias}: {error}"
    return ""
