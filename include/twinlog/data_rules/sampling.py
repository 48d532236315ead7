"""The sampled part of a partition; it is sent to Spark's tasks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SampledPartition:
    """Offsets [start, end) of one partition of `read_topic`; its rows carry the source topic's name."""

    topic: str
    read_topic: str
    partition: int
    start: int
    end: int
