"""Make a gap's ledger record: with its cause, and the times between which its records lay."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.cluster.api import ClusterReader
from twinlog.cluster.open import Clusters
from twinlog.cluster.values import ConfigValue, TopicPartition
from twinlog.errors import TwinlogError
from twinlog.formats.ledger.records import Gap, GapCause
from twinlog.lifecycle.plan import Lost, gap_of
from twinlog.state.ledger import Ledger

LOOK_BACK = 64
"""Downstream offsets searched for the last copied record: the very last offsets may be transaction markers."""


def describe(clusters: Clusters, lost: Lost, ledger: Ledger, now_ms: int) -> Gap:
    """Describe a lost range: its offsets, its time range, and its cause.

    The number of offsets is an upper bound of its records. If the ledger knows the range already, it keeps the time
    when it was found.
    """
    known = gap_of(ledger, lost)
    before = newest_time(clusters.target, lost.remote)
    after = None if lost.truncated else first_time(clusters.source, lost.source, lost.last_offset + 1)
    if lost.truncated:
        cause = GapCause.TRUNCATION
    else:
        cause = deletion_cause(_configs(clusters.source, lost.topic), before, now_ms)
    return Gap(
        lost.topic,
        lost.partition,
        lost.first_offset,
        lost.last_offset,
        cause,
        known.at_ms if known is not None else now_ms,
        lost.last_offset - lost.first_offset + 1,
        lost.topic_id,
        first_ms=known.first_ms if known is not None else before,
        last_ms=after,
        copied_past=lost.past,
        grown_ms=_grown(known, lost.last_offset, now_ms),
    )


def _grown(known: Gap | None, last_offset: int, now_ms: int) -> int | None:
    """Return when a gap was last found longer than it was recorded. Pure."""
    if known is None:
        return None
    return known.grown_ms if last_offset <= known.last_offset else now_ms


def deletion_cause(configs: Mapping[str, ConfigValue], newest_copied_ms: int | None, now_ms: int) -> GapCause:
    """Tell DeleteRecords from retention, as far as the topic's settings allow. Pure.

    Retention deletes records older than retention.ms, or beyond retention.bytes, if cleanup.policy has delete. The
    lost records are not older than the last copied one. So if that one has not expired, and size is not limited,
    DeleteRecords was the cause. In doubt the cause is retention.
    """
    if not configs:
        return GapCause.RETENTION
    if "delete" not in (_value(configs, "cleanup.policy") or "delete"):
        return GapCause.DELETE_RECORDS
    if int(_value(configs, "retention.bytes") or -1) >= 0:
        return GapCause.RETENTION
    keeps_ms = int(_value(configs, "retention.ms") or -1)
    if keeps_ms < 0 or (newest_copied_ms is not None and newest_copied_ms > now_ms - keeps_ms):
        return GapCause.DELETE_RECORDS
    return GapCause.RETENTION


def newest_time(cluster: ClusterReader, partition: TopicPartition) -> int | None:
    """Return the timestamp of the last record of a partition; None if there is no record near its end."""
    try:
        bounds = cluster.offsets([partition]).require()[partition]
        start = max(bounds.log_start, bounds.stable_end - LOOK_BACK)
        records = cluster.read_records({partition: start}, LOOK_BACK).get(partition, ())
    except TwinlogError:
        return None
    return records[-1].timestamp if records and records[-1].timestamp >= 0 else None


def first_time(cluster: ClusterReader, partition: TopicPartition, offset: int) -> int | None:
    """Return the timestamp of the first record from `offset` on; None if there is none."""
    try:
        records = cluster.read_records({partition: offset}, 1).get(partition, ())
    except TwinlogError:
        return None
    return records[0].timestamp if records and records[0].timestamp >= 0 else None


def _configs(cluster: ClusterReader, topic: str) -> Mapping[str, ConfigValue]:
    return cluster.topic_configs([topic]).found.get(topic, {})


def _value(configs: Mapping[str, ConfigValue], name: str) -> str | None:
    entry = configs.get(name)
    return entry.value if entry is not None else None
