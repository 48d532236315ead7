"""Name what a Spark task samples.  Tasks import this module, so it imports nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SampledPartition:
    """Offsets [start, end) of a partition of `read_topic`, for a Spark task; its rows carry the source topic's name."""

    topic: str
    read_topic: str
    partition: int
    start: int
    end: int
