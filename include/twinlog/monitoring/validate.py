"""Step `validate`: judge every partition and topic of the flow after a cycle.  Changes nothing.

`run` judges in plain Python, which is cheap enough for every cycle.  If the cycle copied something or a check failed,
the Dag lets Great Expectations judge the same facts by the same suites (`judge_with_pages`), and keeps its Data Docs.
The gate judges the same facts of topics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from twinlog import clock
from twinlog.checks import evaluate
from twinlog.checks.check import CheckResult, Row, Severity, Suite
from twinlog.checks.cycle_suites import FLOW, PARTITIONS, TOPICS
from twinlog.checks.evaluate import NAMED_IN_MESSAGE
from twinlog.checks.gaps import open_gaps
from twinlog.checks.partitions import PartitionRow, columns_of
from twinlog.checks.topics import Side, TopicSide, topic_columns
from twinlog.clock import seconds_since
from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.cluster.values import TopicDescription
from twinlog.config.flow.settings import FlowSettings
from twinlog.fact import Unknown, known
from twinlog.monitoring.cycle_report import rows_by_topic
from twinlog.monitoring.heartbeats import newest_copied
from twinlog.monitoring.open_at_source import UndecidedPartition, named, undecided_partitions
from twinlog.monitoring.survey import Survey, ages_of, survey
from twinlog.topics.discovery import DiscoveredTopic, Discovery
from twinlog.topics.snapshot import FlowSnapshot
from twinlog.visible import and_more, listed

log = logging.getLogger(__name__)

Judge = Callable[[Suite, Sequence[Row]], tuple[CheckResult, ...]]


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """`success` is false if a check of severity critical failed; warnings are only listed.

    `data_docs` is the page of Great Expectations, "" if it was not asked.
    """

    flow: str
    success: bool
    partitions: int
    checks: tuple[CheckResult, ...]
    data_docs: str = ""

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """Return the checks that did not pass, of either severity."""
        return tuple(check for check in self.checks if not check.passed)


@dataclass(frozen=True, slots=True)
class CycleFacts:
    """The facts by which a cycle is judged: the survey, and rows for each suite."""

    seen: Survey
    rows: tuple[tuple[Suite, tuple[Row, ...]], ...]

    @property
    def discovery(self) -> Discovery:
        """Return the discovery: it names the problems of whole topics."""
        return self.seen.discovery

    @property
    def partitions(self) -> int:
        """Count the judged partitions."""
        return len(self._of(PARTITIONS))

    @property
    def topics(self) -> tuple[Row, ...]:
        """Return the rows of the topics that are not blocked."""
        return self._of(TOPICS)

    @property
    def heartbeat_age_seconds(self) -> float | None:
        """Return the age of the newest copied heartbeat; None if none was copied, or its clock was ahead of ours."""
        age = self._of(FLOW)[0]["heartbeat_age_seconds"]
        return age if isinstance(age, int | float) else None

    def _of(self, wanted: Suite) -> tuple[Row, ...]:
        return next(rows for suite, rows in self.rows if suite is wanted)


def run(flow: FlowSettings, clusters: Clusters) -> ValidationResult:
    """Check counts by the map, progress, lag, parity, ranges, replicas and retention.

    Raises as `see`.  A failed check is an answer, not an error.
    """
    return judge(flow, see(FlowSnapshot(flow, clusters)))


def see(snapshot: FlowSnapshot) -> CycleFacts:
    """Read the facts to judge.

    Raises ClusterUnreachable, ClusterRefused, and FormatError if state cannot be read.
    """
    flow, seen = snapshot.flow, survey(snapshot)
    facts = read_topic_facts(snapshot, (topic for topic in seen.discovery.topics if not topic.blocked))
    heartbeat_ms = newest_copied(flow, snapshot.clusters.target, seen.at_ms)
    return facts_of(flow, seen, facts, heartbeat_ms)


def facts_of(flow: FlowSettings, seen: Survey, facts: TopicFacts, heartbeat_ms: int | None) -> CycleFacts:
    """Make the rows of every suite.  Pure."""
    return CycleFacts(
        seen,
        (
            (PARTITIONS, tuple(columns_of(row) for row in seen.rows)),
            (TOPICS, topic_rows(flow, seen, facts)),
            (FLOW, (flow_row(flow, seen, heartbeat_ms),)),
        ),
    )


def flow_row(flow: FlowSettings, seen: Survey, heartbeat_ms: int | None) -> Row:
    """Make the one row about the flow itself; before its first cycle nothing has written heartbeats.  Pure."""
    first = seen.ledger.last_report is None
    return {
        "flow": flow.name,
        "gaps": len(open_gaps(seen.gaps)),
        "heartbeat_age_seconds": None if first else heartbeat_age(heartbeat_ms, seen.at_ms),
        "heartbeat_age_allowed": flow.gate.heartbeat_age_seconds if flow.heartbeats_replication else None,
    }


def heartbeat_age(heartbeat_ms: int | None, now_ms: int) -> float | Unknown:
    """Return how old the newest copied heartbeat is."""
    if heartbeat_ms is None:
        return Unknown("no heartbeat was copied")
    return known(seconds_since(heartbeat_ms, now_ms), "the newest heartbeat is from the future")


def judge(flow: FlowSettings, facts: CycleFacts, by: Judge = evaluate.judge) -> ValidationResult:
    """Judge the facts; `by` is one of the two evaluators, which agree."""
    checks = [nothing_blocked(facts.discovery)]
    for suite, rows in facts.rows:
        checks += by(suite, rows)
    results = named(checks, _undecided(flow, facts.seen))
    return ValidationResult(flow.name, _success(results), facts.partitions, results)


def judge_with_pages(flow: FlowSettings, facts: CycleFacts, run_id: str) -> ValidationResult:
    """Judge by Great Expectations, and keep its Data Docs in the flow's reports folder.

    If the folder cannot be written to, only the pages are missing, not the verdict.
    """
    from twinlog.checks.data_docs import new_report, write_data_docs
    from twinlog.checks.great_expectations import validate

    validated = [validate(suite, rows) for suite, rows in facts.rows]
    checks = named(
        (nothing_blocked(facts.discovery), *(it for one in validated for it in one.results)),
        _undecided(flow, facts.seen),
    )
    try:
        folder = new_report(flow, "validate", run_id, clock.now_ms())
        page = str(write_data_docs(folder, f"{flow.name}, cycle {run_id}", validated))
    except OSError as error:
        log.warning("Data Docs cannot be written (twinlog.reports.folder): %s", error)
        page = ""
    return ValidationResult(flow.name, _success(checks), facts.partitions, checks, page)


def _undecided(flow: FlowSettings, seen: Survey) -> tuple[UndecidedPartition, ...]:
    return undecided_partitions(flow, seen.rows, seen.holders, seen.at_ms)


def _success(checks: Iterable[CheckResult]) -> bool:
    return all(check.passed for check in checks if check.severity is Severity.CRITICAL)


def nothing_blocked(discovery: Discovery) -> CheckResult:
    """Report which topics are not copied at all, and why."""
    blocking = [problem for problem in discovery.problems if problem.blocking]
    names = sorted({problem.topic for problem in blocking})
    told = [f"{problem.message}; {problem.hint}" for problem in blocking[:NAMED_IN_MESSAGE]]
    message = "; ".join(told) + and_more(len(blocking), NAMED_IN_MESSAGE, "; and {} more")
    return CheckResult(
        name="nothing-blocked",
        severity=Severity.CRITICAL,
        passed=not blocking,
        observed=listed(names) or "as expected",
        expected="no topic of the flow is blocked",
        message=message or f"nothing stands against any of {len(discovery.topics)} topics",
        subjects=tuple(names),
    )


Sides = Mapping[str, TopicSide]


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The flow's topics by their names on each side; a topic that a cluster did not describe is missing."""

    source: Sides
    target: Sides
    target_brokers: int

    def sides(self, topic: DiscoveredTopic) -> tuple[Side, Side]:
        """Return a topic and its copy; a copy that was not made yet is None."""
        no_copy = None if topic.remote is None else Unknown("the copy cannot be described")
        ours = self.source.get(topic.topic, Unknown("the topic cannot be described"))
        return ours, self.target.get(topic.remote_topic, no_copy)


