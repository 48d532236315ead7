"""Add up the lanes' reports of all rounds, by partition, to the result of a copy.

The result of ten thousand partitions is megabytes, too much to pass through a scheduler's database each minute. Only
the totals and the first entries pass through it (twinlog.airflow.xcom); what the copy did to each partition is kept in
the ledger, where `publish` reads it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from twinlog import clock
from twinlog.cluster.api import Cluster
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ranges import StoppedPartition
from twinlog.errors import ExitCode, TransientError, TwinlogError
from twinlog.formats.ledger.writers import CopyOutcome
from twinlog.jsonable import NOT_SHOWN, Json, to_json
from twinlog.kafka_types import Positions, TopicPartition
from twinlog.lane.copy.range_errors import NO_LEADER, SOURCE_LOST, TOPIC_DELETED
from twinlog.lane.spec import LaneReport, RangeReport, RangeSpec
from twinlog.state.ledger import Ledger, write_ledger
from twinlog.topics.discovery import Discovery, Problem, ProblemCode
from twinlog.topics.plan import Refusal

TRANSIENT_CODES = frozenset({
    SOURCE_LOST,
    NO_LEADER,
    ProblemCode.PARTITION_UNAVAILABLE.value,
    "stalled",
    "fence-again",
    "no-target-partition",
})
"""Codes of partition errors that may be gone at the next cycle."""


@dataclass(frozen=True, slots=True)
class PartitionCopy:
    """The result for one partition in this run, over all its rounds."""

    topic: str
    remote_topic: str
    partition: int
    copied_records: int
    bytes: int
    last_upstream_offset: int
    lag_records: int
    skipped: int = 0
    rewritten_batches: int = 0
    quarantined: tuple[int, ...] = ()
    error_code: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The outcome of a copy.

    `state` is "done", "nothing" (there was nothing to copy) or "failed" (some partitions stopped; the others are
    copied). `transient` says that every failure may go away by itself. `lag_records` of a partition counts upstream
    offsets between its last copied one and its end at the time the ranges were resolved. `error` says why the last
    round ended, if work was left over; `error_code` is its code. `retries` and `throttled_ms` are the lanes' (see
    LaneReport). `taken_over_by` names the run that follows the source from then on, if this run followed it and was
    taken over in order. `refused` lists, for a run that followed, topics and partitions that the target refused to
    provision.
    """

    flow: str
    run_id: str
    state: str
    records: int
    bytes: int
    seconds: float
    partitions: tuple[PartitionCopy, ...]
    stopped: tuple[StoppedPartition, ...] = ()
    problems: tuple[Problem, ...] = ()
    error: str = ""
    error_code: str = ""
    transient: bool = False
    rounds: int = 1
    lanes: int = 0
    transactions: int = 0
    lane_cpu_seconds: float = 0.0
    retries: int = 0
    throttled_ms: int = 0
    taken_over_by: str = ""
    refused: tuple[Refusal, ...] = ()

    @property
    def broke_off(self) -> bool:
        """Say whether its last round ended by an error that may go away by itself, with no other failure."""
        return bool(self.error) and self.transient

    @property
    def exit_code(self) -> ExitCode:
        """Return how an application that copied this ends."""
        if self.broke_off:
            return ExitCode.CLUSTER
        return ExitCode.SAYS_NO if self.state == "failed" else ExitCode.DONE

    @property
    def told(self) -> Json:
        """Return what an application tells of it, without contents of records."""
        found: Json = to_json(self)
        return found


@dataclass(slots=True)
class Totals:
    """Reports of all rounds, added up by partition."""

    ranges: dict[TopicPartition, RangeReport] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    transactions: int = 0
    cpu_seconds: float = 0.0
    retries: int = 0
    throttled_ms: int = 0

    @property
    def bytes(self) -> dict[TopicPartition, int]:
        """Return the bytes copied, by partition."""
        return {place: report.bytes for place, report in self.ranges.items()}

    def note_ends(self, ranges: Sequence[RangeSpec]) -> None:
        """Note where the ranges of a round end (upstream)."""
        for item in ranges:
            self.ends[item.topic_partition] = item.end

    def failed(self, item: RangeSpec) -> bool:
        """Say whether the partition of a range failed in an earlier round."""
        report = self.ranges.get(item.topic_partition)
        return report is not None and bool(report.error)

    def end_at(self, ends: Positions) -> None:
        """Note the source's ends for a run that followed; a partition no longer there ends where its copy ends."""
        for place, it in self.ranges.items():
            self.ends[place] = max(ends.get(place, 0), it.next_upstream)

    def forget_gone(self, topics: Collection[str]) -> None:
        """Clear the errors of deleted topics; `topics` are those the source still has."""
        for place, it in self.ranges.items():
            if it.error_code == TOPIC_DELETED and it.topic not in topics:
                self.ranges[place] = replace(it, error_code="", error="")

    def errors(self, well: Iterable[RangeSpec], progress: Positions) -> dict[TopicPartition, str]:
        """Return, by source partition, the error that ended its newest range, unless the error is known to be over.

        An error is over if `progress` (last copied upstream offset) has passed it, or if its range is in `well`, the
        ranges that are followed without error.
        """
        over = {span.topic_partition for span in well}
        return {
            place: it.error
            for place, it in self.ranges.items()
            if it.error and place not in over and progress.get(place, -1) < it.next_upstream
        }

    def add(self, report: LaneReport) -> None:
        """Add a lane's report of this round."""
        self.transactions += report.transactions
        self.cpu_seconds += report.cpu_seconds
        self.retries += report.retries
        self.throttled_ms += report.throttled_ms
        for item in report.ranges:
            before = self.ranges.get(item.topic_partition)
            self.ranges[item.topic_partition] = _joined(before, item) if before else item


