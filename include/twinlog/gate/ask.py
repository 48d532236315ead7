"""The readiness gate: check everything that matters before a failover, and answer ready or not.  Changes nothing.

Planned failover: the gate watches the source for a while, then asks both clusters.  Source dead: the gate asks the
target alone, and gives the age of what the target knows of the source.  A fact that cannot be had counts as not ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twinlog.checks.check import CheckResult, Row, Suite
from twinlog.checks.coverage import PartitionCoverage, total
from twinlog.checks.evaluate import with_lines
from twinlog.checks.great_expectations import Validated, validate_plainly
from twinlog.checks.risk import TopicAtRisk
from twinlog.clock import seconds_since
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable, TransientError, TwinlogError
from twinlog.fact import NOT_ASKED, Unknown
from twinlog.facts.copies import coverage_of, read_disks
from twinlog.facts.flow import FlowFacts
from twinlog.facts.observe import observe
from twinlog.facts.recall import recall, source_answers
from twinlog.gate import answer
from twinlog.gate import metadata as gate_metadata
from twinlog.gate.at_source import Moving, fly, moving_topics
from twinlog.gate.groups import GroupFacts, read_both, read_target
from twinlog.gate.metadata import differing_schemas
from twinlog.gate.suites.flow_checks import FENCED, SCHEMAS, STATE_WRITERS
from twinlog.gate.suites.suites import Fact, Mode, raised, refuse_unknown, suites
from twinlog.groups.view import GroupPositions, read_positions
from twinlog.judge.at_risk import topics_at_risk
from twinlog.judge.rows import (
    Asked,
    Names,
    audited_rows,
    flow_row,
    holders_named,
    nothing_blocked,
    partition_rows,
)
from twinlog.state.ledger import read_ledger
from twinlog.topics.snapshot import FlowSnapshot

Validator = Callable[[Suite, Sequence[Row]], Validated]


@dataclass(frozen=True, slots=True)
class GateRequest:
    """Tell what is asked: the mode, whether producers still write, and whether to send a canary.

    While producers still write, the gate checks only what can hold meanwhile.
    """

    mode: Mode
    still_writing: bool = False
    canary: bool = False


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """The gate's answer, and the results of Great Expectations from which its pages are made, if it was asked."""

    result: answer.GateResult
    validated: tuple[Validated, ...] = ()


@dataclass(frozen=True, slots=True)
class _Judged:
    """Tell what was found out, before what was accepted is applied."""

    results: tuple[CheckResult, ...]
    facts: FlowFacts
    covered: tuple[PartitionCoverage, ...]
    validated: tuple[Validated, ...] = ()
    topics: tuple[TopicAtRisk, ...] = ()
    groups: GroupFacts = field(default_factory=lambda: GroupFacts((), ()))
    rehearsed: tuple[answer.Timing, ...] = ()


def run(
    flow: FlowSettings,
    clusters: Clusters,
    request: GateRequest,
    *,
    by: Validator = validate_plainly,
    sleep: Callable[[float], None] = time.sleep,
    seen: Observed | None = None,
) -> GateAnswer:
    """Ask both clusters and answer.

    `by` judges: at once, or as Great Expectations where Data Docs are wanted; the verdicts are the same.  `seen` is
    what was read of both clusters just now, if it was.

    Raises ClusterUnreachable if the target cannot be reached, ClusterRefused, and ConfigError if
    `twinlog.gate.blocking` names an unknown check.  A source that does not answer is no error: it makes the answer
    "not ready".
    """
    refuse_unknown(flow.gate.blocking, f"{flow.name}: twinlog.gate.blocking")
    target_id = clusters.target.cluster_id()
    if request.mode is Mode.SOURCE_DEAD:
        judged = _without_source(flow, clusters, by)
    else:
        judged = _with_source(flow, clusters, request, by, sleep, seen)
    return _answer(flow, request, judged, target_id)


def _answer(flow: FlowSettings, request: GateRequest, judged: _Judged, target_id: str) -> GateAnswer:
    facts, report = judged.facts, judged.facts.ledger.last_report
    ages = {
        Fact.NOW: 0.0,
        Fact.CYCLE: seconds_since(None if report is None else report.at_ms, facts.at_ms),
        Fact.AUDIT: total(judged.covered).age_seconds(facts.at_ms),
        Fact.CHECKPOINT: seconds_since(judged.groups.checkpoint_ms, facts.at_ms),
    }
    checks = answer.weigh(judged.results, facts.ledger.accepted, ages, facts.at_ms)
    result = answer.GateResult(
        flow=flow.name,
        mode=request.mode,
        ready=answer.is_ready(checks),
        at_ms=facts.at_ms,
        still_writing=request.still_writing,
        checks=checks,
        waivers=tuple(
            answer.waived_by(it, facts.at_ms) for it in facts.ledger.accepted if it.first_offset is None
        ),
        topics=judged.topics,
        groups=judged.groups.at_risk,
        coverage=answer.coverage_by_topic(judged.covered, facts.at_ms),
        gaps=facts.gaps,
        rehearsed=judged.rehearsed,
        state_age_seconds=ages[Fact.CYCLE],
        source_cluster_id=facts.source_cluster_id,
        target_cluster_id=target_id,
        undecided_records=sum(it.undecided or 0 for it in judged.topics),
    )
    return GateAnswer(result, tuple(it for it in judged.validated if it.outcome is not None))


