"""One lane of an audit: read some partitions from both sides, one after the other, and compare them.

Runs in a Spark task, or in the process that asks.  Only reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from twinlog.audit.comparison.compare import compare
from twinlog.audit.comparison.values import Comparison, Scope
from twinlog.kafka_types import OfIncarnation
from twinlog.logs.partition_reader import PartitionReader
from twinlog.logs.reading_lanes import LocalRunner, ReadingLane, ReadingReport, ReadingRunner, read_each


@dataclass(frozen=True, slots=True)
class AuditSpec(OfIncarnation):
    """One scope of one partition.

    `source_end` and `target_end` are the ends of the logs that were fixed when the audit was planned.  Keys
    that compaction must have kept are looked for after them, up to the ends at that time.
    """

    topic: str
    topic_id: str
    remote_topic: str
    partition: int
    scope: Scope
    source_end: int
    target_end: int

    @property
    def start(self) -> int:
        """The upstream offset that the scope begins at."""
        return self.scope.start


AuditLaneSpec = ReadingLane[AuditSpec]
"""The scopes that one task compares."""


AuditLaneReport = ReadingReport[Comparison]
"""The comparison of each of a lane's scopes."""

AuditRunner = ReadingRunner[AuditSpec, Comparison]
"""Runs the lanes of an audit."""


def audit_lane(lane: AuditLaneSpec) -> AuditLaneReport:
    """Compare the lane's scopes; an error in one of them does not stop the others."""
    return read_each(lane, _compare)


LocalAuditRunner = partial(LocalRunner, audit_lane)
"""Makes a runner of audits in this process."""


def _compare(spec: AuditSpec, source: PartitionReader, target: PartitionReader) -> Comparison:
    scope = spec.scope
    source_end, target_end = min(scope.end, spec.source_end), min(scope.downstream_end, spec.target_end)
    ours = source.read(spec.topic, spec.partition, scope.start, source_end)
    theirs = target.read(spec.remote_topic, spec.partition, scope.downstream_start, target_end)
    return compare(
        scope,
        ours,
        theirs,
        source.read_on(spec.topic, spec.partition, source_end),
        target.read_on(spec.remote_topic, spec.partition, target_end),
    )
