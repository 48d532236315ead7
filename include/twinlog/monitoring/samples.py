"""Make the numbers of the metrics from what was seen.  Pure.

What was not looked at, or is not known, is None or left out, never 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from twinlog.audit.coverage import by_topic, total
from twinlog.config.flow.settings import FlowSettings
from twinlog.fact import if_known
from twinlog.facts.copies import coverage_of
from twinlog.facts.flow import FlowFacts
from twinlog.facts.gaps import GapState
from twinlog.facts.undecided import UndecidedPartition
from twinlog.formats.lane_counts import LaneCounts
from twinlog.formats.ledger.recovery import DrillState, last_proof
from twinlog.judge.at_risk import drift_of
from twinlog.judge.check import CheckResult
from twinlog.judge.rows import found_in, heartbeat_age
from twinlog.kafka_types import TopicPartition
from twinlog.monitoring import metrics
from twinlog.monitoring.cycle_report import FlowReport
from twinlog.monitoring.metrics import Sample
from twinlog.monitoring.readiness import readiness
from twinlog.state.ledger import Ledger


def of_report(flow: FlowSettings, report: FlowReport, facts: FlowFacts) -> Iterator[Sample]:
    """Tell what a cycle did, and what is left to do."""
    yield metrics.CYCLE_RECORDS.of(report.records)
    yield metrics.CYCLE_SECONDS.of(report.seconds)
    yield metrics.CYCLE_FAILED.of(float(report.state == "failed"))
    yield metrics.RPO_SECONDS.of(report.rpo_seconds)
    yield metrics.UNDECIDED_SECONDS.of(_longest(report.undecided))
    yield metrics.UNSEEN_PARTITIONS.of(report.unseen_partitions)
    yield metrics.STOPPED_PARTITIONS.of(report.stopped_partitions)
    yield metrics.PAUSED_TOPICS.of(facts.paused_topics)
    yield metrics.FLOW_ACTIVE.of(float(facts.ledger.copies))
    yield metrics.ORPHANED_COPIES.of(len(facts.orphans))
    yield metrics.DRIFTED_TOPICS.of(sum(bool(drift_of(topic)) for topic in facts.judged))
    yield metrics.HEARTBEAT_AGE_SECONDS.of(if_known(heartbeat_age(facts)))
    blocked = Counter(problem.code.value for problem in report.problems if problem.blocking)
    yield from (metrics.BLOCKED_TOPICS.of(count, reason) for reason, count in blocked.items())
    yield from _lag(flow, report, facts)
    yield from _gaps(report)
    yield from _drill(facts.ledger)
    if flow.observed:
        yield from of_observed(facts)
    for it in readiness(facts.ledger, facts.at_ms):
        yield metrics.READINESS.of(None if it.ready is None else float(it.ready), it.mode)
        yield metrics.READINESS_AGE_SECONDS.of(it.age_seconds, it.mode)


def _lag(flow: FlowSettings, report: FlowReport, facts: FlowFacts) -> Iterator[Sample]:
    """Tell what each topic lags; of a topic with unseen partitions only what it lags at least, if that is anything."""
    for reported in report.topics:
        yield metrics.LAG_RECORDS.of(reported.lag_records, reported.topic)
    for topic in facts.topics:
        if topic.partitions:
            yield metrics.UNDECIDED_RECORDS.of(topic.undecided.shown, topic.topic)
            yield metrics.LAG_SECONDS.of(if_known(topic.age_seconds), topic.topic)
            yield metrics.RPO_BUDGET_SECONDS.of(flow.tier_of(topic.topic).rpo_seconds, topic.topic)


def _gaps(report: FlowReport) -> Iterator[Sample]:
    totals: Counter[tuple[str, str, str]] = Counter()
    for gap in report.gaps:
        passed = "passed" if gap.copied_past else "stopped"
        state = passed if gap.state is GapState.OPEN else gap.state.value
        totals[gap.topic, gap.cause.value, state] += gap.records
    yield from (metrics.GAP_RECORDS.of(records, *labels) for labels, records in totals.items())


def _drill(ledger: Ledger) -> Iterator[Sample]:
    last = last_proof(ledger.drills)
    if last is not None:
        yield metrics.DRILL_PASSED.of(float(last.state is DrillState.PASSED))
        yield metrics.DRILL_TIMESTAMP_SECONDS.of(last.at_ms / 1000)
        yield metrics.DRILL_RTO_SECONDS.of(last.rto_seconds)
        yield metrics.DRILL_RPO_SECONDS.of(last.rpo_seconds)


def _longest(undecided: Iterable[UndecidedPartition]) -> float | None:
    ages = [partition.seconds for partition in undecided]
    known = [age for age in ages if age is not None]
    return max(known, default=None if ages else 0.0)


def of_observed(facts: FlowFacts) -> Iterator[Sample]:
    """Tell what is wrong in observed copies; of a kind that was not found, nothing before all of it was looked at."""
    for topic in facts.judged:
        for kind, found in found_in(facts, topic).items():
            yield metrics.OBSERVED_RECORDS.of(found.shown, topic.topic, kind)


def of_audits(facts: FlowFacts) -> Iterator[Sample]:
    """Tell how much of each topic's copy is proved equal, by the ledger and the offset map."""
    covered = by_topic(coverage_of(facts))
    for topic in sorted(
        covered.keys() & {topic_facts.topic for topic_facts in facts.topics if topic_facts.copy_partitions}
    ):
        found = total(covered[topic])
        percent = found.percent
        yield metrics.AUDIT_COVERAGE_RATIO.of(None if percent is None else percent / 100, topic)
        yield metrics.AUDIT_AGE_SECONDS.of(found.age_seconds(facts.at_ms) if found.compared else None, topic)
        yield metrics.AUDIT_DIFFERENCES.of(found.differences if found.compared else None, topic)