def _with_source(
    flow: FlowSettings,
    clusters: Clusters,
    request: GateRequest,
    by: Validator,
    sleep: Callable[[float], None],
    seen: Observed | None,
) -> _Judged:
    asked = suites(request.mode, still_writing=request.still_writing, canary=request.canary)
    try:
        seconds = fly(flow, clusters, sleep=sleep) if request.canary else None
        watch = answer.Stopwatch()
        moving = Moving({}, {})
        if not request.still_writing:
            copied = read_ledger(flow, clusters.target).incarnations
            moving = moving_topics(flow, clusters.source, copied, sleep=sleep)
        watch.lap("watch the ends of the source")
        seen = seen or see(FlowSnapshot(flow, clusters))
        snapshot, facts = seen.snapshot, seen.facts
        watch.lap("read the state of both clusters")
        groups = read_both(snapshot, seen.positions, facts)
        watch.lap("translate the positions of all groups")
        schemas = differing_schemas(flow, clusters, snapshot.discovery)
        metadata = gate_metadata.read(flow, clusters, facts.ledger)
        others = gate_metadata.other_writers(flow, clusters.target)
        watch.lap("plan rights, users, quotas and configs")
    except (ClusterUnreachable, TransientError) as error:
        if error.data.get("cluster") != flow.source.alias:
            raise
        return _source_is_gone(flow, clusters, asked, error)
    beside = Asked(
        True,
        read_disks(clusters.target).free_percent,
        others,
        NOT_ASKED if request.still_writing else moving.topics,
        seconds,
        schemas,
        metadata,
    )
    judged = _judged(flow, facts, asked, by, beside, groups, still_writing=request.still_writing)
    results = with_lines(judged.results, {FENCED.name}, moving.reasons, "topics")
    return replace(judged, results=(nothing_blocked(facts), *results), rehearsed=watch.laps)


def _source_is_gone(
    flow: FlowSettings, clusters: Clusters, asked: Iterable[Suite], error: TwinlogError
) -> _Judged:
    """Fail every check: a planned failover cannot be judged from one cluster."""
    checks = [check for suite in raised(asked, flow.gate.blocking) for check in suite.checks]
    why = f"{flow.source.alias} does not answer ({error.message}); if it is lost, ask with --mode source-dead"
    results = answer.not_checked([(it.name, it.severity, it.expected) for it in checks], why)
    facts = recall(FlowSnapshot(flow, clusters))
    return _Judged(results, facts, coverage_of(facts))


def _without_source(flow: FlowSettings, clusters: Clusters, by: Validator) -> _Judged:
    watch = answer.Stopwatch()
    answers = source_answers(clusters.source)
    watch.lap("find the source silent")
    facts = recall(FlowSnapshot(flow, clusters))
    watch.lap("read the state on the target")
    groups = read_target(flow, clusters.target, facts)
    watch.lap("read the positions of all groups")
    others = gate_metadata.other_writers(flow, clusters.target)
    beside = Asked(answers, read_disks(clusters.target).free_percent, others)
    judged = _judged(flow, facts, suites(Mode.SOURCE_DEAD), by, beside, groups)
    return replace(judged, rehearsed=watch.laps)


def _judged(
    flow: FlowSettings,
    facts: FlowFacts,
    asked: Iterable[Suite],
    by: Validator,
    beside: Asked,
    groups: GroupFacts,
    *,
    still_writing: bool = False,
) -> _Judged:
    """Let every suite judge its rows."""
    covered = coverage_of(facts)
    rows: Mapping[str, Sequence[Row]] = {
        "flow": ({**flow_row(flow, facts), **beside.columns},),
        "topics": audited_rows(flow, facts, covered, still_writing=still_writing),
        "partitions": partition_rows(flow, facts),
        "groups": groups.rows,
    }
    validated = tuple(by(suite, rows[suite.name]) for suite in raised(asked, flow.gate.blocking))
    results = holders_named((result for one in validated for result in one.results), facts)
    results = with_lines(results, {SCHEMAS.name}, _named(beside.schemas), "schemas")
    results = with_lines(results, {STATE_WRITERS.name}, _named(beside.state_writers), "principals")
    topics = topics_at_risk(flow, facts, _named(beside.moving))
    return _Judged(results, facts, covered, validated, topics, groups)


@dataclass(frozen=True, slots=True)
class Observed:
    """Hold what was read of both clusters; positions of groups come first, lest one is ahead of what was copied."""

    positions: GroupPositions
    snapshot: FlowSnapshot
    facts: FlowFacts


def see(snapshot: FlowSnapshot) -> Observed:
    """Read groups and facts, by a snapshot of which only the state on the target may have been read.

    Raises ClusterUnreachable and ClusterRefused.
    """
    positions = read_positions(snapshot.flow, snapshot.clusters)
    return Observed(positions, snapshot, observe(snapshot))


def _named(names: Names) -> Sequence[str]:
    return () if names is None or isinstance(names, Unknown) else tuple(names)
