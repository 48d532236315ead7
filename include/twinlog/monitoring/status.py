"""The present state of a flow, for `twinlog status`.  Changes nothing.

If the source is gone, the last cycle report says what was known, and how long ago.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.clock import iso, seconds_since
from twinlog.cluster.api import Cluster, Clusters
from twinlog.config.flow.settings import CopiedBy, FlowSettings
from twinlog.errors import ClusterRefused
from twinlog.fact import if_known
from twinlog.facts.flow import FlowFacts
from twinlog.facts.gaps import GapReport
from twinlog.facts.heartbeats import UpstreamBeat, upstream_beats
from twinlog.facts.recall import observe_or_recall
from twinlog.facts.topic import TopicFacts
from twinlog.facts.undecided import UndecidedPartition
from twinlog.formats.lane_counts import newest_of_lanes
from twinlog.formats.ledger.gate import RiskSample
from twinlog.formats.ledger.records import FlowPhase
from twinlog.judge.at_risk import TopicAtRisk, of_the_last_day, topics_at_risk
from twinlog.monitoring.alarm import stands_still
from twinlog.monitoring.readiness import Readiness, readiness
from twinlog.monitoring.stopped import StoppedCopy, still_stopped
from twinlog.state.progress import read_lane_counts
from twinlog.state.seats import Member, read_seats, shown
from twinlog.topics.discovery import Orphan, Problem, ProblemCode, waiting_for_a_person
from twinlog.topics.pauses import why_held
from twinlog.topics.snapshot import FlowSnapshot


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition; offsets are upstream, `last_upstream_offset` is -1 if nothing was copied yet.

    `undecided_records` lie behind an open transaction and are not part of the lag.  `unmapped_offsets` were copied,
    but the offset map has lost where to; None if there is no readable map.  `deleted_early` records are gone from the
    copy though the source holds them and the copy's retention does not explain it.
    """

    partition: int
    last_upstream_offset: int
    source_end: int
    lag_records: int
    undecided_records: int = 0
    unmapped_offsets: int | None = None
    deleted_early: int = 0


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """One replicated topic, with its lag in records and in seconds of its oldest record not copied (None: unknown).

    The lag is unknown if a partition could not be looked at; `partitions` are those that could.

    `undecided_records` lie behind open transactions.  They are not in the lag, but they are not on the target either,
    and their age counts.

    `lag_bytes` is an estimate, None if the source does not tell the sizes of its logs.  `rpo_budget_seconds` is the
    limit of its `tier`.  `heartbeats` says that it is MM2's own, and no topic of users.
    """

    topic: str
    remote_topic: str
    lag_records: int | None
    rpo_seconds: float | None
    partitions: tuple[PartitionStatus, ...]
    lag_bytes: int | None = None
    tier: str = ""
    rpo_budget_seconds: int = 0
    undecided_records: int = 0
    heartbeats: bool = False

    @property
    def over_budget(self) -> bool:
        """Say whether its oldest record has waited for longer than its tier allows."""
        return self.rpo_seconds is not None and self.rpo_seconds > self.rpo_budget_seconds


@dataclass(frozen=True, slots=True)
class StoppedTopic:
    """A topic that is not copied because of a problem; its lag is unknown, so it is not among the `topics`.

    `partitions` is None if the source does not describe it.  `person` says that no cycle copies it before a person
    acts.
    """

    topic: str
    remote_topic: str
    partitions: int | None
    code: ProblemCode
    message: str
    hint: str
    person: bool


@dataclass(frozen=True, slots=True)
class IncarnationStatus:
    """One incarnation of a source topic, first seen at `since` (ISO 8601, UTC)."""

    topic: str
    topic_id: str
    since: str