def of_checks(checks: Iterable[CheckResult]) -> Iterator[Sample]:
    """Count the checks that failed; a severity without any is 0."""
    counts = {"critical": 0, "warning": 0}
    for check in checks:
        counts[check.severity.value] += not check.passed
    yield from (metrics.FAILED_CHECKS.of(count, severity) for severity, count in counts.items())


def of_groups(groups: int, states: Mapping[str, int], latency_ms: float | None = None) -> Iterator[Sample]:
    """Tell how many groups are followed, and how many of their positions are in each of the `states`."""
    yield metrics.GROUPS.of(groups)
    yield metrics.CHECKPOINT_LATENCY_MS.of(latency_ms)
    yield from (metrics.GROUP_POSITIONS.of(count, state) for state, count in states.items())


def of_duties(failed: Mapping[str, bool]) -> Iterator[Sample]:
    """Tell of each duty that had a turn whether it failed."""
    yield from (metrics.DUTY_FAILED.of(float(it), duty) for duty, it in failed.items())


def of_records(
    copied: Mapping[TopicPartition, int], before: Mapping[TopicPartition, int], seconds: float
) -> Iterator[Sample]:
    """Tell the records that a run has copied, and their rate since it was `before`, so many seconds ago."""
    earlier = _by_topic(before)
    for topic, records in _by_topic(copied).items():
        yield metrics.RECORD_COUNT.of(records, topic)
        yield metrics.RECORD_RATE.of((records - earlier[topic]) / seconds if seconds else None, topic)


def of_bytes(
    copied: Mapping[TopicPartition, int], before: Mapping[TopicPartition, int], seconds: float
) -> Iterator[Sample]:
    """Tell the bytes that a run has copied, and their rate since it was `before`, so many seconds ago."""
    yield from (metrics.BYTE_COUNT.of(count, topic) for topic, count in _by_topic(copied).items())
    gained = sum(copied.values()) - sum(before.values())
    yield metrics.BYTE_RATE.of(gained / seconds if seconds else None)


def of_lanes(
    commits: int, retries: int, throttled_ms: int, lanes: Mapping[int, LaneCounts]
) -> Iterator[Sample]:
    """Tell what lanes did that have ended, with those that are open, and how far each of the latter is."""
    told = lanes.values()
    yield metrics.TRANSACTIONS.of(commits + sum(it.commits for it in told))
    yield metrics.TRANSACTION_RETRIES.of(retries + sum(it.retries for it in told))
    yield metrics.THROTTLED_SECONDS.of((throttled_ms + sum(it.throttled_ms for it in told)) / 1000)
    for lane, it in lanes.items():
        yield metrics.LANE_COMMIT_TIMESTAMP_SECONDS.of(it.at_ms / 1000, str(lane))
        yield metrics.LANE_BEHIND_RECORDS.of(it.behind_if_known, str(lane))


def of_latency(latency_ms: Mapping[TopicPartition, int]) -> Iterator[Sample]:
    """Tell how old the newest record was when it was on the target, by the slowest partition of each topic."""
    slowest: dict[str, int] = {}
    for it, latency in latency_ms.items():
        slowest[it.topic] = max(latency, slowest.get(it.topic, latency))
    yield from (metrics.REPLICATION_LATENCY_MS.of(latency, topic) for topic, latency in slowest.items())


def _by_topic(counts: Mapping[TopicPartition, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for it, count in counts.items():
        found[it.topic] += count
    return found
