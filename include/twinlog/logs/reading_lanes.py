"""Lanes that only read: each takes some partitions from both sides, one after the other, and reports on them.

They run in Spark tasks, or in the process that asks.  What is done with a partition is the caller's `work`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import TwinlogError
from twinlog.formats.ledger.audit import Unproved
from twinlog.kafka_types import OfIncarnation, SourceIncarnation
from twinlog.logs.partition_reader import PartitionReader
from twinlog.protocol.brokers import Brokers

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings

MOST_FETCHED_BYTES = 8 << 20
"""Bytes fetched at once.

One partition is read at a time, on both sides, with its records as columns: more would cost memory and gain nothing.
"""


class ReadingSpec(Protocol):
    """Something that is read: from `start` of one incarnation of a source partition on."""

    @property
    def life(self) -> SourceIncarnation:
        """The incarnation that is read."""

    @property
    def start(self) -> int:
        """The first upstream offset that is read."""


Spec = TypeVar("Spec", bound=ReadingSpec)
Found = TypeVar("Found")


@dataclass(frozen=True)  # with slots, Python 3.11 cannot make one by a name such as AuditLaneSpec
class ReadingLane(Generic[Spec]):
    """Name what one task reads, and how it reaches both clusters."""

    lane: int
    source: ConnectionSettings
    target: ConnectionSettings
    specs: tuple[Spec, ...]
    read_committed: bool
    fetch_bytes: int

    @property
    def holds_secrets(self) -> bool:
        """Say whether a password is in it."""
        return self.source.holds_secrets or self.target.holds_secrets


@dataclass(frozen=True)
class Reading(OfIncarnation, Generic[Found]):
    """Hold what the work found out about a spec, from offset `start` on; with an `error` nothing is known of it.

    `found` is None then.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    found: Found | None = None
    error_code: str = ""
    error: str = ""


@dataclass(frozen=True)
class ReadingReport(Generic[Found]):
    """A lane's answer, in the order of its specs."""

    lane: int
    partitions: tuple[Reading[Found], ...]
    cpu_seconds: float = 0.0


class ReadingRunner(Protocol[Spec, Found]):
    """Runs lanes that read: in Spark tasks, or in this process."""

    @property
    def slots(self) -> int:
        """Return how many lanes can run at once."""

    def run(self, lanes: Sequence[ReadingLane[Spec]]) -> tuple[ReadingReport[Found], ...]:
        """Run every lane to its end."""


class LocalRunner(Generic[Spec, Found]):
    """Runs lanes in this process, one after the other: no JVM has to start, one core is in use."""

    slots = 1

    def __init__(self, work: Callable[[ReadingLane[Spec]], ReadingReport[Found]]) -> None:
        self._work = work

    def run(self, lanes: Sequence[ReadingLane[Spec]]) -> tuple[ReadingReport[Found], ...]:
        """Run every lane to its end."""
        return tuple(self._work(lane) for lane in lanes)


def read_each(
    lane: ReadingLane[Spec], work: Callable[[Spec, PartitionReader, PartitionReader], Found]
) -> ReadingReport[Found]:
    """Do the work of a lane, spec by spec, with readers of source and target.

    An error with one spec does not stop the others.
    """
    began, readings = time.process_time(), list[Reading[Found]]()
    with Brokers(lane.source) as source, Brokers(lane.target) as target:
        ours = PartitionReader(
            source,
            Unproved.SOURCE_RETENTION,
            fetch_bytes=lane.fetch_bytes,
            read_committed=lane.read_committed,
        )
        theirs = PartitionReader(target, Unproved.TARGET_RETENTION, fetch_bytes=lane.fetch_bytes)
        for spec in lane.specs:
            try:
                readings.append(Reading(*spec.life, spec.start, work(spec, ours, theirs)))
            except TwinlogError as trouble:
                readings.append(Reading(*spec.life, spec.start, None, trouble.code, trouble.message))
    return ReadingReport(lane.lane, tuple(readings), time.process_time() - began)


def spread(
    flow: FlowSettings, partitions: Iterable[tuple[int, Any, Sequence[Spec]]], slots: int
) -> Iterator[ReadingLane[Spec]]:
    """Spread partitions over at most `slots` lanes, the largest first, so that all end at about the same time.  Pure.

    Each is given with its size, a key that orders those of one size, and its specs, which stay together.
    """
    largest_first = sorted(partitions, key=lambda partition: (-partition[0], partition[1]))
    bins: list[tuple[int, list[Spec]]] = [(0, []) for _ in range(max(1, min(slots, len(largest_first))))]
    for size, _, specs in largest_first:
        bins.sort(key=lambda lane: lane[0])
        total, before = bins[0]
        bins[0] = total + size, [*before, *specs]
    for number, (_, chosen) in enumerate(bins):
        if chosen:
            yield ReadingLane(
                number,
                flow.source.connection,
                flow.target.connection,
                tuple(chosen),
                flow.copy.read_committed,
                min(flow.copy.fetch_bytes, MOST_FETCHED_BYTES),
            )