def _joined(before: RangeReport, after: RangeReport) -> RangeReport:
    """Join two reports: the later report's positions and error, both reports' counts."""
    return replace(
        after,
        records=before.records + after.records,
        bytes=before.bytes + after.bytes,
        skipped=before.skipped + after.skipped,
        rewritten_batches=before.rewritten_batches + after.rewritten_batches,
        quarantined=before.quarantined + after.quarantined,
    )


def result_of(
    flow: FlowSettings,
    run_id: str,
    discovery: Discovery,
    totals: Totals,
    stopped: tuple[StoppedPartition, ...],
    failure: TransientError | None,
    rounds: int,
    lanes: int,
    seconds: float,
    refused: tuple[Refusal, ...] = (),
) -> CopyResult:
    """Build the result of a copy. `stopped` and `failure` are those of the last round; `seconds` is wall time."""
    partitions = tuple(_partition(report, totals, failure) for _, report in sorted(totals.ranges.items()))
    problems = tuple(problem for problem in discovery.problems if problem.blocking)
    codes = {item.error_code for item in partitions if item.error} | {item.code for item in stopped}
    failed = bool(codes or problems or failure or refused)
    return CopyResult(
        flow=flow.name,
        run_id=run_id,
        state="failed" if failed else "done" if partitions else "nothing",
        records=sum(item.copied_records for item in partitions),
        bytes=sum(item.bytes for item in partitions),
        seconds=round(seconds, 3),
        partitions=partitions,
        stopped=stopped,
        problems=problems,
        error=str(failure or ""),
        error_code=failure.code if failure is not None else "",
        transient=failed and codes <= TRANSIENT_CODES and not problems and not refused,
        rounds=rounds,
        lanes=lanes,
        transactions=totals.transactions,
        lane_cpu_seconds=round(totals.cpu_seconds, 3),
        retries=totals.retries,
        throttled_ms=totals.throttled_ms,
        refused=refused,
    )


def _partition(report: RangeReport, totals: Totals, failure: TransientError | None) -> PartitionCopy:
    lag = totals.ends[report.topic_partition] - report.next_upstream
    unfinished = failure is not None and lag > 0 and not report.error
    return PartitionCopy(
        topic=report.topic,
        remote_topic=report.remote_topic,
        partition=report.partition,
        copied_records=report.records,
        bytes=report.bytes,
        last_upstream_offset=report.next_upstream - 1,
        lag_records=lag,
        skipped=report.skipped,
        rewritten_batches=report.rewritten_batches,
        quarantined=report.quarantined,
        error_code="fence-again" if unfinished else report.error_code,
        error=failure.message if unfinished and failure is not None else report.error,
    )


log = logging.getLogger(__name__)

MANY = 200
"""From this many partitions on, a result may be cut on its way."""

MOST_CHARACTERS = 300
"""Most characters kept of one partition's error."""


def keep_outcome(flow: FlowSettings, target: Cluster, result: CopyResult) -> None:
    """Write the copy's outcome to the ledger if it covers many partitions.

    If the ledger refuses it, the report loses its details, but the copy does not fail.
    """
    if len(result.partitions) + len(result.stopped) < MANY:
        return
    try:
        write_ledger(flow, target, [outcome_of(result, clock.now_ms())])
    except TwinlogError as error:
        log.warning("what was copied of each partition is not kept for the report: %s", error)


def outcome_of(result: CopyResult, at_ms: int) -> CopyOutcome:
    """Choose what is kept of a result. Pure."""
    copied: defaultdict[str, dict[str, int]] = defaultdict(dict)
    errors: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for partition in result.partitions:
        if partition.copied_records:
            copied[partition.topic][str(partition.partition)] = partition.copied_records
        if partition.error:
            errors[partition.topic][str(partition.partition)] = partition.error[:MOST_CHARACTERS]
    stopped = tuple(
        {**to_json(stopped_partition), "message": stopped_partition.message[:MOST_CHARACTERS]}
        for stopped_partition in result.stopped
    )
    return CopyOutcome(result.run_id, dict(copied), dict(errors), stopped, at_ms)


def completed(copy_result: Mapping[str, Any] | None, ledger: Ledger) -> Mapping[str, Any] | None:
    """Restore a result that was cut from the ledger's outcome of the same run. Pure.

    If another run has replaced that outcome meanwhile, the result stays as it is, and says how much is missing.
    """
    outcome = ledger.copy_outcome
    if copy_result is None or NOT_SHOWN not in copy_result:
        return copy_result
    if outcome is None or outcome.run_id != copy_result.get("run_id"):
        return copy_result
    places = {
        (topic, int(number))
        for told in (outcome.copied, outcome.errors)
        for topic, partitions in told.items()
        for number in partitions
    }
    partitions = [
        {
            "topic": topic,
            "partition": number,
            "copied_records": outcome.copied.get(topic, {}).get(str(number), 0),
            "error": outcome.errors.get(topic, {}).get(str(number), ""),
        }
        for topic, number in sorted(places)
    ]
    whole = {name: value for name, value in copy_result.items() if name != NOT_SHOWN}
    return {**whole, "partitions": partitions, "stopped": list(outcome.stopped)}
