"""The readiness gate: check everything that matters before a failover, and answer ready or not.  Changes nothing.

Planned failover: the gate watches the source for a while, then asks both clusters.  Source dead: the gate asks the
target alone, and gives the age of what the target knows of the source.  A fact that cannot be had counts as not ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from twinlog.audit.coverage import total
from twinlog.clock import seconds_since
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable, TransientError
from twinlog.fact import NOT_ASKED, known
from twinlog.facts.copies import coverage_of, read_disks
from twinlog.facts.flow import FlowFacts
from twinlog.facts.observe import observe
from twinlog.facts.recall import recall
from twinlog.gate import answer, metadata
from twinlog.gate.at_source import Moving, fly, moving_topics
from twinlog.gate.groups import GroupFacts, read_both, read_target, recalled
from twinlog.groups.plan import Decided
from twinlog.groups.view import GroupPositions, GroupView, look, read_positions
from twinlog.judge.at_risk import topics_at_risk
from twinlog.judge.check import CheckResult, Judged, Mode, Seen, Use, Validator, judge
from twinlog.judge.rows import Asked, found_in, named, rows_of
from twinlog.judge.table import asked, refuse_unknown
from twinlog.metadata.read import Sides, read_sides
from twinlog.metadata.subjects import subjects_of
from twinlog.observe.observed_copy import observed_copy
from twinlog.once import read_once
from twinlog.state.ledger import read_ledger
from twinlog.topics.snapshot import FlowSnapshot

SILENT_SECONDS = 5.0
"""For how long no broker of the source may answer until it counts as silent."""


@dataclass(frozen=True, slots=True)
class GateRequest:
    """Tell what is asked: the mode, whether producers still write, and whether to send a canary.

    While producers still write, the gate checks only what can hold meanwhile.
    """

    mode: Mode
    still_writing: bool = False
    canary: bool = False

    @property
    def use(self) -> Use:
        """Return for what the checks are asked."""
        return Use.STILL_WRITING if self.still_writing and self.mode is Mode.PLANNED else Use(self.mode)


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """The gate's answer, of which facts, and what Great Expectations made of them for its pages, if it was asked."""

    result: answer.GateResult
    facts: FlowFacts
    validated: tuple[Judged, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """Tell what was read, and how long each part took; `gone` says that the source does not answer, and why."""

    facts: FlowFacts
    beside: Asked
    groups: GroupFacts = field(default_factory=lambda: GroupFacts((), ()))
    rehearsed: tuple[answer.Timing, ...] = ()
    gone: str = ""


def run(
    flow: FlowSettings,
    clusters: Clusters,
    request: GateRequest,
    *,
    by: Validator = judge,
    sleep: Callable[[float], None] = time.sleep,
    seen: GateFacts | None = None,
    watched: Moving | None = None,
) -> GateAnswer:
    """Ask both clusters and answer.

    `by` judges: at once, or as Great Expectations where Data Docs are wanted; the verdicts are the same.  `seen` is
    what was read just now, if it was, `watched` what a fence has seen of the source (`moving_topics`).

    Raises ClusterUnreachable if the target cannot be reached, ClusterRefused, and ConfigError if
    `twinlog.gate.blocking` names an unknown check.  A source that does not answer is no error: it makes the answer
    "not ready".
    """
    refuse_unknown(flow.gate.blocking, f"{flow.name}: twinlog.gate.blocking")
    target_id = clusters.target.cluster_id()
    if request.mode is Mode.SOURCE_DEAD:
        return _answer(flow, request, _without_source(flow, clusters, seen), by, target_id)
    try:
        found = _with_source(flow, clusters, request, sleep, seen, watched)
    except (ClusterUnreachable, TransientError) as error:
        if error.cluster != flow.source.alias:
            raise
        why = f"{flow.source.alias} does not answer ({error.message}); if it is lost, ask in mode source-dead"
        found = _Found(recall(FlowSnapshot(flow, clusters)), Asked(False), gone=why)
    return _answer(flow, request, found, by, target_id)


def _with_source(
    flow: FlowSettings,
    clusters: Clusters,
    request: GateRequest,
    sleep: Callable[[float], None],
    seen: GateFacts | None,
    watched: Moving | None,
) -> _Found:
    arrived = known(fly(flow, clusters, sleep), "it did not arrive") if request.canary else None
    watch = answer.Stopwatch()
    moving = Moving({}, {})
    if not request.still_writing:
        copied = read_ledger(flow, clusters.target).incarnations
        moving = moving_topics(flow, clusters.source, copied, sleep=sleep, watched=watched)
    watch.lap("watch the ends of the source")
    read = seen or see(FlowSnapshot(flow, clusters))
    facts = read.facts
    watch.lap("read the state of both clusters")
    groups = read_both(read.snapshot, read.groups, facts)
    watch.lap("translate the positions of all groups")
    schemas = metadata.differing_schemas(flow, clusters, read.snapshot.discovery)
    pending = metadata.read(flow, facts.ledger, read.both)
    others = metadata.other_writers(flow, clusters.target)
    watch.lap("plan rights, quotas and configs")
    beside = Asked(
        True,
        read_disks(clusters.target).free_percent,
        others,
        NOT_ASKED if request.still_writing else moving.topics,
        moving.reasons,
        arrived,
        schemas,
        pending,
    )
    return _Found(facts, beside, groups, watch.laps)


def _without_source(flow: FlowSettings, clusters: Clusters, seen: GateFacts | None) -> _Found:
    """Read the target, while the source, which may be silent for seconds, is asked whether it answers."""
    watch = answer.Stopwatch()
    with ThreadPoolExecutor(1) as aside:
        answers = aside.submit(clusters.source.answers, SILENT_SECONDS)
        seen = seen or see_target(FlowSnapshot(flow, clusters))
        facts = seen.facts
        watch.lap("read the state on the target")
        groups = read_target(flow, seen.recalled, facts)
        watch.lap("read the positions of all groups")
        others, free = metadata.other_writers(flow, clusters.target), read_disks(clusters.target).free_percent
    watch.lap("find the source silent")
    return _Found(facts, Asked(answers.result(), free, others), groups, watch.laps)


def _answer(
    flow: FlowSettings, request: GateRequest, found: _Found, by: Validator, target_id: str
) -> GateAnswer:
    """Let every suite judge its rows, and weigh the results against what was accepted.

    If the source is gone, every check fails: a planned failover cannot be judged from one cluster.
    """
    facts, report = found.facts, found.facts.ledger.last_report
    covered, suites = coverage_of(facts), asked(request.use, flow.gate.blocking, observed=flow.observed)
    if found.gone:
        message = f"not checked: {found.gone}"
        judged = tuple(
            Judged(
                suite,
                0,
                tuple(
                    CheckResult(check.name, check.severity, False, "not checked", check.expected, message)
                    for check in suite.checks
                ),
            )
            for suite in suites
        )
    else:
        rows = rows_of(flow, facts, request.use, covered, beside=found.beside, groups=found.groups.rows)
        judged = tuple(by(suite, rows[suite.name]) for suite in suites)
    ages = {
        Seen.NOW: 0.0,
        Seen.CYCLE: seconds_since(None if report is None else report.at_ms, facts.at_ms),
        Seen.AUDIT: total(covered).age_seconds(facts.at_ms),
        Seen.CHECKPOINT: seconds_since(found.groups.checkpoint_ms, facts.at_ms),
    }
    results = [result for one in judged for result in one.results]
    checks = answer.weigh(results, facts.ledger.accepted, ages, facts.at_ms)
    topics = () if found.gone else topics_at_risk(flow, facts, named(found.beside.moving))
    result = answer.GateResult(
        flow=flow.name,
        mode=request.mode,
        ready=answer.is_ready(checks),
        at_ms=facts.at_ms,
        still_writing=request.still_writing,
        checks=checks,
        waivers=tuple(
            answer.waived_by(accepted, facts.at_ms)
            for accepted in facts.ledger.accepted
            if accepted.first_offset is None
        ),
        topics=topics,
        groups=found.groups.at_risk,
        coverage=answer.coverage_by_topic(covered, facts.at_ms),
        gaps=facts.gaps,
        rehearsed=found.rehearsed,
        state_age_seconds=ages[Seen.CYCLE],
        source_cluster_id=facts.source_cluster_id,
        target_cluster_id=target_id,
        undecided_records=sum(topic.undecided or 0 for topic in topics),
        observed=observed_copy(
            flow,
            facts.ledger,
            found.groups.engine,
            tuple(topic.topic for topic in facts.topics if topic.copy is None and not topic.left_out),
            {topic.topic: found_in(facts, topic) for topic in facts.judged},
        ),
    )
    return GateAnswer(result, facts, tuple(it for it in judged if it.outcome is not None))


@dataclass(frozen=True)
class GateFacts:
    """Hold what was read of a flow: of both clusters, or, without `positions`, of the target alone."""

    snapshot: FlowSnapshot
    facts: FlowFacts
    positions: GroupPositions | None = None

    @read_once
    def groups(self) -> GroupView:
        """The groups of both clusters."""
        assert self.positions is not None
        return look(self.snapshot, self.positions)

    @read_once
    def _both(self) -> Sides:
        return read_sides(self.snapshot.flow, self.snapshot.clusters, self.facts.ledger)

    def both(self, flow: FlowSettings) -> Sides:
        """Return what both clusters have of the rights, quotas and configs that the flow brings over in its profile."""
        if subjects_of(flow) == subjects_of(self.snapshot.flow):
            return self._both
        return read_sides(flow, self.snapshot.clusters, self.facts.ledger)

    @read_once
    def recalled(self) -> tuple[Decided, ...]:
        """Where every group would start, by the target alone."""
        snapshot, facts = self.snapshot, self.facts
        return recalled(snapshot.flow, snapshot.clusters.target, facts.ledger, facts.progress, facts.maps)


def see(snapshot: FlowSnapshot) -> GateFacts:
    """Read groups and facts, by a snapshot of which only the state on the target may have been read.

    Positions of groups come first, lest one is ahead of what was copied.  Raises ClusterUnreachable and ClusterRefused.
    """
    positions = read_positions(snapshot.flow, snapshot.clusters)
    return GateFacts(snapshot, observe(snapshot), positions)


def see_target(snapshot: FlowSnapshot) -> GateFacts:
    """Read what the target knows of a flow whose source is lost.  Raises errors of the target."""
    return GateFacts(snapshot, recall(snapshot))