@dataclass(frozen=True, slots=True)
class PauseStatus:
    """A topic that was paused at `since` (ISO 8601, UTC)."""

    topic: str
    since: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """Tell what a lane has committed since the flow was last fenced: as of its last commit, `age_seconds` ago.

    The age is None if the lane's clock is ahead of ours.  `retries` are transactions that the target refused,
    `behind_records` upstream offsets still to be copied, None if not known then.
    """

    lane: int
    age_seconds: float | None
    records: int
    bytes: int
    commits: int
    retries: int
    throttled_seconds: float
    behind_records: int | None


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """One flow at `as_of`.

    `held` says who holds the whole flow and why, "" if it is active.

    `rpo_seconds` is the age of the oldest record not copied, None if unknown.  `lag_records` is None if there
    are `unseen_partitions`, which could not be looked at.  `undecided_records` lie behind open transactions of the
    source; `undecided` are the partitions whose transactions have been open for a while.  If the source is out of
    reach, the values are those of the last cycle report plus the time since then: the most that can be missing.
    `as_of` is then that report's time, `topics` is empty, and `problems` and `stopped` are what the target alone shows.
    `upstream` are the heartbeats of every cluster that were copied to the target.  `risk_history` is what cycles saw at
    risk over the last day, oldest first.  `stopped` are the topics that are not copied because of a problem.
    `stopped_partitions` are those that the last cycle had to stop, and that nothing has copied on since.
    `has_run` says that a cycle has ended, `cycle_age_seconds` how long ago; None also if its clock is ahead of ours.
    `readiness` is the gate's newest answer in each mode.
    `members` are the processes of `twinlog run` that follow the flow, the leader first.
    `stands_still` says that records are over their RPO, and a cycle has been due for as long.
    `copied_by` says who copies; the copies of another engine are only observed.  `lanes` are those that have committed
    since the last fence.  `lag_when_read` is what lagged when the last cycle had read copies of another engine, None if
    it could not tell.
    """

    flow: str
    state: FlowPhase
    source_reachable: bool
    as_of: str
    rpo_seconds: float | None
    lag_records: int | None
    topics: tuple[TopicStatus, ...]
    gaps: tuple[GapReport, ...]
    incarnations: tuple[IncarnationStatus, ...]
    problems: tuple[Problem, ...]
    held: str = ""
    paused: tuple[PauseStatus, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    upstream: tuple[UpstreamBeat, ...] = ()
    risk_history: tuple[RiskSample, ...] = ()
    undecided_records: int | None = 0
    undecided: tuple[UndecidedPartition, ...] = ()
    unseen_partitions: int = 0
    stopped: tuple[StoppedTopic, ...] = ()
    stopped_partitions: tuple[StoppedCopy, ...] = ()
    has_run: bool = True
    members: tuple[Member, ...] = ()
    cycle_age_seconds: float | None = None
    readiness: tuple[Readiness, ...] = ()
    stands_still: bool = False
    copied_by: str = CopiedBy.TWINLOG.value
    lanes: tuple[LaneStatus, ...] = ()
    lag_when_read: int | None = None

    @property
    def observed(self) -> bool:
        """Say whether another engine copies."""
        return self.copied_by != CopiedBy.TWINLOG

    @property
    def needs_person(self) -> bool:
        """Say whether a topic or a partition is stopped until a person acts."""
        return bool(self.stopped_partitions) or any(topic.person for topic in self.stopped)


def run(flow: FlowSettings, clusters: Clusters, snapshot: FlowSnapshot | None = None) -> FlowStatus:
    """Return lag in records and seconds, gaps, incarnations and the state of the flow.

    `snapshot` is one of which nothing was read yet, for a caller who needs what it has read afterwards.
    Raises ClusterUnreachable if the target cannot be reached, ClusterRefused.
    """
    snapshot = snapshot or FlowSnapshot(flow, clusters)
    facts = observe_or_recall(snapshot)
    found, report = status_of(flow, facts), facts.ledger.last_report
    members = _members(flow, clusters.target)
    late = report is not None and stands_still(flow, report.at_ms, facts.at_ms, followed=bool(members))
    return replace(
        found,
        upstream=upstream_beats(flow.policy, clusters.target),
        members=members,
        lanes=_lanes(flow, clusters.target, facts),
        stands_still=late and not found.held and any(topic.over_budget for topic in found.topics),
    )


def _members(flow: FlowSettings, target: Cluster) -> tuple[Member, ...]:
    """Return who leads and who stands by; nobody, if this user may not read the group of their seats."""
    try:
        return shown(read_seats(flow, target), clock.now_ms())
    except ClusterRefused:
        return ()


def _lanes(flow: FlowSettings, target: Cluster, facts: FlowFacts) -> tuple[LaneStatus, ...]:
    """Return what the lanes of the last fence have committed."""
    fence = facts.ledger.fence
    if fence is None:
        return ()
    newest = newest_of_lanes(read_lane_counts(flow, target, fence.at_ms).values())
    return tuple(
        LaneStatus(
            lane,
            seconds_since(it.at_ms, clock.now_ms()),
            it.records,
            it.bytes,
            it.commits,
            it.retries,
            it.throttled_ms / 1000,
            it.behind_if_known,
        )
        for lane, it in sorted(newest.items())
    )


def status_of(flow: FlowSettings, facts: FlowFacts) -> FlowStatus:
    """Return the status from what is known now, or was when the last cycle ended.  Pure."""
    ledger, report = facts.ledger, facts.ledger.last_report
    as_of_ms = facts.at_ms if facts.live else report.at_ms if report is not None else None
    at_risk = {topic.topic: topic for topic in topics_at_risk(flow, facts)} if facts.live else {}
    return FlowStatus(
        flow=flow.name,
        state=ledger.phase,
        copied_by=flow.copied_by.value,
        source_reachable=facts.live,
        as_of="" if as_of_ms is None else iso(as_of_ms),
        rpo_seconds=facts.rpo_seconds,
        lag_records=if_known(facts.lag.fact),
        lag_when_read=None if report is None else report.summary.get("lag_when_read"),
        topics=tuple(_topic(at_risk[topic.topic], topic) for topic in facts.topics if topic.topic in at_risk),
        undecided_records=if_known(facts.undecided_records.fact),
        undecided=facts.undecided,
        unseen_partitions=facts.unseen,
        gaps=facts.gaps,
        incarnations=tuple(
            IncarnationStatus(incarnation.topic, incarnation.topic_id, iso(incarnation.since_ms))
            for incarnation in ledger.every_incarnation
        ),
        problems=facts.problems,
        held=why_held(flow, ledger),
        paused=tuple(
            PauseStatus(it.topic, iso(it.since_ms), it.by, it.reason)
            for _, it in sorted(ledger.pauses.items())
        ),
        orphans=facts.orphans,
        risk_history=of_the_last_day(ledger.risk_samples, facts.at_ms),
        stopped=_stopped(
            flow,
            (*facts.problems, *_not_made(flow, facts)),
            {
                topic.topic: topic.partition_count
                for topic in facts.topics
                if facts.live and topic.partition_count
            },
        ),
        stopped_partitions=still_stopped(facts),
        has_run=report is not None,
        cycle_age_seconds=None if report is None else seconds_since(report.at_ms, facts.at_ms),
        readiness=readiness(ledger, facts.at_ms),
    )


def _not_made(flow: FlowSettings, facts: FlowFacts) -> Iterator[Problem]:
    """Report topics that a cycle has seen, and whose copies are not there: the target refused to create them."""
    for topic in facts.topics if facts.live else ():
        if topic.copy_partitions == 0 and not topic.blocked and topic.topic in facts.ledger.beginnings:
            yield Problem(
                ProblemCode.COPY_NOT_MADE,
                topic.topic,
                f"{topic.remote_topic} is not on {flow.target.alias}, though a cycle has seen {topic.topic}",
                "`twinlog run --once` says why it is not created",
            )


def _stopped(
    flow: FlowSettings, problems: Sequence[Problem], counts: Mapping[str, int | None]
) -> tuple[StoppedTopic, ...]:
    """Return a topic for each blocking problem, with the first problem of each; `counts` are of partitions.  Pure."""
    waiting = {problem.topic for problem in waiting_for_a_person(flow, problems)}
    first = {problem.topic: problem for problem in reversed(problems) if problem.blocking}
    return tuple(
        StoppedTopic(
            it.topic,
            flow.remote_name(it.topic),
            counts.get(it.topic),
            it.code,
            it.message,
            it.hint,
            person=it.topic in waiting,
        )
        for _, it in sorted(first.items())
    )


def _topic(at_risk: TopicAtRisk, topic: TopicFacts) -> TopicStatus:
    return TopicStatus(
        topic=at_risk.topic,
        remote_topic=topic.remote_topic,
        lag_records=if_known(topic.lag.fact),
        undecided_records=topic.undecided.least,
        rpo_seconds=at_risk.seconds,
        lag_bytes=at_risk.bytes,
        tier=at_risk.tier,
        rpo_budget_seconds=at_risk.rpo_seconds,
        heartbeats=topic.heartbeats,
        partitions=tuple(
            PartitionStatus(
                partition=row.partition,
                last_upstream_offset=-1 if row.last_upstream is None else row.last_upstream,
                source_end=if_known(row.source_end) or 0,
                lag_records=if_known(row.lag) or 0,
                undecided_records=if_known(row.undecided_records) or 0,
                unmapped_offsets=None if row.unmapped_offsets is None else if_known(row.unmapped_offsets),
                deleted_early=if_known(row.deleted_early) or 0,  # known of a source that answers
            )
            for row in topic.partitions
        ),
    )
