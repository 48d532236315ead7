"""The topics a flow keeps on its target: names, partitions, replication factors."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.cluster.values import NewTopic
from twinlog.config.flow.settings import FlowSettings, PoisonPolicy

OFFSET_MAP_PARTITIONS = 16
COMPACT = "compact"
DELETE_RETENTION = "delete.retention.ms"
TOMBSTONES_KEPT_MS = 24 * 3_600_000
"""How long a tombstone stays at least: Kafka's default, set on the topic so that no broker's default shortens it.

A reader that goes on from where it was (logs/log_reader.py, and its cache) does so for twelve hours at most, and would
never hear of what vanished meanwhile.  Longer serves nobody: every new reader reads what is kept.  In the end a
tombstone goes with the cleaning after that day; of a quiet topic that is once its segment is full, or seven days old
(`segment.ms`) when the next record comes.
"""
CUT_BY_OFFSET = {"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Configs of a compacted topic whose records DeleteRecords may delete, and nothing else does: none is too old."""

SEGMENT_BYTES = 4 * 1024 * 1024
"""Size of a segment of our own topics; brokers take 1 MiB at least (KIP-1030)."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """One of a flow's own topics on the target.

    `replication_factor` is the wanted one, not yet clamped to the cluster.  Without a `vital` topic, or with
    its records expiring, nothing may be copied: it holds what exactly-once rests on.  With `keeps_all` it is not
    compacted: its records are no versions of one another.  With `cut` what is of no use any more is deleted by offset,
    which brokers refuse in a topic that is compacted alone.
    """

    name: str
    partitions: int
    replication_factor: int
    vital: bool
    keeps_all: bool = False
    cut: bool = False

    def creation(self, replication_factor: int) -> NewTopic:
        """Say how to create it: compacted as MM2 does it, in small segments.

        `replication_factor` is the clamped one, for a cluster that cannot hold the wanted one.

        The cleaner never touches the segment that is written to.  At Kafka's 1 GiB a segment, a lane that commits
        thirty times a second would leave hours of old progress to be read at every start.
        """
        if self.keeps_all:
            entries = {"cleanup.policy": "delete", "retention.ms": "-1"}
            return NewTopic(self.name, self.partitions, self.replication_factor, entries, replication_factor)
        entries = {
            **(CUT_BY_OFFSET if self.cut else {"cleanup.policy": COMPACT}),
            "segment.bytes": str(SEGMENT_BYTES),
            DELETE_RETENTION: str(TOMBSTONES_KEPT_MS),
        }
        return NewTopic(self.name, self.partitions, self.replication_factor, entries, replication_factor)


def internal_topics(flow: FlowSettings) -> tuple[InternalTopic, ...]:
    """List what the flow needs on its target; a flow that only beats needs `heartbeats` alone."""
    return (*(_state_topics(flow) if flow.enabled else ()), *heartbeats_topics(flow))


def heartbeats_topics(flow: FlowSettings) -> tuple[InternalTopic, ...]:
    """Give the topic the flow beats into, or nothing when it does not beat."""
    if not flow.emit_heartbeats:
        return ()
    name = flow.policy.heartbeats_topic()
    return (InternalTopic(name, 1, flow.heartbeats_topic_replication_factor, vital=False),)


def _state_topics(flow: FlowSettings) -> tuple[InternalTopic, ...]:
    internal = flow.internal_replication_factor
    offsets = InternalTopic(
        flow.offsets_topic, flow.offset_storage_partitions, flow.offset_storage_replication_factor, vital=True
    )
    offset_map = InternalTopic(flow.offset_map_topic, OFFSET_MAP_PARTITIONS, internal, vital=True)
    ledger = InternalTopic(flow.ledger_topic, 1, internal, vital=True)
    checkpoints = InternalTopic(
        flow.policy.checkpoints_topic(flow.source.alias),
        1,
        flow.checkpoints_topic_replication_factor,
        vital=False,
        cut=True,
    )
    quarantine = InternalTopic(flow.quarantine_topic, 1, internal, vital=True, keeps_all=True)
    return (
        *(offsets, offset_map, ledger),
        *((checkpoints,) if flow.emit_checkpoints else ()),
        *((quarantine,) if flow.copy.poison is PoisonPolicy.QUARANTINE else ()),
    )
