"""The report of a cycle: what it did to each topic and partition, and what is left to do.  Values."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.checks.gaps import GapReport
from twinlog.copying.ranges import StoppedPartition
from twinlog.monitoring.open_at_source import UndecidedPartition
from twinlog.topics.discovery import Problem


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """What this cycle did to one partition.

    `last_upstream_offset` is the last upstream offset that is copied, -1 while nothing is; `lag_records` counts
    upstream offsets still to be copied.  `error` says why it stopped, "" when it did not.
    """

    partition: int
    copied_records: int
    last_upstream_offset: int
    lag_records: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One replicated topic; `rpo_seconds` is the age of its oldest record not copied, None when nobody knows.

    `undecided_records` counts upstream offsets behind open transactions, none of which is in a partition's lag.
    """

    topic: str
    remote_topic: str
    partitions: tuple[PartitionReport, ...]
    rpo_seconds: float | None = 0.0
    undecided_records: int = 0


@dataclass(frozen=True, slots=True)
class FlowReport:
    """One cycle of one flow.

    `state` is the copy's ("done", "nothing", "failed"), "failed" also where something else failed.  `records` and
    `bytes` are what it committed, `seconds` how long the cycle took, `rpo_seconds` how old the oldest record is that
    is not copied yet, None when nobody knows.  `stopped` are partitions that are not copied, `stopped_not_shown`
    counts those that could not be named any more, `problems` what stands against whole topics.  `undecided_records`
    lie behind open transactions of the source, `undecided` are those that have been open for a while.  Nothing of
    this is said of the `unseen_partitions`: they could not be looked at.
    """

    flow: str
    run_id: str
    state: str
    records: int
    bytes: int
    topics: tuple[TopicReport, ...]
    gaps: tuple[GapReport, ...]
    stopped: tuple[StoppedPartition, ...]
    problems: tuple[Problem, ...]
    lag_records: int
    rpo_seconds: float | None
    seconds: float
    at_ms: int
    stopped_not_shown: int = 0
    undecided_records: int = 0
    undecided: tuple[UndecidedPartition, ...] = ()
    unseen_partitions: int = 0
