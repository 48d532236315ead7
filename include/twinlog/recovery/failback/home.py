"""Bring a promoted flow home: what `failback` saves first, then a planned failover of the reverse flow.

`B->A` copies home what clients wrote on B, and `A->B` leaves it out by the maps: the flow of the file if topics keep
their names, else one of its own (recovery/reverse.py), from each copy into its topic.  As a failover, it goes on
wherever it was stopped; what comes before the promotion of A is done again.

An approval that a person gave beforehand, to a preview, holds for the failover that it showed.  As that of a failover,
it outlives its process, and not a person who has turned back.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace

from twinlog import clock
from twinlog.cluster.api import Clusters, awaited, open_clusters
from twinlog.config.flow.settings import Configuration, FlowSettings
from twinlog.errors import ExitCode, TerminalError
from twinlog.formats.ledger.recovery import FAILBACK, RecoveryRun, RunState
from twinlog.gate.accepting import require_approver
from twinlog.jsonable import Json
from twinlog.procedure import StepName
from twinlog.recovery import homeward, transitions, walking, ways_home
from twinlog.recovery.approved import Approval, relieved_for_good
from twinlog.recovery.failback import failback, home_steps, homes, rights
from twinlog.recovery.failback.home_steps import HOME
from twinlog.recovery.journal import acting
from twinlog.recovery.one_sided.divergence import brings_home
from twinlog.recovery.one_sided.read import Read, opened_logs
from twinlog.recovery.procedure import Actor, Tail, says_yes
from twinlog.recovery.report import FailbackReport, State
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps.ending import AGAIN
from twinlog.recovery.steps.world import Request, Tools, World
from twinlog.recovery.transitions import way_home
from twinlog.state.ledger import Ledger, read_ledger, require_ledger, require_own
from twinlog.topics.snapshot import FlowSnapshot


def run(there: Way, back: Way, request: Request, tools: Tools, read: Read) -> FailbackReport:
    """Bring the flow `there` home, or go on with that; `back` copies home.

    A step that fails or waits is in the report.  Raises, before anything is changed, TerminalError `not-promoted`,
    `no-way-home`, `live-run` if another operator is busy with it,
    what `homeward.lend` refuses, the refusal of another cluster, `unauthorised` if a right
    is missing, and ClusterUnreachable; and FencedError `relieved` if another process has taken over.
    """
    there.flow.require_copied("a way home")
    with target_awaited(there.flow, back.flow):
        return _run(there, back, request, tools, read)


def go(
    configuration: Configuration, flow: FlowSettings, clusters: Clusters, request: Request, tools: Tools
) -> FailbackReport:
    """Bring the flow home as `run` does, by its way home and the logs of both clusters."""
    back = ways_home.way_home(configuration, flow)
    with open_clusters(back) as reversed_ones, opened_logs(flow) as read:
        return run(Way(flow, clusters), Way(back, reversed_ones), request, tools, read)


def target_awaited(flow: FlowSettings, back: FlowSettings) -> AbstractContextManager[None]:
    """Tell a person who finds that the target does not answer how the source is promoted without it."""
    instead = f"twinlog failover --mode source-dead --flow '{back.name}' promotes {flow.source.alias}"
    return awaited(flow.target.alias, f"if it is lost: {instead}")


def _run(there: Way, back: Way, request: Request, tools: Tools, read: Read) -> FailbackReport:
    flow, clusters = there.flow, there.clusters
    ledger = read_ledger(flow, clusters.target)
    under_way = transitions.way_home(ledger)
    name = under_way.run if under_way is not None else clock.new_run_name("failback")
    actor = Actor(request.by, "") if request.dry_run else acting(request.by, "failback", request.driver)
    now = clock.now_ms()
    begun = homeward.set_out(flow.name, ledger, actor, name, now).run
    failback.require_both(flow, clusters, ledger)
    seen = FlowSnapshot(flow, clusters)
    if back.flow.homes is None:
        require_ledger(back.flow, back.clusters.target)
    else:
        back = homes.named(seen, back)
    reverse = read_ledger(back.flow, back.clusters.target)
    require_own(back.flow, reverse, clusters.target.cluster_id(), clusters.source.cluster_id())
    if begun.promoted_ms is None and says_yes(request.only) and not request.dry_run:
        require_approver(flow, request.by)
    if begun.promoted_ms is None:
        lent = homeward.lend(back.flow.name, flow.name, reverse, actor, name, now)
        saved = homes.saved_topics(seen)
        going = homes.going_home(flow, saved)
        for topic in going:
            if not brings_home(back.flow, topic):
                raise TerminalError(
                    f"{topic.topic} is {topic.remote_topic} on {flow.target.alias}, and {back.flow.name} does not bring"
                    f" it home to {topic.topic}",
                    f"twinlog failback --save --flow '{flow.name}' saves what there is; docs/failback.md says how"
                    " clients go home by hand",
                    code="no-way-home",
                    flow=flow.name,
                    topic=topic.topic,
                )
        if back.flow.homes is not None:
            homes.begin(lent, there, back, begun.failover, reverse)
        failover = ledger.recovery(begun.failover)
        rights.require_to_save(flow, clusters, [topic.topic for topic in saved])
        copies, denied = (
            [topic.remote_topic for topic in going],
            failover.denied if failover is not None else (),
        )
        rights.require_to_go_home(back, copies, denied)
    world = replace(
        World.of(there, request, tools, actor, name, ask_source=True),
        reverse=World.of(back, request, tools, actor, name, ask_source=True),
        failover=begun.failover,
        read=read,
        homeward=back.flow,
    )
    if request.dry_run:
        return _preview(world, under_way)
    with failback.source_awaited(flow):
        return _walk(world)


def _walk(world: World) -> FailbackReport:
    """Take both flows, and do the steps that are left."""
    began = time.monotonic()
    world.tools.told(StepName.BEGIN, None)
    world, taken = home_steps.begin(world)
    world, stopped = walking.go(world, HOME, taken, began, "failing back")
    if stopped is not None:
        home_steps.let_cycles(world)
    return home_steps.report(world, stopped)


def _preview(world: World, under_way: RecoveryRun | None) -> FailbackReport:
    """Return the steps as they would be done, with the numbers of now.

    Where groups will go on is known once both maps cover what is to be brought home.
    """
    world, stopped = walking.look(world, HOME, under_way)
    again = f"twinlog failback --flow '{world.flow.name}'"
    state = State.PROMOTED if under_way is None else State.WAITING
    return replace(
        failback.report_of(world),
        state=State.FAILED if stopped is not None else state,
        groups=tuple(
            replace(group, downstream_offset=None, again=None, skipped=None) for group in world.found.groups
        ),
        next=f"{again} goes home" if under_way is None else f"{again} goes on with {under_way.run}",
        exit_code=stopped.exit_code if stopped is not None else ExitCode.DONE,
    )


def last_turned_back(ledger: Ledger) -> str:
    """Return the newest way home that was given up; "" if there is none.  Pure."""
    over = [
        recovery.run
        for recovery in ledger.recoveries
        if recovery.mode == FAILBACK and recovery.failover and recovery.state is RunState.ABORTED
    ]
    return over[-1] if over else ""


def run_approved(
    there: Way,
    back: Way,
    approval: Approval,
    tools: Tools,
    read: Read,
    only: Iterable[StepName] = (),
    found: Json | None = None,
    tail: Tail | None = None,
) -> FailbackReport:
    """Bring the flow `there` home as `run` does, or tell of a way home that an earlier try has ended.

    Raises TerminalError `approval-expired` if the flow was failed over anew, or a person has turned back since,
    `not-approved`, and `relieved` if another process has taken over: a second try would take it back from a person.
    """
    flow, ledger = there.flow, read_ledger(there.flow, there.clusters.target)
    if (ended := approval.ended(ledger)) is not None:
        return home_steps.report_of(flow, ledger, ended)
    _require_valid(flow, ledger, approval)
    approval = approval.of_ledger(ledger)
    asked = frozenset(only)
    request = Request(approval.by, tail=tail, driver=approval.driver, only=asked, found=found or {})
    with relieved_for_good():
        return run(there, back, request, approval.giving(tools), read)


def _require_valid(flow: FlowSettings, ledger: Ledger, approval: Approval) -> None:
    """Raise TerminalError `approval-expired` if it is another failover to come home from, or a person turned back."""
    under_way, present = way_home(ledger), ledger.present_failover
    failover = under_way.failover if under_way is not None else present.run if present is not None else ""
    if failover == approval.failover and last_turned_back(ledger) == approval.last_ended:
        return
    what = "a way home was given up" if failover == approval.failover else "its state has changed"
    raise TerminalError(
        f"{flow.name}: {what} after {approval.by or 'somebody'} had approved",
        AGAIN,
        code="approval-expired",
        flow=flow.name,
    )
