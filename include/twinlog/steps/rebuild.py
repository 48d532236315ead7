"""Copying a topic anew: its copy is deleted, made again under the same name, and filled from the source's log start.

    1. plan      what would be deleted and what can be copied again; refused while anybody reads the copy
    2. note      behind the fence: Rebuild(deleting), with where every group of the target stands, upstream
    3. delete    the copy, if it is still the one that was noted, and make it again with its own settings
    4. begin     behind the fence, one transaction: progress, map, gaps of the old copy are forgotten, the new life of
                 the copy is noted, Rebuild(copying); from here on ordinary cycles copy the topic
    5. restore   in later cycles: each group goes on exactly where it stood, once the copy has come that far

Every step finds out by itself whether it is done; a run that died is gone on with by the next cycle, or by hand.
While Rebuild(deleting) stands in the ledger nothing is copied into the topic (docs/decisions/0011-rebuild.md).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from twinlog.cluster.cluster import ClusterReader
from twinlog.cluster.clusters import Clusters
from twinlog.cluster.ledger import Ledger, read_ledger, write_ledger
from twinlog.cluster.progress import read_pieces
from twinlog.cluster.values import ConfigSource, NewTopic, TopicDescription, TopicPartition
from twinlog.config.settings import FlowSettings
from twinlog.errors import TerminalError, TransientError
from twinlog.formats.ledger_topics import GroupPosition, LifeReason, Rebuild, RebuildPhase
from twinlog.steps import discover
from twinlog.steps.discovery import DiscoveredTopic, Discovery, ProblemCode
from twinlog.steps.fencing import held
from twinlog.steps.group_positions import carried_over, maps_of, readers, restore, upstream_positions
from twinlog.steps.life_records import beginning, erasure, first_life, noted
from twinlog.steps.life_rules import differ
from twinlog.steps.topic_plan import clamped, creation_configs

REFUSED = "rebuild-refused"
"""Code of the refusal to begin a rebuild."""

LIFE_CODES = frozenset({
    ProblemCode.RECREATED,
    ProblemCode.SOURCE_CHANGED,
    ProblemCode.COPY_DELETED,
    ProblemCode.COPY_RECREATED,
    ProblemCode.COPY_RENAMED,
})

GONE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """What a rebuild of one topic would do.

    `copied_records` lie in the copy (as downstream offsets, an upper bound), `source_records` can be copied again;
    `begins` is the upstream offset the new copy begins at, by partition.  `groups` are positions on the copy, those
    without an upstream offset cannot be kept.  `active_groups` keep it from being rebuilt.
    """

    flow: str
    topic: str
    topic_id: str
    remote_topic: str
    remote_topic_id: str
    phase: str
    copied_records: int
    source_records: int
    begins: Mapping[int, int]
    groups: tuple[GroupPosition, ...]
    active_groups: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """What was done; `deleted` says that the old copy is gone and the new one stands empty.

    `restored` groups stand where they stood, `waiting` ones wait for the copy to come that far, `unknown` ones had a
    position that the map could not tell: nothing was committed for them.
    """

    flow: str
    topic: str
    remote_topic: str
    phase: RebuildPhase
    deleted: bool
    restored: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def plan(flow: FlowSettings, clusters: Clusters, topic: str) -> RebuildPlan:
    """Say what a rebuild would do.  Raises TerminalError `rebuild-refused` for a topic the flow does not copy."""
    discovery = discover.run(flow, clusters)
    return _plan(flow, clusters, discovery, read_ledger(flow, clusters.target), topic)


def run(
    flow: FlowSettings,
    clusters: Clusters,
    topic: str,
    *,
    by: str,
    reason: str,
    request: str,
    run_id: str | None = None,
) -> RebuildResult:
    """Begin a rebuild, or go on with the one that was begun.

    One that is being copied is not begun again, nor is one of the same `request` ("" for none).

    Raises TerminalError `rebuild-refused` when it cannot be begun (the source does not have the topic, somebody
    reads the copy, the flow is not active), FencedError, and errors of clusters; the state is then as it was.
    """
    ledger = read_ledger(flow, clusters.target)
    before = ledger.rebuilds.get(topic)
    if before is not None and before.phase is not RebuildPhase.DELETING:
        stale = _stale(discover.run(flow, clusters), topic)
        if not stale and (before.phase is RebuildPhase.COPYING or (request and before.request == request)):
            return _restore(flow, clusters, before, ledger)
    deleted = _note_and_delete(flow, clusters, topic, by=by, reason=reason, request=request, run_id=run_id)
    return _begin(flow, clusters, deleted, run_id)


def _stale(discovery: Discovery, topic: str) -> bool:
    """Whether what was rebuilt is not what is there any more."""
    return any(it.topic == topic and it.code in LIFE_CODES for it in discovery.problems)


def _plan(
    flow: FlowSettings, clusters: Clusters, discovery: Discovery, ledger: Ledger, topic: str
) -> RebuildPlan:
    found = _wanted(flow, discovery, topic)
    life = ledger.incarnations.get(topic)
    same_life = life is not None and not differ(life.topic_id, found.topic_id)
    known = ledger.rebuilds.get(topic)
    begun = known is not None and known.phase is RebuildPhase.DELETING
    remote = found.remote
    partitions = range(remote.partitions if remote is not None else 0)
    positions = [TopicPartition(found.remote_topic, number) for number in partitions]
    bounds = clusters.target.offsets(positions).found
    using = readers(clusters.target, found.remote_topic)
    maps = maps_of(flow, clusters.target, topic)
    groups = (
        known.groups
        if begun and known is not None
        else (
            *upstream_positions(found, using, maps, life, same_life),
            *carried_over(known, found, using, same_life),
        )
    )
    notes = []
    copied = sum(it.stable_end - it.log_start for it in bounds.values())
    source = sum(it.source.stable_end - it.source.log_start for it in found.partitions)
    begins = {it.partition: it.source.log_start for it in found.partitions}
    if any(begins.values()):
        notes.append(
            f"the source begins at {', '.join(f'{p}:{o}' for p, o in begins.items() if o)}: earlier records that the"
            " copy has cannot be copied again"
        )
    if not same_life:
        notes.append(
            f"{topic} lives another life on {flow.source.alias}: nothing of the earlier one comes back"
        )
    unknown = sorted({it.group for it in groups if it.upstream is None})
    if unknown:
        notes.append(
            f"the map cannot tell where these groups stand, nothing is kept of them: {', '.join(unknown)}"
        )
    return RebuildPlan(
        flow=flow.name,
        topic=topic,
        topic_id=found.topic_id,
        remote_topic=found.remote_topic,
        remote_topic_id=remote.topic_id if remote is not None else "",
        phase=known.phase.value if known is not None else "",
        copied_records=copied,
        source_records=source,
        begins=begins,
        groups=groups,
        active_groups=tuple(sorted(name for name, it in using.items() if it.active)),
        notes=tuple(notes),
    )


def _wanted(flow: FlowSettings, discovery: Discovery, topic: str) -> DiscoveredTopic:
    if discovery.stands_by:
        raise TerminalError(
            f"flow {flow.name} is {discovery.stands_by}", hint="resume it first", code=REFUSED, flow=flow.name
        )
    found = next((it for it in discovery.topics if it.topic == topic), None)
    if found is None:
        reason = next(
            (it.reason for it in discovery.left_out if it.topic == topic), "the source has no such topic"
        )
        raise TerminalError(
            f"flow {flow.name} does not copy {topic}: {reason}",
            hint=f"nothing was touched; its copy, if any, stays on {flow.target.alias}",
            code=REFUSED,
            flow=flow.name,
            topic=topic,
        )
    if len(found.partitions) < found.partition_count:
        raise TerminalError(
            f"some partitions of {topic} have no leader on {flow.source.alias}",
            hint="try again when the source can be read",
            code=REFUSED,
            topic=topic,
        )
    return found


def _note_and_delete(
    flow: FlowSettings,
    clusters: Clusters,
    topic: str,
    *,
    by: str,
    reason: str,
    request: str,
    run_id: str | None,
) -> Rebuild:
    """Steps 2 and 3."""
    with held(flow, clusters, "rebuild", run_id) as fence:
        ledger = read_ledger(flow, clusters.target)
        begun = ledger.rebuilds.get(topic)
        if begun is None or begun.phase is not RebuildPhase.DELETING:
            todo = _plan(flow, clusters, discover.run(flow, clusters), ledger, topic)
            _refuse_while_read(flow, todo)
            begun = Rebuild(
                topic,
                todo.topic_id,
                todo.remote_topic,
                todo.remote_topic_id,
                RebuildPhase.DELETING,
                by,
                reason,
                _now(),
                configs=own_configs(clusters.target, todo.remote_topic),
                groups=todo.groups,
                request=request,
            )
            fence.write([noted(fence.state, begun)])
    _delete(flow, clusters, begun)
    return begun


def _refuse_while_read(flow: FlowSettings, todo: RebuildPlan) -> None:
    if todo.active_groups:
        raise TerminalError(
            f"{todo.remote_topic} is being read on {flow.target.alias} by {', '.join(todo.active_groups)}",
            hint="stop these groups first: their positions are kept, but a running reader would lose its place",
            code=REFUSED,
            topic=todo.topic,
            groups=list(todo.active_groups),
        )


def own_configs(target: ClusterReader, remote_topic: str) -> dict[str, str]:
    """The settings somebody gave to the copy itself; empty when it is gone."""
    entries = target.topic_configs([remote_topic]).found.get(remote_topic, {})
    return {
        it.name: it.value
        for it in sorted(entries.values(), key=lambda it: it.name)
        if it.source is ConfigSource.TOPIC and it.value is not None and not it.read_only
    }


def _delete(flow: FlowSettings, clusters: Clusters, begun: Rebuild) -> None:
    """Delete the old copy.  One that has another id is a new one: made by an earlier try, or by somebody else."""
    found = _described(clusters.target, begun.remote_topic)
    if found is None or found.topic_id != begun.old_remote_topic_id:
        return
    clusters.target.delete_topics([begun.remote_topic]).require()
    deadline = time.monotonic() + GONE_SECONDS
    while (seen := _described(clusters.target, begun.remote_topic)) and seen.topic_id == found.topic_id:
        if time.monotonic() > deadline:
            raise TransientError(
                f"{flow.target.alias} still shows {begun.remote_topic} {GONE_SECONDS:.0f} s after its deletion",
                hint="the next cycle goes on with the rebuild",
                code="not-gone",
                topic=begun.topic,
            )
        time.sleep(0.1)


def _begin(flow: FlowSettings, clusters: Clusters, begun: Rebuild, run_id: str | None) -> RebuildResult:
    """Steps 3 (second half) and 4.  Raises TerminalError when the new copy already holds records."""
    discovery = discover.run(flow, clusters)
    topic = _wanted(flow, discovery, begun.topic)
    created = _create(flow, clusters, discovery, topic, begun)
    with held(flow, clusters, "rebuild", run_id) as fence:
        ledger = read_ledger(flow, clusters.target)
        now = _now()
        new = first_life(topic, ledger, discovery.source_cluster_id, now, LifeReason.REBUILD)
        begins = beginning(topic, now)
        rebuilt = replace(begun, topic_id=topic.topic_id, phase=RebuildPhase.COPYING)
        fence.write([
            *erasure(fence.state, topic.topic, fence.progress, read_pieces(flow, clusters.target), ledger),
            noted(fence.state, replace(new, remote_topic_id=created.topic_id)),
            *([noted(fence.state, begins)] if begins is not None else []),
            noted(fence.state, rebuilt),
        ])
    return replace(
        _restore(flow, clusters, rebuilt, read_ledger(flow, clusters.target)),
        deleted=True,
        notes=(f"{topic.remote_topic} is empty and is copied anew, beginning with the next cycle",),
    )


def _create(
    flow: FlowSettings, clusters: Clusters, discovery: Discovery, topic: DiscoveredTopic, begun: Rebuild
) -> TopicDescription:
    configs = dict(begun.configs)
    if not begun.old_remote_topic_id:
        entries = clusters.source.topic_configs([topic.topic]).require()[topic.topic]
        excluded, defaults = flow.config_properties_exclude, flow.use_defaults_from == "source"
        configs = creation_configs(entries, excluded=excluded, with_defaults=defaults)
    factor = clamped(flow.replication_factor, discovery.target_brokers)
    new = NewTopic(topic.remote_topic, topic.partition_count, factor, configs)
    clusters.target.create_topics([new]).require()
    created = clusters.target.describe_topics([topic.remote_topic]).require()[topic.remote_topic]
    partitions = [TopicPartition(created.name, it.partition) for it in created.partitions]
    filled = [it for it, bounds in clusters.target.offsets(partitions).require().items() if bounds.end]
    if filled:
        raise TerminalError(
            f"{created.name} was made again on {flow.target.alias} and holds records that are not ours",
            hint=f"find out who writes to it, delete it, and run `twinlog rebuild --topic {topic.topic}` again",
            code=REFUSED,
            topic=topic.topic,
        )
    return created


def _restore(flow: FlowSettings, clusters: Clusters, rebuilt: Rebuild, ledger: Ledger) -> RebuildResult:
    """Step 5, as far as the copy has come."""
    begins = ledger.beginnings.get(rebuilt.topic)
    after = restore(flow, clusters, rebuilt, begins.offsets if begins is not None else {})
    if after != rebuilt:
        write_ledger(flow, clusters.target, [after])
    known = [it for it in after.groups if it.upstream is not None]
    return RebuildResult(
        flow.name,
        after.topic,
        after.remote_topic,
        after.phase,
        deleted=False,
        restored=tuple(sorted({it.group for it in known if it.restored})),
        waiting=tuple(sorted({it.group for it in known if not it.restored})),
        unknown=tuple(sorted({it.group for it in after.groups if it.upstream is None})),
    )


def _described(target: ClusterReader, name: str) -> TopicDescription | None:
    seen = target.describe_topics([name])
    error = seen.refused.get(name)
    if error is not None and error.code != "unknown-topic":
        raise error
    return seen.found.get(name)


def _now() -> int:
    return int(time.time() * 1000)
