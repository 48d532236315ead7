"""The readiness gate: check everything that matters before a failover, and answer ready or not.  Changes nothing.

Planned failover: the gate watches the source for a while, then asks both clusters.  Source dead: the gate asks the
target alone, and gives the age of what the target knows of the source.  A fact that cannot be had counts as not ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from twinlog import clock
from twinlog.checks.check import CheckResult, Row, Suite
from twinlog.checks.coverage import coverage, total
from twinlog.checks.evaluate import with_lines
from twinlog.checks.great_expectations import Validated, validate_plainly
from twinlog.checks.risk import TopicAtRisk
from twinlog.clock import seconds_since
from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable, TransientError, TwinlogError
from twinlog.fact import Unknown
from twinlog.gate import answer
from twinlog.gate import facts as gate_facts
from twinlog.gate import groups as gate_groups
from twinlog.gate import metadata as gate_metadata
from twinlog.gate.at_source import Moving, fly, moving_topics
from twinlog.gate.facts import FlowFacts, StandbyState
from twinlog.gate.metadata import differing_schemas
from twinlog.gate.suites.flow_checks import FENCED, SCHEMAS, STATE_WRITERS
from twinlog.gate.suites.suites import Fact, Mode, raised, refuse_unknown, suites
from twinlog.groups.view import read_positions
from twinlog.kafka_types import TopicPartition
from twinlog.monitoring import validate
from twinlog.monitoring.at_risk import drift_by_topic, known_at_risk, read_disks, topics_at_risk
from twinlog.monitoring.heartbeats import copied_heartbeats, newest_copied, own_heartbeats
from twinlog.monitoring.open_at_source import named, named_then, undecided_partitions
from twinlog.monitoring.survey import Survey, read_gaps, survey
from twinlog.monitoring.validate import TopicFacts, nothing_blocked
from twinlog.state.ledger import read_ledger, require_own
from twinlog.topics.snapshot import FlowSnapshot, all_partitions

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
    """Tell what was found out, before waivers are applied."""

    results: tuple[CheckResult, ...]
    state: StandbyState
    validated: tuple[Validated, ...] = ()
    topics: tuple[TopicAtRisk, ...] = ()
    groups: tuple[answer.GroupAtRisk, ...] = ()
    source_cluster_id: str = ""
    checkpoint_ms: int | None = None
    rehearsed: tuple[answer.Timing, ...] = ()


def run(
    flow: FlowSettings,
    clusters: Clusters,
    request: GateRequest,
    *,
    by: Validator = validate_plainly,
    sleep: Callable[[float], None] = time.sleep,
) -> GateAnswer:
    """Ask both clusters and answer.

    `by` judges: at once, or as Great Expectations where Data Docs are wanted; the verdicts are the same.

    Raises ClusterUnreachable if the target cannot be reached, ClusterRefused, and ConfigError if
    `twinlog.gate.blocking` names an unknown check.  A source that does not answer is no error: it makes the answer
    "not ready".
    """
    refuse_unknown(flow.gate.blocking, f"{flow.name}: twinlog.gate.blocking")
    target_id = clusters.target.cluster_id()
    if request.mode is Mode.SOURCE_DEAD:
        judged = _without_source(flow, clusters, by)
    else:
        judged = _with_source(flow, clusters, request, by, sleep)
    return _answer(flow, request, judged, target_id)


def _answer(flow: FlowSettings, request: GateRequest, judged: _Judged, target_id: str) -> GateAnswer:
    state = judged.state
    ages = {
        Fact.NOW: 0.0,
        Fact.CYCLE: gate_facts.state_age(state),
        Fact.AUDIT: total(state.coverage).age_seconds(state.at_ms),
        Fact.CHECKPOINT: seconds_since(judged.checkpoint_ms, state.at_ms),
    }
    checks = answer.weigh(judged.results, state.ledger.waivers, ages, state.at_ms)
    result = answer.GateResult(
        flow=flow.name,
        mode=request.mode,
        ready=answer.is_ready(checks),
        at_ms=state.at_ms,
        still_writing=request.still_writing,
        checks=checks,
        waivers=tuple(answer.waived_by(it, state.at_ms) for it in state.ledger.waivers),
        topics=judged.topics,
        groups=judged.groups,
        coverage=gate_facts.coverage_by_topic(state),
        gaps=state.gaps,
        rehearsed=judged.rehearsed,
        state_age_seconds=ages[Fact.CYCLE],
        source_cluster_id=judged.source_cluster_id,
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
        heartbeat_ms = newest_copied(flow, clusters.target, clock.now_ms())
        positions = read_positions(flow, clusters)
        snapshot = FlowSnapshot(flow, clusters)
        seen = survey(snapshot)
        facts = validate.read_topic_facts(snapshot, seen.discovery.topics)
        names = [topic.topic for topic in seen.discovery.topics]
        heartbeat_topics = own_heartbeats(flow, clusters.source, names)
        state = read_target(snapshot, seen, facts)
        watch.lap("read the state of both clusters")
        groups = gate_groups.read_both(snapshot, positions, state)
        watch.lap("translate the positions of all groups")
        disks = read_disks(clusters.source)
        schemas = differing_schemas(flow, clusters, seen.discovery)
        metadata = gate_metadata.read(snapshot)
        others = gate_metadata.other_writers(flow, clusters.target)
        watch.lap("plan rights, users, quotas and configs")
    except (ClusterUnreachable, TransientError) as error:
        if error.data.get("cluster") != flow.source.alias:
            raise
        return _source_is_gone(flow, clusters, asked, error)
    known = FlowFacts(
        source_answers=True,
        topics=len(set(names) - heartbeat_topics),
        moving=None if request.still_writing else moving.topics,
        heartbeat_ms=heartbeat_ms,
        canary_seconds=seconds,
        metadata=metadata,
        state_writers=len(others) if isinstance(others, tuple) else others,
        schemas_differing=None if schemas is None else len(schemas),
    )
    topic_rows = gate_facts.topic_rows(
        flow, seen, facts, state, heartbeat_topics, still_writing=request.still_writing
    )
    validated = _validate(
        flow,
        asked,
        by,
        {
            "flow": (gate_facts.flow_row(flow, state, known),),
            "topics": topic_rows,
            "partitions": gate_facts.partition_rows(flow, state.ledger, seen, heartbeat_topics),
            "groups": groups.rows,
        },
    )
    judged = named(_results(validated), undecided_partitions(flow, seen.rows, seen.holders, seen.at_ms))
    judged = with_lines(judged, {FENCED.name}, moving.reasons, "topics")
    judged = with_lines(judged, {SCHEMAS.name}, schemas or (), "schemas")
    judged = with_lines(judged, {STATE_WRITERS.name}, _named(others), "principals")
    return _Judged(
        results=(nothing_blocked(seen.discovery), *judged),
        state=state,
        validated=validated,
        topics=topics_at_risk(flow, seen, disks, drift_by_topic(topic_rows), moving.topics),
        groups=groups.at_risk,
        source_cluster_id=seen.discovery.source_cluster_id,
        checkpoint_ms=groups.checkpoint_ms,
        rehearsed=watch.laps,
    )


def _source_is_gone(
    flow: FlowSettings, clusters: Clusters, asked: Iterable[Suite], error: TwinlogError
) -> _Judged:
    """Fail every check: a planned failover cannot be judged from one cluster."""
    checks = [check for suite in raised(asked, flow.gate.blocking) for check in suite.checks]
    why = f"{flow.source.alias} does not answer ({error.message}); if it is lost, ask with --mode source-dead"
    results = answer.not_checked([(it.name, it.severity, it.expected) for it in checks], why)
    return _Judged(results, read_target(FlowSnapshot(flow, clusters)))


def _without_source(flow: FlowSettings, clusters: Clusters, by: Validator) -> _Judged:
    watch = answer.Stopwatch()
    answers = source_answers(clusters.source)
    watch.lap("find the source silent")
    state = read_target(FlowSnapshot(flow, clusters))
    topics = gate_facts.known_topics(flow, state.ledger, state.progress)
    watch.lap("read the state on the target")
    groups = gate_groups.read_target(flow, clusters.target, state)
    watch.lap("read the positions of all groups")
    known, heartbeat_topics = state.ledger.known_source, copied_heartbeats(flow, clusters.target, topics)
    others = gate_metadata.other_writers(flow, clusters.target)
    alone = FlowFacts(
        answers,
        len(set(topics) - heartbeat_topics),
        state_writers=len(others) if isinstance(others, tuple) else others,
    )
    validated = _validate(
        flow,
        suites(Mode.SOURCE_DEAD),
        by,
        {
            "flow": (gate_facts.flow_row(flow, state, alone),),
            "topics": gate_facts.known_topic_rows(
                flow,
                topics,
                state,
                clusters.target.broker_count(),
                heartbeat_topics,
            ),
            "partitions": gate_facts.known_partition_rows(flow, topics, state),
            "groups": groups.rows,
        },
    )
    judged = with_lines(
        named_then(_results(validated), known),
        {STATE_WRITERS.name},
        _named(others),
        "principals",
    )
    return _Judged(
        results=judged,
        state=state,
        validated=validated,
        topics=known_at_risk(flow, known),
        groups=groups.at_risk,
        checkpoint_ms=groups.checkpoint_ms,
        rehearsed=watch.laps,
    )


def read_target(
    snapshot: FlowSnapshot, seen: Survey | None = None, facts: TopicFacts | None = None
) -> StandbyState:
    """Add to the snapshot's state all that the target tells of the copies that the ledger knows.

    `seen` and `facts` are what both clusters told; without them the source is not asked for anything.  Raises
    ClusterUnreachable, ClusterRefused, FormatError, and TerminalError if the state belongs to another flow.  If the
    map of a partition cannot be read, nothing of that partition counts as proved.
    """
    flow, target, ledger = snapshot.flow, snapshot.clusters.target, snapshot.read_state().ledger
    require_own(flow, ledger, "", target.cluster_id())
    remote = {it.topic: it.remote_topic for it in ledger.incarnations.values()}
    known = facts.target if facts is not None else {}
    more = target.describe_topics(sorted({*remote.values()} - set(known)))
    sides = {**known, **validate.with_configs(target, more.found)}
    hidden = Unknown("the copy cannot be described")
    ids = {topic: sides[name].description.topic_id for topic, name in remote.items() if name in sides}
    offsets = target.offsets(all_partitions(more.found.values())).found
    if seen is not None:
        offsets = {**snapshot.target.offsets.found, **offsets}
    topics = {name: topic for topic, name in remote.items()}
    starts = {
        TopicPartition(topics[at.topic], at.partition): it.log_start
        for at, it in offsets.items()
        if at.topic in topics
    }
    now_ms = clock.now_ms()
    return StandbyState(
        ledger=ledger,
        progress=snapshot.progress,
        maps=snapshot.maps,
        coverage=coverage(ledger, snapshot.maps, ids, starts),
        sides={**dict.fromkeys(more.refused.keys() - more.absent, hidden), **sides},
        offsets=offsets,
        disks=read_disks(target),
        at_ms=seen.at_ms if seen is not None else now_ms,
        gaps=seen.gaps if seen is not None else read_gaps(flow, target, ledger, now_ms),
    )


def source_answers(source: ClusterReader) -> bool:
    """Say whether the source answers at all; a refusal is an answer."""
    try:
        source.cluster_id()
    except TransientError:
        return False
    except TwinlogError:
        return True
    return True


def _validate(
    flow: FlowSettings, asked: Iterable[Suite], by: Validator, rows: Mapping[str, Sequence[Row]]
) -> tuple[Validated, ...]:
    return tuple(by(suite, rows[suite.name]) for suite in raised(asked, flow.gate.blocking))


def _named(others: tuple[str, ...] | Unknown | None) -> tuple[str, ...]:
    return others if isinstance(others, tuple) else ()


def _results(validated: Iterable[Validated]) -> tuple[CheckResult, ...]:
    return tuple(result for one in validated for result in one.results)
