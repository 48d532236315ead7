"""What would be lost with the source: told by `status` and the gate, noted in the ledger by every cycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinlog.cluster.cluster import ClusterReader
from twinlog.cluster.log_dirs import LogDirs
from twinlog.config.settings import FlowSettings
from twinlog.errors import ClusterUnreachable, TwinlogError
from twinlog.formats.ledger_gate import KnownSource, KnownTopic, RiskSample
from twinlog.quality.checks import Row
from twinlog.quality.risk import TopicAtRisk, bytes_at_risk, sample
from twinlog.quality.topics import drift_of
from twinlog.steps.discovery import DiscoveredTopic
from twinlog.steps.reports import rows_by_topic
from twinlog.steps.survey import Survey, known_age_seconds


def read_disks(cluster: ClusterReader) -> LogDirs:
    """Read sizes of logs and disks; nothing where a cluster will not tell: then they are not known.

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
    moving: frozenset[str] = frozenset(),
) -> tuple[TopicAtRisk, ...]:
    """Say of each topic what would be lost now.  Pure."""
    found = []
    for topic, rows in rows_by_topic(seen.rows).items():
        tier = flow.tier_of(topic)
        found.append(
            TopicAtRisk(
                topic,
                tier.name,
                sum(max(0, row.lag_records) for row in rows),
                bytes_at_risk(rows, disks.sizes),
                known_age_seconds(rows, seen.at_ms),
                tier.rpo_seconds,
                moving=topic in moving,
                drift=drift.get(topic, ()),
            )
        )
    return tuple(found)


def drift_by_topic(rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    """Name the drifting entries of each topic that has any.  Pure."""
    return {str(row["topic"]): drift for row in rows if (drift := drift_of(row))}


def known_source(seen: Survey, topics: Iterable[TopicAtRisk]) -> KnownSource:
    """Make the picture of the source that is kept for the day on which nobody can ask it.  Pure."""
    at_risk = {it.topic: it for it in topics}
    known = [_known_topic(it, at_risk.get(it.topic), seen.at_ms) for it in seen.discovery.topics]
    kept = sorted(
        (it for it in known if it.records_at_risk or it.drift or it.unread), key=lambda it: it.topic
    )
    return KnownSource(at_ms=seen.at_ms, topic_count=len(known) - len(kept), topics=tuple(kept))


def _known_topic(topic: DiscoveredTopic, risk: TopicAtRisk | None, at_ms: int) -> KnownTopic:
    """Join what is at risk with what could not be asked; of a blocked topic the cycle's failure tells."""
    unread = 0 if topic.blocked else len(topic.unread)
    if risk is None:
        return KnownTopic(topic.topic, topic.partition_count, 0, None if unread else 0, None, (), unread)
    waits = risk.records > 0 and risk.seconds is not None
    oldest_ms = at_ms - round((risk.seconds or 0.0) * 1000) if waits else None
    return KnownTopic(
        topic.topic, topic.partition_count, risk.records, risk.bytes, oldest_ms, risk.drift, unread
    )


def risk_sample(seen: Survey, topics: Iterable[TopicAtRisk]) -> RiskSample:
    """Take the sample of this moment, joined with what the same slot holds already.  Pure."""
    every = list(topics)
    sizes = [it.bytes for it in every]
    known = [it for it in sizes if it is not None]
    return sample(
        seen.at_ms,
        sum(it.records for it in every),
        sum(known) if len(known) == len(sizes) else None,
        round(max((it.seconds or 0.0 for it in every), default=0.0) * 1000),
        seen.ledger.risk_samples,
    )
