"""One lane of a look: read some observed partitions from both sides, one after the other, and match them.

Runs in a Spark task, or in the process that asks.  Only reads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import TwinlogError
from twinlog.formats.ledger.audit import Unproved
from twinlog.kafka_types import OfIncarnation
from twinlog.logs.partition_reader import Item, PartitionReader
from twinlog.observe.align import match
from twinlog.observe.values import Carried, Matched
from twinlog.protocol.brokers import Brokers


@dataclass(frozen=True, slots=True)
class ObserveSpec(OfIncarnation):
    """One partition: what an earlier look hands on, and the ends of both logs, the source's asked for last.

    `hints` are (upstream, downstream) offsets that the engine itself calls the same record.  `compacted` says that
    either side may have dropped records that have a later one with the same key.
    """

    topic: str
    topic_id: str
    partition: int
    remote_topic: str
    carried: Carried
    source_end: int
    target_end: int
    hints: tuple[tuple[int, int], ...] = ()
    compacted: bool = False


@dataclass(frozen=True, slots=True)
class ObserveLaneSpec:
    """The partitions that one task reads, and how it reaches both clusters."""

    lane: int
    source: ConnectionSettings
    target: ConnectionSettings
    specs: tuple[ObserveSpec, ...]
    read_committed: bool
    fetch_bytes: int
    now_ms: int

    @property
    def holds_secrets(self) -> bool:
        """Say whether a password is in it."""
        return self.source.holds_secrets or self.target.holds_secrets


@dataclass(frozen=True, slots=True)
class PartitionLook(OfIncarnation):
    """The outcome for a partition; with an `error` nothing new is known of it, and `matched` is None."""

    topic: str
    topic_id: str
    partition: int
    matched: Matched | None = None
    error_code: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class ObserveLaneReport:
    """A lane's answer, in the order of its partitions."""

    lane: int
    partitions: tuple[PartitionLook, ...]
    cpu_seconds: float = 0.0


class ObserveRunner(Protocol):
    """Runs the lanes of a look: in Spark tasks, or in this process."""

    @property
    def slots(self) -> int:
        """Return how many lanes can run at once."""

    def run(self, lanes: Sequence[ObserveLaneSpec]) -> tuple[ObserveLaneReport, ...]:
        """Run every lane to its end."""


class LocalObserveRunner:
    """Runs lanes in this process, one after the other: no JVM has to start, one core is in use."""

    slots = 1

    def run(self, lanes: Sequence[ObserveLaneSpec]) -> tuple[ObserveLaneReport, ...]:
        """Run every lane to its end."""
        return tuple(observe_lane(lane) for lane in lanes)


def observe_lane(lane: ObserveLaneSpec) -> ObserveLaneReport:
    """Match the lane's partitions; an error in one of them does not stop the others."""
    began = time.process_time()
    looks = []
    with Brokers(lane.source) as source, Brokers(lane.target) as target:
        fetch, committed = lane.fetch_bytes, lane.read_committed
        ours = PartitionReader(source, Unproved.SOURCE_RETENTION, fetch_bytes=fetch, read_committed=committed)
        theirs = PartitionReader(target, Unproved.TARGET_RETENTION, fetch_bytes=fetch)
        for spec in lane.specs:
            matched, code, error = None, "", ""
            try:
                matched = _match(spec, ours, theirs, lane.now_ms)
            except TwinlogError as trouble:
                code, error = trouble.code, trouble.message
            looks.append(PartitionLook(*spec.life, matched, code, error))
    return ObserveLaneReport(lane.lane, tuple(looks), time.process_time() - began)


@dataclass(frozen=True, slots=True)
class _Log:
    """One side of a partition, up to `end`."""

    reader: PartitionReader
    topic: str
    partition: int
    end: int

    def read(self, start: int) -> Iterator[Item]:
        """Read it from an offset on."""
        return self.reader.read(self.topic, self.partition, start, self.end)


def _match(spec: ObserveSpec, source: PartitionReader, target: PartitionReader, now_ms: int) -> Matched:
    ours = _Log(source, spec.topic, spec.partition, spec.source_end)
    theirs = _Log(target, spec.remote_topic, spec.partition, spec.target_end)
    carried, compacted = spec.carried, spec.compacted
    return match(ours, theirs, carried, now_ms=now_ms, hints=spec.hints, compacted=compacted)
