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
from twinlog.logs.reading_lanes import LocalRunner, ReadingLane, ReadingRunner, read_each


@dataclass(frozen=True, slots=True)
class AuditSpec:
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


AuditLaneSpec = ReadingLane[AuditSpec]
"""The scopes that one task compares."""


@dataclass(frozen=True, slots=True)
class ScopeReport(OfIncarnation):
    """The outcome of a scope; with an `error` nothing is known of it, and `comparison` is None."""

    topic: str
    topic_id: str
    partition: int
    start: int
    comparison: Comparison | None = None
    error_code: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class AuditLaneReport:
    """A lane's answer, in the order of its scopes."""

    lane: int
    scopes: tuple[ScopeReport, ...]
    cpu_seconds: float = 0.0


AuditRunner = ReadingRunner[AuditLaneSpec, AuditLaneReport]
"""Runs the lanes of an audit."""


def audit_lane(lane: AuditLaneSpec) -> AuditLaneReport:
    """Compare the lane's scopes; an error in one of them does not stop the others."""
    outcomes, cpu_seconds = read_each(lane, _compare)
    reports = tuple(
        ScopeReport(
            outcome.spec.topic,
            outcome.spec.topic_id,
            outcome.spec.partition,
            outcome.spec.scope.start,
            outcome.found,
            outcome.error_code,
            outcome.error,
        )
        for outcome in outcomes
    )
    return AuditLaneReport(lane.lane, reports, cpu_seconds)


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
