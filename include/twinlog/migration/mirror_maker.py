"""Find out which MirrorMaker 2 it is, how far it says it has copied, and whether it still runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twinlog.cluster.api import ClusterReader
from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FormatError, TerminalError
from twinlog.formats.mm2.connect_offset import (
    SourceOffsetKey,
    parse_offset_key,
    parse_offset_value,
    parse_source_key,
)
from twinlog.formats.mm2.records import Heartbeat
from twinlog.kafka_types import TopicPartition
from twinlog.state.ledger import latest_or_empty

WATCH_SECONDS = 3.0
"""Least time to watch for changes; MM2 emits heartbeats every second by default."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Tell which MM2: its source connector's name, where its worker keeps offsets, and the group of its workers.

    `dedicated` says that the workers serve only this flow, so that one live worker shows that it runs.
    """

    connector: str
    offsets_topic: str
    worker_group: str
    dedicated: bool = True

    @classmethod
    def of(
        cls, flow: FlowSettings, connector: str = "", offsets_topic: str = "", worker_group: str = ""
    ) -> Origin:
        """Use the names given, and dedicated mode's names for the others."""
        own = f"{flow.source.alias}-mm2"
        return cls(
            connector or flow.connector_name,
            offsets_topic or flow.offsets_topic,
            worker_group or own,
            dedicated=worker_group in {"", own},
        )


def read_positions(flow: FlowSettings, target: ClusterReader, origin: Origin) -> Mapping[TopicPartition, int]:
    """Read the last upstream offset MM2 says it has copied, by source partition.

    Raises TerminalError `no-internal-topic`, and `no-positions` for a topic that holds none of this connector: a
    mistaken name would otherwise look like an MM2 that never copied anything.
    """
    latest = target.latest(origin.offsets_topic)
    positions = _positions(flow, origin, latest)
    if not positions:
        raise _no_positions(flow, origin, latest)
    return positions


def _positions(
    flow: FlowSettings, origin: Origin, latest: Mapping[bytes, bytes | None]
) -> dict[TopicPartition, int]:
    """Return what the offsets topic (value by key) says this connector has copied of the flow's source."""
    keys = ((parse_source_key(data, origin.connector, flow.source.alias), data) for data in latest)
    offsets = ((key, parse_offset_value(latest[data])) for key, data in keys if key is not None)
    return {key.topic_partition: it for key, it in offsets if it is not None}


def _no_positions(flow: FlowSettings, origin: Origin, keys: Iterable[bytes]) -> TerminalError:
    others = sorted({f"{it.connector_name} of {it.cluster}" for it in _source_keys(keys)})
    found = f"; it has those of {', '.join(others)}" if others else ""
    return TerminalError(
        f"{origin.offsets_topic} on {flow.target.alias} holds no position of connector {origin.connector}"
        f" for the source {flow.source.alias}{found}",
        hint="check --connector and --offsets-topic (Connect's offset.storage.topic), and the source's alias",
        code="no-positions",
        flow=flow.name,
        topic=origin.offsets_topic,
    )


def _source_keys(keys: Iterable[bytes]) -> Iterable[SourceOffsetKey]:
    for data in keys:
        try:
            key = parse_offset_key(data)
        except FormatError:
            continue
        if isinstance(key, SourceOffsetKey):
            yield key


@dataclass(frozen=True, slots=True)
class Traces:
    """Signs of a running MM2: positions, its last heartbeat, and the ends of the copies."""

    positions: Mapping[TopicPartition, int]
    heartbeat_ms: int | None
    ends: Mapping[TopicPartition, int]


def require_stopped(
    flow: FlowSettings,
    clusters: Clusters,
    origin: Origin,
    copies: Iterable[TopicPartition],
    watch_seconds: float | None = None,
) -> Traces:
    """Make sure that no other program copies: no worker runs the connector, and nothing moves while we watch.

    Returns what was read last. Raises TerminalError `mm2-running`, and the refusal of a target that does not tell who
    is in the workers' group: without that answer it is not safe to go on.
    """
    _require_no_workers(flow, clusters.target, origin)
    watched = list(copies)
    before = traces(flow, clusters.target, origin, watched)
    time.sleep(
        max(WATCH_SECONDS, 2.5 * flow.heartbeats_interval_seconds) if watch_seconds is None else watch_seconds
    )
    after = traces(flow, clusters.target, origin, watched)
    require_unmoved(flow, before, after)
    return after


def traces(
    flow: FlowSettings, target: ClusterReader, origin: Origin, copies: Iterable[TopicPartition]
) -> Traces:
    """Read what a running MM2 would change."""
    positions = _positions(flow, origin, latest_or_empty(target, origin.offsets_topic))
    heartbeat = _last_heartbeat(flow, target)
    return Traces(
        positions, heartbeat, {it: offsets.end for it, offsets in target.offsets(copies).found.items()}
    )


def require_unmoved(flow: FlowSettings, before: Traces, after: Traces) -> None:
    """Raise TerminalError `mm2-running` for the first change between two readings. Pure."""
    moved = [it for it, end in after.ends.items() if end != before.ends.get(it, end)]
    if moved:
        _fail(flow, f"records still arrive in {moved[0].topic}-{moved[0].partition}")
    changed = [it for it, last in after.positions.items() if last != before.positions.get(it)]
    if changed:
        _fail(flow, f"the position of {changed[0].topic}-{changed[0].partition} still moves")
    if after.heartbeat_ms != before.heartbeat_ms:
        _fail(flow, f"heartbeats of {flow.name} still arrive")


def _require_no_workers(flow: FlowSettings, target: ClusterReader, origin: Origin) -> None:
    workers = target.connect_workers(origin.worker_group)
    if origin.dedicated and workers.members:
        _fail(flow, f"its worker group {origin.worker_group} has {workers.members} member(s)")
    if workers.tasks.get(origin.connector):
        _fail(
            flow,
            f"workers of {origin.worker_group} run {workers.tasks[origin.connector]} task(s) of {origin.connector}",
        )


def _last_heartbeat(flow: FlowSettings, target: ClusterReader) -> int | None:
    key = Heartbeat(flow.source.alias, flow.target.alias, 0).key()
    value = latest_or_empty(target, flow.policy.heartbeats_topic()).get(key)
    try:
        return None if value is None else Heartbeat.parse(key, value).timestamp_ms
    except FormatError:
        return None


def _fail(flow: FlowSettings, why: str) -> None:
    raise TerminalError(
        f"somebody still runs {flow.name}: {why}",
        hint="stop MirrorMaker (or the twinlog cycle) of this flow, wait until its session has ended (10 s by default),"
        " and try again",
        code="mm2-running",
        flow=flow.name,
    )
