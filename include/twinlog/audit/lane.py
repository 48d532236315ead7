"""One lane of an audit: read some partitions from both sides, one after the other, and compare them.

Runs in a Spark task, or in the process that asks.  Only reads.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from twinlog.audit.comparison.compare import compare
from twinlog.audit.comparison.values import Comparison, Scope
from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import TwinlogError
from twinlog.formats.ledger.audit import Unproved
from twinlog.kafka_types import OfIncarnation
from twinlog.logs.partition_reader import PartitionReader
from twinlog.protocol.brokers import Brokers


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


@dataclass(frozen=True, slots=True)
class AuditLaneSpec:
    """The scopes that one task compares, and how it reaches both clusters."""

    lane: int
    source: ConnectionSettings
    target: ConnectionSettings
    specs: tuple[AuditSpec, ...]
    read_committed: bool
    fetch_bytes: int

    @property
    def holds_secrets(self) -> bool:
        """Say whether a password is in it."""
        return self.source.holds_secrets or self.target.holds_secrets


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


class AuditRunner(Protocol):
    """Runs the lanes of an audit: in Spark tasks, or in this process."""

    @property
    def slots(self) -> int:
        """Return how many lanes can run at once."""

    def run(self, lanes: Sequence[AuditLaneSpec]) -> tuple[AuditLaneReport, ...]:
        """Run every lane to its end."""


class LocalAuditRunner:
    """Runs lanes in this process, one after the other: no JVM has to start, one core is in use."""

    slots = 1

    def run(self, lanes: Sequence[AuditLaneSpec]) -> tuple[AuditLaneReport, ...]:
        """Run every lane to its end."""
        return tuple(audit_lane(lane) for lane in lanes)


def audit_lane(lane: AuditLaneSpec) -> AuditLaneReport:
    """Compare the lane's scopes; an error in one of them does not stop the others."""
    began = time.process_time()
    reports = []
    with Brokers(lane.source) as source, Brokers(lane.target) as target:
        ours = PartitionReader(
            source,
            Unproved.SOURCE_RETENTION,
            fetch_bytes=lane.fetch_bytes,
            read_committed=lane.read_committed,
        )
        theirs = PartitionReader(target, Unproved.TARGET_RETENTION, fetch_bytes=lane.fetch_bytes)
        for spec in lane.specs:
            comparison, code, error = None, "", ""
            try:
                comparison = _compare(spec, ours, theirs)
            except TwinlogError as trouble:
                code, error = trouble.code, trouble.message
            reports.append(
                ScopeReport(
                    spec.topic, spec.topic_id, spec.partition, spec.scope.start, comparison, code, error
                )
            )
    return AuditLaneReport(lane.lane, tuple(reports), time.process_time() - began)


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
