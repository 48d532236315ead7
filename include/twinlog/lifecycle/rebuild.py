"""Copying a topic anew: its copy is deleted, made again under the same name, and filled from the source's log start.

    1. plan      what would be deleted and what can be copied again; refused while anybody reads the copy, and
                 where others write to it
    2. note      behind the fence: Rebuild(deleting), with where every group of the target stands, upstream
    3. delete    the copy, if it is still the one that was noted, and make it again with its own settings
    4. begin     behind the fence, one transaction: progress, map, gaps of the old copy are forgotten, the new life of
                 the copy is noted, Rebuild(copying); from here on ordinary cycles copy the topic
    5. restore   in later cycles: each group goes on exactly where it stood, once the copy has come that far

Every step finds out by itself whether it is done; a run that died is gone on with by the next cycle, or by hand.
While Rebuild(deleting) stands in the ledger nothing is copied into the topic (docs/decisions/0011-rebuild.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import held
from twinlog.formats.ledger.topics import IncarnationReason, Rebuild, RebuildPhase
from twinlog.lifecycle.fresh_copy import delete_copy, make_copy, own_configs, require_empty
from twinlog.lifecycle.reader_positions import restore
from twinlog.lifecycle.rebuild_plan import (
    as_it_stands,
    overtaken,
    plan_of,
    refuse_while_read,
    refuse_while_shared,
    serves,
    stale,
    wanted,
)
from twinlog.lifecycle.records import beginning, current_incarnation, erasure, noted
from twinlog.state.ledger import Ledger, read_ledger, write_ledger
from twinlog.state.progress import stored_segments
from twinlog.topics import discover
from twinlog.topics.pauses import why_paused, why_standing_by


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

    One of the same `request` is not begun again; without any ("") none that is being copied is.

    Raises TerminalError `rebuild-refused` when it cannot be begun (the source does not have the topic, somebody
    reads the copy, others write to it, the flow is not active), FencedError, and errors of clusters.  The state is then
    as it was; a rebuild that was noted stays noted, and goes on when what kept it has gone.
    """
    ledger = read_ledger(flow, clusters.target)
    before = ledger.rebuilds.get(topic)
    if before is not None and before.phase is not RebuildPhase.DELETING:
        outlived = stale(discover.run(flow, clusters), topic)
        if not outlived and serves(before, request):
            return _restore(flow, clusters, before, ledger)
    begun = _note(flow, clusters, topic, before, by=by, reason=reason, request=request, run_id=run_id)
    if begun.phase is RebuildPhase.DELETING:
        delete_copy(flow, clusters, begun)
        return _begin(flow, clusters, begun, run_id)
    return _restore(flow, clusters, begun, read_ledger(flow, clusters.target))


def _note(
    flow: FlowSettings,
    clusters: Clusters,
    topic: str,
    before: Rebuild | None,
    *,
    by: str,
    reason: str,
    request: str,
    run_id: str | None,
) -> Rebuild:
    """Step 2; `before` is what the ledger said when it was decided to begin or to go on.

    What it returns is not `deleting` when another run has done that since.
    """
    with held(flow, clusters, "rebuild", run_id) as fence:
        ledger = read_ledger(flow, clusters.target)
        begun = ledger.rebuilds.get(topic)
        if begun is not None and (begun.phase is RebuildPhase.DELETING or overtaken(before, begun, request)):
            joined = begun.joined_by(request)
            if joined != begun:
                # Else its retry would find a rebuild of somebody else's, and begin anew.
                fence.write([noted(fence.state, joined)])
            return joined
        todo = plan_of(flow, clusters, discover.run(flow, clusters), ledger, topic)
        refuse_while_shared(flow, todo)
        refuse_while_read(flow, todo)
        begun = Rebuild(
            topic,
            todo.topic_id,
            todo.remote_topic,
            todo.remote_topic_id,
            RebuildPhase.DELETING,
            by,
            reason,
            clock.now_ms(),
            configs=own_configs(clusters.target, todo.remote_topic),
            groups=todo.groups,
            request=request,
        )
        fence.write([noted(fence.state, begun)])
    return begun


def _begin(flow: FlowSettings, clusters: Clusters, begun: Rebuild, run_id: str | None) -> RebuildResult:
    """Steps 3 (second half) and 4.

    What counts is looked at behind the fence: another run may have come here first, and its copy be filled by now.
    Raises TerminalError `rebuild-refused` when the new copy holds records that nobody copied, and TransientError when
    copy or rebuild are others by now.
    """
    discovery = discover.run(flow, clusters)
    topic = wanted(flow, discovery, begun.topic)
    created = make_copy(flow, clusters, discovery, topic, begun)
    with held(flow, clusters, "rebuild", run_id) as fence:
        ledger = read_ledger(flow, clusters.target)
        standing = as_it_stands(ledger, begun)
        first = standing.phase is RebuildPhase.DELETING
        if first:
            require_empty(flow, clusters, created, begun)
            standing = replace(standing, topic_id=topic.topic_id, phase=RebuildPhase.COPYING)
            life = current_incarnation(
                topic, ledger, discovery.source_cluster_id, clock.now_ms(), IncarnationReason.REBUILD
            )
            begins = beginning(topic, life.since_ms)
            fence.write([
                *erasure(
                    fence.state, topic.topic, fence.progress, stored_segments(flow, clusters.target), ledger
                ),
                noted(fence.state, replace(life, remote_topic_id=created.topic_id)),
                *([noted(fence.state, begins)] if begins is not None else []),
                noted(fence.state, standing),
            ])
    done = _restore(flow, clusters, standing, read_ledger(flow, clusters.target))
    said = f"{topic.remote_topic} is empty and is copied anew, beginning with the next cycle"
    return replace(done, deleted=True, notes=(said,)) if first else done


def restore_reached(flow: FlowSettings, clusters: Clusters) -> None:
    """Commit the positions that copies made anew have come to by now: behind a copy, before groups are begun there.

    Nothing of what is paused.  Raises errors of clusters.
    """
    ledger = read_ledger(flow, clusters.target)
    for it in ledger.rebuilds.values():
        held_up = why_standing_by(ledger) or why_paused(ledger, it.topic)
        if it.phase is RebuildPhase.COPYING and not held_up:
            _restore(flow, clusters, it, ledger)


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
