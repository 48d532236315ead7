"""One row per replicated topic: replicas, retention and what is at risk, on both sides.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twinlog.checks.check import Row
from twinlog.cluster.values import ConfigValue, TopicDescription

FOREVER = 2**53
"""The value of -1, "no limit", in retention.ms and retention.bytes; exact as a float."""


@dataclass(frozen=True, slots=True)
class TopicSide:
    """A topic on one of the two clusters: its layout, and its configuration entries by name."""

    description: TopicDescription
    configs: Mapping[str, ConfigValue]

    def number(self, name: str) -> int | None:
        """Read an integer; None if the cluster does not tell."""
        entry = self.configs.get(name)
        return int(entry.value) if entry is not None and entry.value is not None else None

    def limit(self, name: str) -> int | None:
        """Read a number; -1 means no limit."""
        number = self.number(name)
        return FOREVER if number == -1 else number

    @property
    def cleanup(self) -> frozenset[str] | None:
        """Return the set of cleanup policies: their order means nothing."""
        entry = self.configs.get("cleanup.policy")
        if entry is None or entry.value is None:
            return None
        return frozenset(part.strip() for part in entry.value.split(","))


def topic_columns(topic: str, source: TopicSide | None, target: TopicSide | None, target_brokers: int) -> Row:
    """Compare a topic with its copy; a fact that a side does not tell is None.

    A copy cannot have more replicas than the target has brokers, nor more in-sync replicas.
    """
    replicas = target.description.replication_factor if target is not None else None
    wanted = _least(source.description.replication_factor if source is not None else None, target_brokers)
    return {
        "topic": topic,
        "target_replicas": replicas,
        "wanted_replicas": wanted,
        "target_min_insync": _of(target, "min.insync.replicas"),
        "wanted_min_insync": _least(_of(source, "min.insync.replicas"), replicas),
        "leaderless_partitions": _leaderless(target),
        "fewest_in_sync": _fewest_in_sync(target),
        "source_retention_ms": source.limit("retention.ms") if source is not None else None,
        "target_retention_ms": target.limit("retention.ms") if target is not None else None,
        "source_retention_bytes": source.limit("retention.bytes") if source is not None else None,
        "target_retention_bytes": target.limit("retention.bytes") if target is not None else None,
        "source_max_message_bytes": _of(source, "max.message.bytes"),
        "target_max_message_bytes": _of(target, "max.message.bytes"),
        "cleanup_differs": _differs(source, target),
    }


def drift_of(row: Row) -> tuple[str, ...]:
    """Return the entries in which the copy falls behind its source."""
    pairs = (
        ("retention.ms", "source_retention_ms", "target_retention_ms"),
        ("retention.bytes", "source_retention_bytes", "target_retention_bytes"),
        ("max.message.bytes", "source_max_message_bytes", "target_max_message_bytes"),
        ("min.insync.replicas", "wanted_min_insync", "target_min_insync"),
        ("replication factor", "wanted_replicas", "target_replicas"),
    )
    found = [
        f"{entry}: {_shown(wanted)} on the source, {_shown(has)} on the target"
        for entry, left, right in pairs
        if isinstance(wanted := row.get(left), int)
        and isinstance(has := row.get(right), int)
        and has < wanted
    ]
    return (*found, "cleanup.policy differs") if row.get("cleanup_differs") == 1 else tuple(found)


def _shown(number: int) -> str:
    return "no limit" if number == FOREVER else str(number)


def _of(side: TopicSide | None, name: str) -> int | None:
    return side.number(name) if side is not None else None


def _least(wanted: int | None, possible: int | None) -> int | None:
    return None if wanted is None or possible is None else min(wanted, possible)


def _leaderless(side: TopicSide | None) -> int | None:
    return None if side is None else sum(it.leader < 0 for it in side.description.partitions)


def _fewest_in_sync(side: TopicSide | None) -> int | None:
    if side is None:
        return None
    return min((len(it.in_sync) for it in side.description.partitions), default=None)


def _differs(source: TopicSide | None, target: TopicSide | None) -> int | None:
    if source is None or target is None or source.cleanup is None or target.cleanup is None:
        return None
    return int(source.cleanup != target.cleanup)
