"""Make the copy of a topic anew, step by step (STEPS).

Every step checks for itself whether it is done. If a run died, the next cycle continues its rebuild, or a person does.
While Rebuild(deleting) is in the ledger, nothing is copied into the topic (docs/decisions/0011-rebuild.md).  In later
cycles each group goes on exactly at its position, once the copy has reached it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from twinlog import clock
from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.cluster.values import NO_SUCH_TOPIC, ConfigSource, NewTopic, TopicDescription
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import Ownership
from twinlog.errors import TerminalError, TransientError
from twinlog.formats.ledger.topics import IncarnationReason, Rebuild, RebuildPhase
from twinlog.grouped import grouped
from twinlog.kafka_types import TopicPartition
from twinlog.lifecycle import rebuild_plan
from twinlog.lifecycle.forget import KnownTopic
from twinlog.lifecycle.reader_positions import restore
from twinlog.lifecycle.rebuild_plan import RebuildPlan
from twinlog.lifecycle.records import beginning, current_incarnation, noted
from twinlog.procedure import (
    Outcome,
    Step,
    StepName,
    StepReport,
    Told,
    but_errors,
    done,
    silent,
    skipped,
    walk,
)
from twinlog.state.changes import Entries, change
from twinlog.state.ledger import Ledger, read_behind_fence, read_ledger
from twinlog.topics.discovery import DiscoveredTopic, Discovery
from twinlog.topics.other_writers import other_writers
from twinlog.topics.pauses import why_paused, why_suspended
from twinlog.topics.plan import clamped, creation_configs
from twinlog.topics.snapshot import FlowSnapshot

GONE_SECONDS = 30.0


def own_configs(target: ClusterReader, remote_topic: str) -> dict[str, str]:
    """Return the settings that were made on the copy itself; empty if the copy is gone."""
    entries = target.topic_configs([remote_topic]).found.get(remote_topic, {})
    return {
        entry.name: entry.value
        for entry in sorted(entries.values(), key=lambda it: it.name)
        if entry.source is ConfigSource.TOPIC and entry.value is not None and not entry.read_only
    }


def delete_copy(flow: FlowSettings, clusters: Clusters, begun: Rebuild) -> None:
    """Delete the old copy; a copy with another id is a new one, and stays.

    The new copy was created by an earlier try, or by another user. Raises TerminalError `rebuild-refused` if there are
    other writers: they may have begun after the rebuild was recorded. Raises it also if the record names a topic that
    is no copy of its own: others may write to the ledger.
    """
    if begun.remote_topic != flow.remote_name(begun.topic):
        raise TerminalError(
            f"the ledger wants {begun.remote_topic} deleted on {flow.target.alias} for a rebuild of {begun.topic},"
            f" whose copy is {flow.remote_name(begun.topic)}",
            f"nothing is deleted; find out who writes to {flow.ledger_topic}, then twinlog topics rebuild again",
            code=rebuild_plan.REFUSED,
            topic=begun.topic,
        )
    found = _described(clusters.target, begun.remote_topic)
    if found is None or found.topic_id != begun.old_remote_topic_id:
        return
    writers = other_writers(flow, clusters, begun.topic, begun.remote_topic, found.topic_id)
    if writers:
        raise rebuild_plan.shared(flow, begun.topic, begun.remote_topic, writers)
    clusters.target.delete_topics([begun.remote_topic]).require()
    deadline = time.monotonic() + GONE_SECONDS
    while (seen := _described(clusters.target, begun.remote_topic)) and seen.topic_id == found.topic_id:
        if time.monotonic() > deadline:
            raise TransientError(
                f"{flow.target.alias} still shows {begun.remote_topic} {GONE_SECONDS:.0f} s after its deletion",
                "the next cycle goes on with the rebuild",
                code="not-shown",
                topic=begun.topic,
            )
        time.sleep(0.1)


def make_copy(
    flow: FlowSettings, clusters: Clusters, discovery: Discovery, topic: DiscoveredTopic, begun: Rebuild
) -> TopicDescription:
    """Create the copy again, empty, and describe it; it may exist already."""
    configs = dict(begun.configs)
    if not begun.old_remote_topic_id:
        entries = clusters.source.topic_configs([topic.topic]).require()[topic.topic]
        configs = creation_configs(flow, entries)
    factor = clamped(flow.replication_factor, discovery.target_brokers)
    new = NewTopic(topic.remote_topic, topic.partition_count, flow.replication_factor, configs, factor)
    clusters.target.create_topics([new]).require()
    return clusters.target.describe_topics([topic.remote_topic]).require()[topic.remote_topic]


def require_empty(flow: FlowSettings, clusters: Clusters, created: TopicDescription, begun: Rebuild) -> None:
    """Check that the copy is still the one that was created, and is empty; call this behind the fence.

    Raises TransientError if the copy is another one, TerminalError `rebuild-refused` if it holds records.
    """
    found = _described(clusters.target, created.name)
    if found is None or found.topic_id != created.topic_id:
        raise TransientError(
            f"{created.name} on {flow.target.alias} was deleted while it was made anew",
            "the next cycle goes on with the rebuild",
            code="overtaken",
            topic=begun.topic,
        )
    partitions = [TopicPartition(created.name, partition.partition) for partition in created.partitions]
    if any(bounds.end for bounds in clusters.target.offsets(partitions).require().values()):
        raise TerminalError(
            f"{created.name} was made again on {flow.target.alias} and holds records that are not ours",
            f"find out who writes to it, delete it, and run `twinlog topics rebuild --topic {begun.topic}` again",
            code=rebuild_plan.REFUSED,
            topic=begun.topic,
        )


def _described(target: ClusterReader, name: str) -> TopicDescription | None:
    seen = target.describe_topics([name])
    error = seen.refused.get(name)
    if error is not None and error.code != NO_SUCH_TOPIC:
        raise error
    return seen.found.get(name)


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """The result of a rebuild so far; `deleted` says that the old copy is gone and the new one exists, empty.

    `restored` groups have their positions again. `waiting` groups wait for the copy to reach theirs. For `unknown`
    groups the map gave no exact position, and nothing was committed.
    """

    flow: str
    topic: str
    remote_topic: str
    phase: RebuildPhase
    deleted: bool
    restored: tuple[str, ...]
    waiting: tuple[str, ...]
    unknown: tuple[str, ...]
    notes: tuple[str, ...] = ()
    steps: tuple[StepReport, ...] = ()


@dataclass(slots=True)
class Work:
    """One process's rebuild of a topic, for a person's `request`, or a cycle (""); `begun` is as the ledger has it.

    `todo` is what a dry run has found.
    """

    flow: FlowSettings
    clusters: Clusters
    topic: str
    by: str = ""
    reason: str = ""
    request: str = ""
    run_id: str | None = None
    todo: RebuildPlan = field(init=False)
    begun: Rebuild = field(init=False)
    deleted: bool = False


def plan(flow: FlowSettings, clusters: Clusters, topic: str) -> RebuildPlan:
    """Return what a rebuild would do.

    Raises TerminalError `rebuild-refused` for a topic the flow does not copy.
    """
    flow.require_copied("a rebuild")
    snapshot = FlowSnapshot(flow, clusters)
    work = Work(flow, clusters, topic)
    work.todo = rebuild_plan.plan_of(flow, clusters, snapshot.discovery, snapshot.ledger, topic)
    looking = (step.looking(flow.source.alias, flow.target.alias) for step in STEPS)
    return replace(work.todo, steps=walk(looking, work, silent).raised().rows)


def run(
    flow: FlowSettings, clusters: Clusters, topic: str, *, told: Told = silent, **asked: Any
) -> RebuildResult:
    """Begin a rebuild, or continue the one that was begun; `asked` is who asks: `by`, `reason`, `request`, `run_id`.

    A rebuild of the same `request` is not begun again. Without a request (""), a rebuild that is being copied is not
    begun again either.

    Raises TerminalError `rebuild-refused` if the rebuild cannot be begun: the source does not have the topic, groups
    read the copy, it has other writers, or the flow is not active. Raises FencedError, and errors of clusters. The
    state is then as it was. A rebuild that was recorded stays recorded, and continues when its obstacle is gone.
    """
    flow.require_copied("a rebuild")
    work = Work(flow, clusters, topic, **asked)
    rows = walk(STEPS, work, but_errors(told)).raised().rows
    told_so = tuple(row.message for row in rows if row.name is StepName.BEGIN and work.deleted)
    return replace(_result(flow, work.begun), deleted=work.deleted, notes=told_so, steps=rows)


def _note(work: Work) -> Outcome:
    flow, clusters, topic = work.flow, work.clusters, work.topic
    before = read_ledger(flow, clusters.target).rebuilds.get(topic)
    if before is not None and before.phase is not RebuildPhase.DELETING:
        outlived = rebuild_plan.stale(FlowSnapshot(flow, clusters).discovery, topic)
        if not outlived and rebuild_plan.serves(before, work.request):
            work.begun = before
            return skipped(f"it was begun by {before.by}, and is {before.phase.value}")
    work.begun = _noted(work, before)
    kept = sum(group.upstream is not None for group in work.begun.groups)
    return done(f"{work.begun.phase.value}; {kept:,} position(s) of groups are kept")


def _noted(work: Work, before: Rebuild | None) -> Rebuild:
    """Note the rebuild; `before` is the ledger's at the time it was decided to begin or to continue.

    If another run has done it since, the rebuild returned is not `deleting`.
    """
    flow, clusters, topic, request = work.flow, work.clusters, work.topic, work.request
    owned = Ownership.taken(flow, clusters, "rebuild", work.run_id)
    ledger = read_behind_fence(flow, clusters.target)
    begun = ledger.rebuilds.get(topic)
    if begun is not None and (
        begun.phase is RebuildPhase.DELETING or rebuild_plan.overtaken(before, begun, request)
    ):
        joined = begun.joined_by(request)
        if joined != begun:
            # Otherwise a retry of this request would find a rebuild of another request, and begin anew.
            owned.write([noted(owned.state, joined)])
        return joined
    todo = rebuild_plan.plan_of(flow, clusters, FlowSnapshot(flow, clusters).discovery, ledger, topic)
    rebuild_plan.require_free(flow, todo)
    begun = Rebuild(
        topic,
        todo.topic_id,
        todo.remote_topic,
        todo.remote_topic_id,
        RebuildPhase.DELETING,
        work.by,
        work.reason,
        clock.now_ms(),
        configs=own_configs(clusters.target, todo.remote_topic),
        groups=todo.groups,
        request=request,
    )
    owned.write([noted(owned.state, begun)])
    return begun


def _delete(work: Work) -> Outcome:
    if work.begun.phase is not RebuildPhase.DELETING:
        return skipped("the copy is made anew already")
    delete_copy(work.flow, work.clusters, work.begun)
    return done(f"{work.begun.remote_topic} is deleted")


def _begin(work: Work) -> Outcome:
    """Create the copy, and begin it.

    The ledger is read behind the fence: another run may have come here first, and its copy may hold records by now.
    Raises TerminalError `rebuild-refused` if the new copy holds records that the flow did not copy, and TransientError
    if the copy or the rebuild was replaced meanwhile.
    """
    flow, clusters, begun = work.flow, work.clusters, work.begun
    if begun.phase is not RebuildPhase.DELETING:
        return skipped("the copy is made anew already")
    discovery = FlowSnapshot(flow, clusters).discovery
    topic = rebuild_plan.wanted(flow, discovery, begun.topic)
    created = make_copy(flow, clusters, discovery, topic, begun)
    owned = Ownership.taken(flow, clusters, "rebuild", work.run_id)
    ledger = read_behind_fence(flow, clusters.target)
    work.begun = rebuild_plan.as_it_stands(ledger, begun)
    if work.begun.phase is not RebuildPhase.DELETING:
        return skipped("another run was faster")
    require_empty(flow, clusters, created, begun)
    work.begun = replace(work.begun, topic_id=topic.topic_id, phase=RebuildPhase.COPYING)
    incarnation = current_incarnation(
        topic, ledger, discovery.source_cluster_id, clock.now_ms(), IncarnationReason.REBUILD
    )
    begins = beginning(topic, incarnation.since_ms)
    gone = KnownTopic(owned.state, topic.topic, [topic.remote_topic], owned.progress)
    owned.write([
        *gone.of_the_copy(flow, clusters, ledger),
        noted(owned.state, replace(incarnation, remote_topic_id=created.topic_id)),
        *([noted(owned.state, begins)] if begins is not None else []),
        noted(owned.state, work.begun),
    ])
    work.deleted = True
    when = "the next cycle" if work.request else "this cycle"  # a person has a request, a cycle has none
    return done(f"{begun.remote_topic} is empty and is copied anew, beginning with {when}")


def _restore_groups(work: Work) -> Outcome:
    ledger = read_behind_fence(work.flow, work.clusters.target)
    work.begun = _restore(work.flow, work.clusters, work.begun, ledger)
    waiting = sum(group.awaited for group in work.begun.groups)
    return done(f"{waiting:,} position(s) wait until the copy has come so far")


STEPS = (
    Step(
        StepName.NOTE,
        "notes behind the fence that the copy is to go, with the upstream position of every group of B",
        "from here on nothing is copied into it",
        "refused while groups with members read the copy, or while it has other writers: stop them",
        _note,
        lambda work: f"{len(work.todo.groups):,} position(s) of groups",
    ),
    Step(
        StepName.DELETE,
        "deletes the copy, if it is still the one that was noted",
        "the copy is gone",
        "a copy that does not go within 30 s: the next cycle goes on",
        _delete,
        lambda work: work.todo.cost,
    ),
    Step(
        StepName.BEGIN,
        "makes the copy again with its own settings, and forgets progress, map and gaps of the old one in one"
        " transaction",
        "an empty copy: ordinary cycles copy the topic from here on",
        "it holds records of others: find out who writes to it, and run it again",
        _begin,
        lambda _: "",
    ),
    Step(
        StepName.GROUPS,
        "commits the positions that the new copy has reached, and so does each cycle after its copy",
        "each group goes on exactly where it stood",
        "a group that has no exact position is named, and begins where its own settings say",
        _restore_groups,
        lambda _: "",
    ),
)
"""The steps of a rebuild."""


def restore_reached(flow: FlowSettings, clusters: Clusters) -> None:
    """Commit the positions that rebuilt copies have reached: after a copy, and before groups are started there.

    Paused topics are skipped. Raises errors of clusters.
    """
    ledger = read_ledger(flow, clusters.target)
    for rebuild in ledger.rebuilds.values():
        held_up = why_suspended(ledger, flow.recovery_run) or why_paused(ledger, rebuild.topic)
        if rebuild.phase is RebuildPhase.COPYING and not held_up:
            _restore(flow, clusters, rebuild, ledger)


def _restore(flow: FlowSettings, clusters: Clusters, rebuilt: Rebuild, ledger: Ledger) -> Rebuild:
    """Commit positions as far as the copy has come; return the rebuild as the ledger has it then."""
    begins = ledger.beginnings.get(rebuilt.topic)
    after = restore(flow, clusters, rebuilt, begins.offsets if begins is not None else {})
    if after != rebuilt:
        same = Entries([after])
        change(
            flow, clusters.target, lambda it: same if it.rebuilds.get(rebuilt.topic) == rebuilt else Entries()
        )
    return after


def _result(flow: FlowSettings, rebuilt: Rebuild) -> RebuildResult:
    by = grouped(((group.upstream is not None, group.restored), group.group) for group in rebuilt.groups)
    return RebuildResult(
        flow.name,
        rebuilt.topic,
        rebuilt.remote_topic,
        rebuilt.phase,
        deleted=False,
        restored=tuple(sorted({*by.get((True, True), ())})),
        waiting=tuple(sorted({*by.get((True, False), ())})),
        unknown=tuple(sorted({group.group for group in rebuilt.groups if group.upstream is None})),
    )
