"""Step `sync_topics`: give every replicated topic its copy on the target, with enough partitions.

`plan` (twinlog.topics.plan) lists the changes; `apply` makes exactly those. One refused topic does not stop the
others.
"""

from __future__ import annotations

import operator
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from twinlog import clock
from twinlog.cluster.api import Cluster, ClusterReader, Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, TwinlogError
from twinlog.formats.ledger.metadata import TopicConfigsSet
from twinlog.formats.ledger.topics import Beginning, Incarnation, IncarnationReason
from twinlog.formats.ledger.writers import FlowClaim
from twinlog.lane.fence.ownership import Identity
from twinlog.lifecycle import apply as lifecycle
from twinlog.lifecycle.apply import LifecycleResult
from twinlog.lifecycle.records import beginning, current_incarnation
from twinlog.state.changes import Entries, change
from twinlog.state.internal_topics import internal_topics
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.topics.discovery import DiscoveredTopic, Discovery, Problem
from twinlog.topics.incarnations import differ
from twinlog.topics.own_topic_rules import InternalState
from twinlog.topics.plan import Change, ChangeKind, Refusal, TopicPlan, plan, plan_internal
from twinlog.topics.reverse_flows import unknown_ledgers
from twinlog.topics.snapshot import FlowSnapshot


@dataclass(frozen=True, slots=True)
class SyncTopicsResult:
    """The changes made on the target (in a dry run: that would be made), the refusals, and lines for people."""

    flow: str
    dry_run: bool
    changes: tuple[Change, ...]
    refused: tuple[Refusal, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    lives: LifecycleResult = field(default_factory=LifecycleResult)

    @property
    def complete(self) -> bool:
        """Say whether every topic of the flow is provisioned on the target."""
        return not self.refused and not any(problem.blocking for problem in self.problems)


def run(
    flow: FlowSettings,
    clusters: Clusters,
    dry_run: bool = False,
    run_id: str | None = None,
    snapshot: FlowSnapshot | None = None,
) -> SyncTopicsResult:
    """Create remote and internal topics, add partitions, and update the records of topics' incarnations.

    A flow that is paused, or failing over, changes nothing. `run_id` is the caller's if the caller holds the fence
    itself. `snapshot` is one of just now; `as_left` renews it afterwards. Raises TerminalError `cleanup-policy`,
    ClusterUnreachable, and ClusterRefused if a topic that exactly-once depends on cannot be created.
    """
    snapshot = snapshot or FlowSnapshot(flow, clusters)
    discovery = snapshot.discovery
    if discovery.stands_by:
        note = f"flow {flow.name} is {discovery.stands_by}: nothing is changed and nothing copied"
        return SyncTopicsResult(flow.name, dry_run, (), (), discovery.problems, (note,))
    if flow.observed:
        return _observe(snapshot, dry_run=dry_run)
    lifecycle_done = lifecycle.run(snapshot, dry_run=dry_run, run_id=run_id)
    if lifecycle_done.changed and not dry_run:
        snapshot = snapshot.after_changes()
        discovery = snapshot.discovery
    todo = make_plan(snapshot)
    keeps_names = any(topic.remote_topic == topic.topic for topic in discovery.topics)
    unknown = unknown_ledgers(flow, clusters) if keeps_names else ()
    kept: tuple[str, ...] = ()
    if dry_run:
        done, refused = todo.changes, todo.refused
    else:
        done, refused, kept = apply(flow, todo, clusters.target, discovery, snapshot.ledger)
    return SyncTopicsResult(
        flow.name,
        dry_run,
        done,
        (*lifecycle_done.refused, *refused),
        discovery.problems,
        (*lifecycle_done.notes, *todo.notes, *kept, *unknown),
        lifecycle_done,
    )


def _observe(snapshot: FlowSnapshot, *, dry_run: bool) -> SyncTopicsResult:
    """Create the flow's own topics, and note which incarnations are observed; all others are another engine's."""
    flow, target, discovery = snapshot.flow, snapshot.clusters.target, snapshot.discovery
    changes, notes = plan_internal(flow, discovery.target_brokers, read_internal(flow, target))
    kept: tuple[str, ...] = ()
    if not dry_run:
        todo = TopicPlan(flow.name, changes)
        changes, _, kept = apply(flow, todo, target, discovery, snapshot.ledger)
        change(flow, target, lambda now: Entries([*_observed_now(flow, discovery, now)]))
    notes = (*notes, *kept)
    return SyncTopicsResult(flow.name, dry_run, changes, (), discovery.problems, notes)


def _observed_now(
    flow: FlowSettings, discovery: Discovery, ledger: Ledger
) -> Iterator[FlowClaim | Incarnation]:
    """Yield the claim of the state, and incarnations of topics and copies that are not those known before.  Pure."""
    now, source_id = clock.now_ms(), discovery.source_cluster_id
    identity = Identity(flow.name, source_id, discovery.target_cluster_id)
    if not ledger.claims and identity.known:
        yield identity.claim(now)
    for topic in discovery.topics:
        known, copy = ledger.incarnations.get(topic.topic), topic.remote
        if copy is None or (known is not None and differ(known.source_cluster_id, source_id)):
            continue
        if known is None:
            yield current_incarnation(topic, ledger, source_id, now, IncarnationReason.FIRST_SEEN)
        elif differ(known.topic_id, topic.topic_id) or differ(known.remote_topic_id, copy.topic_id):
            yield current_incarnation(topic, ledger, source_id, now, IncarnationReason.APPEND)


def as_left(snapshot: FlowSnapshot, done: SyncTopicsResult) -> FlowSnapshot:
    """Return the snapshot, renewed if the step has changed the target or its ledger."""
    now = read_ledger(snapshot.flow, snapshot.clusters.target)
    return snapshot.after_changes() if done.changes or now != snapshot.ledger else snapshot


def make_plan(snapshot: FlowSnapshot) -> TopicPlan:
    """Read what planning needs beyond the snapshot, and plan.

    Raises TerminalError `ledger-lost` if the target has the flow's map and not its ledger: an empty one would forget
    pauses, promotions and incarnations.
    """
    flow, clusters, discovery = snapshot.flow, snapshot.clusters, snapshot.discovery
    internal = read_internal(flow, clusters.target)
    if flow.ledger_topic in internal.topics.absent and snapshot.maps:
        raise TerminalError(
            f"{flow.ledger_topic} is not on {flow.target.alias}, but the offset map of {flow.name} is: the ledger was"
            " deleted, and with it what it knew of pauses, promotions and recreated topics",
            "restore it; if it is lost for good and the flow may go on as one that is active, create it by hand:"
            f" kafka-topics.sh --create --topic {shlex.quote(flow.ledger_topic)} --partitions 1"
            " --config cleanup.policy=compact",
            code="ledger-lost",
            flow=flow.name,
        )
    new = (topic.topic for topic in discovery.unblocked if topic.remote is None)
    return plan(flow, discovery, clusters.source.topic_configs(new), internal, snapshot.ledger)


def read_internal(flow: FlowSettings, target: ClusterReader) -> InternalState:
    """Read the flow's own topics on the target."""
    topics = target.describe_topics(topic.name for topic in internal_topics(flow))
    return InternalState(topics, target.topic_configs(topics.found))


def apply(
    flow: FlowSettings, todo: TopicPlan, target: Cluster, discovery: Discovery, ledger: Ledger
) -> tuple[tuple[Change, ...], tuple[Refusal, ...], tuple[str, ...]]:
    """Make the changes of the plan in its order; return those made, those refused with the reason, and notes.

    If an internal topic refuses settings, that is only a note: no record is copied wrongly because of it.
    """
    errors: dict[str, TwinlogError] = {}
    errors |= target.create_topics([it.new_topic for it in _of(todo, ChangeKind.CREATE_INTERNAL)]).refused
    for it in todo.changes:
        if it.vital and it.name in errors:
            raise errors[it.name]
    kept = _configure(todo, target)
    errors |= target.create_topics([it.new_topic for it in _of(todo, ChangeKind.CREATE)]).refused
    errors |= target.create_partitions({it.name: it.partitions for it in _of(todo, ChangeKind.GROW)}).refused
    failed = {*errors, *(refusal.name for refusal in todo.refused)}
    since = clock.now_ms()
    given = [
        TopicConfigsSet(it.name, it.configs, since)
        for it in _of(todo, ChangeKind.CREATE)
        if it.name not in errors and it.configs
    ]
    seen = _first_seen(flow, todo, target, discovery, ledger, failed)
    if given or seen:
        change(flow, target, lambda now: Entries([*given, *_still_unknown(seen, ledger, now)]))
    return (
        tuple(change for change in todo.changes if change.name not in {*errors, *kept}),
        (
            *todo.refused,
            *(
                Refusal(name, error.code, error.message, error.hint or _hint(error))
                for name, error in errors.items()
            ),
        ),
        tuple(kept.values()),
    )


def _still_unknown(
    seen: Sequence[Beginning | Incarnation], planned: Ledger, now: Ledger
) -> Iterator[Beginning | Incarnation]:
    """Yield what was seen first of topics of which nothing was noted since it was planned.  Pure."""
    for record in seen:
        noted = operator.attrgetter("beginnings" if isinstance(record, Beginning) else "incarnations")
        if noted(now).get(record.topic) == noted(planned).get(record.topic):
            yield record


def _configure(todo: TopicPlan, target: Cluster) -> dict[str, str]:
    """Set what internal topics lack; return, by name, what to set by hand on those that refuse."""
    wanted = {it.name: it.configs or {} for it in _of(todo, ChangeKind.CONFIGURE_INTERNAL)}
    refused = target.alter_topic_configs(wanted).refused if wanted else {}
    return {
        topic: f"{config} of {topic} on {target.alias} should be {wanted[topic][config]} at least: {error}"
        for (topic, config), error in refused.items()
    }


def _first_seen(
    flow: FlowSettings,
    todo: TopicPlan,
    target: Cluster,
    discovery: Discovery,
    ledger: Ledger,
    failed: Collection[str],
) -> list[Beginning | Incarnation]:
    """Return where copies of topics begin that are seen for the first time, and incarnations whose copies are there.

    A beginning is noted whatever becomes of the copy: what is written while it cannot be made will be copied.
    """
    new = {topic.topic for topic in todo.first_seen}
    made = [topic.remote_topic for topic in todo.first_seen if topic.remote_topic not in failed]
    copies = target.describe_topics(made).found
    now = clock.now_ms()
    records: list[Beginning | Incarnation] = []
    for topic in discovery.topics:
        known, copy = ledger.incarnations.get(topic.topic), copies.get(topic.remote_topic)
        heeded = topic.topic in new or topic.blocked
        begins = first_beginning(flow, topic, ledger, now) if heeded and known is None else None
        if begins is not None and begins != ledger.beginnings.get(topic.topic):
            records.append(begins)
        if topic.topic not in new or copy is None:
            continue
        if begins is None and not known and flow.tier_of(topic.topic).start is not None:
            continue  # to be noted with the beginning: nothing of the topic is copied before
        since, number = (known.since_ms or now, known.number) if known is not None else (now, 1)
        names = topic.topic, topic.topic_id, since, topic.remote_topic
        records.append(Incarnation(*names, copy.topic_id, discovery.source_cluster_id, number))
    return records


def first_beginning(
    flow: FlowSettings, topic: DiscoveredTopic, ledger: Ledger, now_ms: int
) -> Beginning | None:
    """Return where the copy of a topic begins that has none yet: where it was noted, else where it would begin now.

    A beginning that is noted stays; whether the copy is empty is told as it is now.  None while offsets of some
    partitions cannot be read and nothing is noted.  Pure.
    """
    now = beginning(topic, now_ms, from_latest=flow.copy.start_from_latest)
    noted = ledger.beginnings.get(topic.topic)
    if noted is None or noted.topic_id != topic.topic_id:
        return now
    return replace(noted, into_empty=noted.into_empty and (now is None or now.into_empty))


def _of(todo: TopicPlan, kind: ChangeKind) -> tuple[Change, ...]:
    return tuple(change for change in todo.changes if change.kind is kind)


def _hint(error: TwinlogError) -> str:
    """Return a hint for a refused creation.

    A copy is not created with fewer settings than its topic: some of them decide how long records are kept.
    """
    if error.data.get("kafka_error") == "INVALID_CONFIG":
        return (
            "leave that config out by config.properties.exclude (remote.storage.enable, if the target has no tiered"
            " storage), or create the topic by hand"
        )
    return ""
