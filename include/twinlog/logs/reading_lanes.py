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
from twinlog.logs.partition_reader import PartitionReader
from twinlog.protocol.brokers import Brokers

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings

MOST_FETCHED_BYTES = 8 << 20
"""Bytes fetched at once.

One partition is read at a time, on both sides, with its records as columns: more would cost memory and gain nothing.
"""

Spec = TypeVar("Spec")
Found = TypeVar("Found")
Lane_contra = TypeVar("Lane_contra", contravariant=True)
Report_co = TypeVar("Report_co", covariant=True)


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


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Spec, Found]):
    """Hold what the work found out about a spec; with an `error` nothing is known of it, and `found` is None."""

    spec: Spec
    found: Found | None = None
    error_code: str = ""
    error: str = ""


class ReadingRunner(Protocol[Lane_contra, Report_co]):
    """Runs lanes that read: in Spark tasks, or in this process."""

    @property
    def slots(self) -> int:
        """Return how many lanes can run at once."""

    def run(self, lanes: Sequence[Lane_contra]) -> tuple[Report_co, ...]:
        """Run every lane to its end."""


class LocalRunner(Generic[Lane_contra, Report_co]):
    """Runs lanes in this process, one after the other: no JVM has to start, one core is in use."""

    slots = 1

    def __init__(self, work: Callable[[Lane_contra], Report_co]) -> None:
        self._work = work

    def run(self, lanes: Sequence[Lane_contra]) -> tuple[Report_co, ...]:
        """Run every lane to its end."""
        return tuple(self._work(lane) for lane in lanes)


def read_each(
    lane: ReadingLane[Spec], work: Callable[[Spec, PartitionReader, PartitionReader], Found]
) -> tuple[list[Outcome[Spec, Found]], float]:
    """Do the work of a lane, spec by spec, with readers of source and target; return the outcomes and the CPU seconds.

    An error with one spec does not stop the others.
    """
    began, outcomes = time.process_time(), list[Outcome[Spec, Found]]()
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
                outcomes.append(Outcome(spec, work(spec, ours, theirs)))
            except TwinlogError as trouble:
                outcomes.append(Outcome(spec, None, trouble.code, trouble.message))
    return outcomes, time.process_time() - began


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
