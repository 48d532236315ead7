"""Tell what would be lost with the source: shown by `status` and the gate, noted in the ledger by every cycle."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from twinlog.checks.check import Row
from twinlog.checks.partitions import PartitionRow
from twinlog.checks.risk import TopicAtRisk, bytes_at_risk, newly_copied, sample
from twinlog.checks.topics import drift_of
from twinlog.clock import seconds_since
from twinlog.cluster.admin.topics import LogDirs
from twinlog.cluster.api import ClusterReader
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable, TwinlogError
from twinlog.formats.ledger.gate import KnownSource, KnownTopic, RiskSample
from twinlog.grouped import grouped
from twinlog.monitoring.cycle_report import rows_by_topic
from twinlog.monitoring.open_at_source import UndecidedPartition, undecided_partitions
from twinlog.monitoring.survey import Survey, oldest_seconds, unseen_of
from twinlog.topics.discovery import DiscoveredTopic


def read_disks(cluster: ClusterReader) -> LogDirs:
    """Read the sizes of logs and disks; if a cluster refuses, they are unknown.

    Raises ClusterUnreachable.
    """
    try:
        return cluster.log_dirs()
    except ClusterUnreachable:
        raise
    except TwinlogError:
        return LogDirs()


def topics_at_risk(
    flow: FlowSettings,
    seen: Survey,
    disks: LogDirs,
    drift: Mapping[str, tuple[str, ...]],
    moving: Collection[str] = (),
) -> tuple[TopicAtRisk, ...]:
    """Return for each topic what would be lost now.  Pure."""
    by_topic = rows_by_topic(seen.rows)
    return tuple(
        _topic_at_risk(flow, topic, by_topic.get(topic.topic, []), seen.at_ms, disks, drift, moving)
        for topic in seen.discovery.topics
        if not topic.blocked
    )


def _topic_at_risk(
    flow: FlowSettings,
    topic: DiscoveredTopic,
    rows: list[PartitionRow],
    at_ms: int,
    disks: LogDirs,
    drift: Mapping[str, tuple[str, ...]],
    moving: Collection[str],
) -> TopicAtRisk:
    tier, unseen = flow.tier_of(topic.topic), unseen_of(topic)
    known = sum(row.missing_records for row in rows)
    return TopicAtRisk(
        topic.topic,
        tier.name,
        known,
        None if unseen else bytes_at_risk(rows, disks.sizes),
        oldest_seconds(rows, at_ms, within=tier.rpo_seconds, unseen=unseen),
        tier.rpo_seconds,
        moving=topic.topic in moving,
        drift=drift.get(topic.topic, ()),
        undecided=sum(row.undecided_records for row in rows),
        records=None if unseen else known,
    )


def drift_by_topic(rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    """Return the drifting config entries of each topic that has any.  Pure."""
    return {str(row["topic"]): drift for row in rows if (drift := drift_of(row))}


def known_source(flow: FlowSettings, seen: Survey, topics: Iterable[TopicAtRisk]) -> KnownSource:
    """Make the picture of the source that is kept in case the source is lost.  Pure."""
    at_risk = {it.topic: it for it in topics}
    since = _undecided_since(seen.rows)
    held_by = _held_by(undecided_partitions(flow, seen.rows, seen.holders, seen.at_ms))
    known = [
        replace(
            _known_topic(it, at_risk.get(it.topic), seen.at_ms),
            undecided_ms=since.get(it.topic),
            held_by=held_by.get(it.topic, ""),
        )
        for it in seen.discovery.topics
    ]
    telling = [it for it in known if it.records_at_risk or it.drift or it.unread]
    return KnownSource(
        at_ms=seen.at_ms,
        topic_count=len(known) - len(telling),
        topics=tuple(sorted(telling, key=lambda it: it.topic)),
        undecided_seen=True,
    )


def known_at_risk(flow: FlowSettings, known: KnownSource | None) -> tuple[TopicAtRisk, ...]:
    """Return for each topic in the last picture of the source what is lost with it.  Pure."""
    if known is None:
        return ()
    return tuple(
        TopicAtRisk(
            it.topic,
            flow.tier_of(it.topic).name,
            it.records_at_risk,
            it.bytes_at_risk,
            waiting_seconds(it, known.at_ms),
            flow.tier_of(it.topic).rpo_seconds,
            drift=it.drift,
            undecided=it.undecided,
        )
        for it in known.topics
    )


def waiting_seconds(it: KnownTopic, at_ms: int) -> float | None:
    """Return how long the topic's oldest record at risk had waited at `at_ms` (seconds).

    0 if there was none, None if that is unknown.
    """
    return seconds_since(it.oldest_ms, at_ms) if it.records_at_risk or it.unread else 0.0


def _undecided_since(rows: Iterable[PartitionRow]) -> dict[str, int | None]:
    """Return since when topics are undecided; None if that is unknown for one of a topic's partitions."""
    times = grouped((row.topic, row.undecided_since) for row in rows if row.undecided_records)
    return {topic: _earliest(found) for topic, found in times.items()}


def _held_by(undecided: Iterable[UndecidedPartition]) -> dict[str, str]:
    """Return by topic the producer that holds the oldest of its open transactions."""
    lines: dict[str, str] = {}
    for it in undecided:
        lines.setdefault(it.topic, it.message)
    return lines


def _earliest(times: Iterable[int | None]) -> int | None:
    """Return the earliest time; None if one of them is unknown."""
    every = list(times)
    known = [it for it in every if it is not None]
    return min(known) if known and len(known) == len(every) else None


def _known_topic(topic: DiscoveredTopic, risk: TopicAtRisk | None, at_ms: int) -> KnownTopic:
    """Join what is at risk with what could not be asked: all of a topic that is blocked."""
    unread = unseen_of(topic)
    if risk is None:
        return KnownTopic(topic.topic, topic.partition_count, 0, None, None, (), unread)
    waits = risk.known > 0 and risk.seconds is not None
    oldest_ms = at_ms - round((risk.seconds or 0.0) * 1000) if waits else None
    return KnownTopic(
        topic.topic,
        topic.partition_count,
        risk.known,
        risk.bytes,
        oldest_ms,
        risk.drift,
        unread,
        risk.undecided,
    )


def risk_sample(seen: Survey, topics: Iterable[TopicAtRisk]) -> RiskSample:
    """Take the sample of this moment, joined with the sample already in the same slot.  Pure."""
    every = list(topics)
    sizes = [it.bytes for it in every]
    known = [it for it in sizes if it is not None]
    return sample(
        seen.at_ms,
        sum(it.known for it in every),
        sum(known) if len(known) == len(sizes) else None,
        round(max((it.seconds or 0.0 for it in every), default=0.0) * 1000),
        seen.ledger.risk_samples,
        age_known=not seen.unseen and all(it.seconds is not None for it in every),
        copied=newly_copied(seen.rows),
    )