def read_topic_facts(snapshot: FlowSnapshot, topics: Iterable[DiscoveredTopic]) -> TopicFacts:
    """Read the configuration of discovered topics and of their copies, whose layout the snapshot has.

    Raises ClusterUnreachable; of a topic whose configuration a cluster refuses to tell, it is unknown.
    """
    wanted, clusters = tuple(topics), snapshot.clusters
    here, there = snapshot.source.topics.found, snapshot.target.topics.found
    copies = [it.remote_topic for it in wanted if it.remote_topic in there]
    return TopicFacts(
        source=with_configs(clusters.source, {it.topic: here[it.topic] for it in wanted}),
        target=with_configs(clusters.target, {name: there[name] for name in copies}),
        target_brokers=snapshot.target.brokers,
    )


def with_configs(cluster: ClusterReader, described: Mapping[str, TopicDescription]) -> Sides:
    """Add the configuration to topics that one cluster described, as far as it tells it."""
    configs = cluster.topic_configs(described).found
    return {name: TopicSide(it, configs.get(name, {})) for name, it in described.items()}


def topic_rows(flow: FlowSettings, seen: Survey, facts: TopicFacts) -> tuple[Row, ...]:
    """Make one row per topic of the flow that is not blocked.  Pure."""
    by_topic = rows_by_topic(seen.rows)
    return tuple(
        _row(flow, topic, by_topic.get(topic.topic, []), seen.at_ms, facts)
        for topic in seen.discovery.topics
        if not topic.blocked
    )


def _row(
    flow: FlowSettings, topic: DiscoveredTopic, rows: list[PartitionRow], now_ms: int, facts: TopicFacts
) -> Row:
    return {
        **topic_columns(topic.topic, *facts.sides(topic), facts.target_brokers),
        **ages_of(flow, topic, rows, now_ms),
        "rpo_seconds": flow.tier_of(topic.topic).rpo_seconds,
    }
