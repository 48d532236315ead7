"""Describe what a cycle did to each topic and partition and what is left to do."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.copying.ranges import StoppedPartition
from twinlog.facts.gaps import GapReport
from twinlog.facts.undecided import UndecidedPartition
from twinlog.topics.discovery import Problem


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """Tell what this cycle did to one partition.

    `last_upstream_offset` is the last copied upstream offset, -1 if nothing was copied yet.  `lag_records` counts
    upstream offsets still to be copied, `undecided_records` those behind an open transaction.  `error` says why the
    partition stopped, "" if it did not.
    """

    partition: int
    copied_records: int
    last_upstream_offset: int
    lag_records: int
    error: str = ""
    undecided_records: int = 0


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One replicated topic; `rpo_seconds` is the age of its oldest record not copied, None if unknown.

    `lag_records` are those not copied, at least; None if that would be 0 of what was not looked at.  In copies of
    another engine it is what lagged when this cycle had read them.  `undecided_records` counts upstream offsets behind
    open transactions; they are in no partition's lag.
    """

    topic: str
    remote_topic: str
    partitions: tuple[PartitionReport, ...]
    rpo_seconds: float | None = 0.0
    undecided_records: int = 0
    lag_records: int | None = None


@dataclass(frozen=True, slots=True)
class FlowReport:
    """One cycle of one flow.

    `state` is the copy's ("done", "nothing", "failed"), and "failed" also if another step failed.  `records` and
    `bytes` are what the copy committed.  `seconds` is the duration of the cycle.  `rpo_seconds` is the age of the
    oldest record not copied yet, None if unknown.  `stopped` are partitions that are not copied; `stopped_not_shown`
    counts those that are not listed there.  `stopped_partitions` counts all of these, and the partitions whose copy
    ended with an error that does not go away by itself.  `problems` are those that stop whole topics.
    `undecided_records` lie behind open transactions of the source; `undecided` are the partitions whose transactions
    have been open for a while.  `lag_records` is None if there are `unseen_partitions`, which could not be looked at;
    no other number covers them.  `alarms` are what is to be told of an RPO: what is new, or was told an hour ago.
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
    lag_records: int | None
    rpo_seconds: float | None
    seconds: float
    at_ms: int
    stopped_not_shown: int = 0
    stopped_partitions: int = 0
    undecided_records: int = 0
    undecided: tuple[UndecidedPartition, ...] = ()
    unseen_partitions: int = 0
    alarms: tuple[str, ...] = ()
