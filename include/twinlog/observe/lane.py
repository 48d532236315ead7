"""One lane of a look: read some observed partitions from both sides, one after the other, and match them.

Runs in a Spark task, or in the process that asks.  Only reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from twinlog.kafka_types import OfIncarnation
from twinlog.logs.partition_reader import PartitionReader
from twinlog.logs.reading_lanes import (
    LocalRunner,
    Reading,
    ReadingLane,
    ReadingReport,
    ReadingRunner,
    read_each,
)
from twinlog.observe.align import match
from twinlog.observe.values import HORIZON_MS, Carried, Matched


@dataclass(frozen=True, slots=True)
class ObserveSpec(OfIncarnation):
    """One partition: what an earlier look hands on, and the ends of both logs, the source's asked for last.

    It is looked at as of `now_ms` (epoch ms), and what has waited for `horizon_ms` is judged.  `hints` are (upstream,
    downstream) offsets that the engine itself calls the same record.  `compacted` says that either side may have
    dropped records that have a later one with the same key, `equal_offsets` that the engine promises them.
    """

    topic: str
    topic_id: str
    partition: int
    remote_topic: str
    carried: Carried
    source_end: int
    target_end: int
    now_ms: int
    hints: tuple[tuple[int, int], ...] = ()
    compacted: bool = False
    equal_offsets: bool = False
    horizon_ms: int = HORIZON_MS

    @property
    def start(self) -> int:
        """The upstream offset that was reached earlier."""
        return self.carried.source_to


ObserveLaneSpec = ReadingLane[ObserveSpec]
"""The partitions that one task matches."""


PartitionLook = Reading[Matched]
"""A partition, with the records that a look has matched in it."""

ObserveLaneReport = ReadingReport[Matched]
"""A lane's partitions, each with the records that a look has matched in it."""

ObserveRunner = ReadingRunner[ObserveSpec, Matched]
"""Runs the lanes of a look."""


def observe_lane(lane: ObserveLaneSpec) -> ObserveLaneReport:
    """Match the lane's partitions; an error in one of them does not stop the others."""
    return read_each(lane, _match)


LocalObserveRunner = partial(LocalRunner, observe_lane)
"""Makes a runner of looks in this process."""


def _match(spec: ObserveSpec, source: PartitionReader, target: PartitionReader) -> Matched:
    return match(
        lambda start: source.read(spec.topic, spec.partition, start, spec.source_end),
        lambda start: target.read(spec.remote_topic, spec.partition, start, spec.target_end),
        spec.carried,
        now_ms=spec.now_ms,
        horizon_ms=spec.horizon_ms,
        hints=spec.hints,
        compacted=spec.compacted,
        equal_offsets=spec.equal_offsets,
    )
