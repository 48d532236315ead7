"""The topics a flow keeps on its target: names, partitions, replication factors."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.cluster.values import NewTopic
from twinlog.config.flow.copying import PoisonPolicy
from twinlog.config.flow.settings import FlowSettings

OFFSET_MAP_PARTITIONS = 16
COMPACT = "compact"
DELETE_RETENTION = "delete.retention.ms"
TOMBSTONES_KEPT_MS = 24 * 3_600_000
"""How long a tombstone stays at least: Kafka's default, set on the topic so that no broker's default shortens it.

A reader that continues from its last position (logs/log_reader.py, and its cache) does so for twelve hours at most.
Without the tombstone it would never learn of a deletion meanwhile. A longer time has no use: every new reader reads
all that is kept. A tombstone goes with the first cleaning after that day. In a quiet topic that is once its segment is
full, or seven days old (`segment.ms`) when the next record comes.
"""
CUT_BY_OFFSET = {"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Configs of a compacted topic whose records only DeleteRecords deletes: none expires by age or size."""

SEGMENT_BYTES = 4 * 1024 * 1024
"""Size of a segment of our own topics; brokers accept 1 MiB at least (KIP-1030)."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """One of a flow's own topics on the target.

    - `replication_factor` is the wanted one, not yet clamped to the cluster.
    - `vital`: exactly-once depends on it. Without the topic, or if its records expire, nothing may be copied.
    - `keeps_all`: the topic is not compacted, because its records are not versions of one another.
    - `cut`: useless records are deleted by offset, which brokers refuse in a topic whose policy is compact alone.
    """

    name: str
    partitions: int
    replication_factor: int
    vital: bool
    keeps_all: bool = False
    cut: bool = False

    def creation(self, replication_factor: int) -> NewTopic:
        """Describe the topic to create: compacted as MM2 does it, in small segments.

        `replication_factor` is the clamped one, for a cluster that cannot hold the wanted one. Segments are small
        because the cleaner never touches the active segment. With Kafka's segments of 1 GiB, a lane that commits
        thirty times a second would leave hours of old progress to be read at every start.
        """
        if self.keeps_all:
            entries = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
            return NewTopic(self.name, self.partitions, self.replication_factor, entries, replication_factor)
        entries = {
            **(CUT_BY_OFFSET if self.cut else {"cleanup.policy": COMPACT}),
            "segment.bytes": str(SEGMENT_BYTES),
            DELETE_RETENTION: str(TOMBSTONES_KEPT_MS),
        }
        return NewTopic(self.name, self.partitions, self.replication_factor, entries, replication_factor)


def internal_topics(flow: FlowSettings) -> tuple[InternalTopic, ...]:
    """List the topics the flow needs on its target; a flow that only emits heartbeats needs `heartbeats` alone."""
    return (*(_state_topics(flow) if flow.enabled else ()), *heartbeats_topics(flow))


def heartbeats_topics(flow: FlowSettings) -> tuple[InternalTopic, ...]:
    """Return the topic that the flow emits heartbeats to, or nothing if it emits none."""
    if not flow.emit_heartbeats:
        return ()
    name = flow.policy.heartbeats_topic()
    return (InternalTopic(name, 1, flow.heartbeats_topic_replication_factor, vital=False),)


def quarantine_topic(flow: FlowSettings) -> InternalTopic:
    """Return the topic for what the target cannot hold; it keeps everything."""
    factor = flow.offset_storage_replication_factor
    return InternalTopic(flow.quarantine_topic, 1, factor, vital=True, keeps_all=True)


def _state_topics(flow: FlowSettings) -> tuple[InternalTopic, ...]:
    internal = flow.offset_storage_replication_factor
    offsets = InternalTopic(flow.offsets_topic, flow.offset_storage_partitions, internal, vital=True)
    offset_map = InternalTopic(flow.offset_map_topic, OFFSET_MAP_PARTITIONS, internal, vital=True)
    ledger = InternalTopic(flow.ledger_topic, 1, internal, vital=True)
    if flow.observed:
        return offset_map, ledger
    checkpoints = InternalTopic(
        flow.checkpoints_topic,
        1,
        flow.checkpoints_topic_replication_factor,
        vital=False,
        cut=True,
    )
    return (
        *(offsets, offset_map, ledger),
        *((checkpoints,) if flow.emit_checkpoints else ()),
        *((quarantine_topic(flow),) if flow.copy.poison is PoisonPolicy.QUARANTINE else ()),
    )
