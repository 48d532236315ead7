"""Fail a flow over: walk the steps of its procedure, note each in the ledger, stop where one says so.

Running it again goes on: a failover that was killed, refused or kept waiting is taken up by the next command, on this
machine or another.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace

from twinlog import clock
from twinlog.cluster.api import Clusters, awaited
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import RecoveryRun
from twinlog.gate.accepting import require_approver
from twinlog.judge.check import Mode
from twinlog.procedure import Outcome, Step, StepName
from twinlog.recovery import transitions, walking
from twinlog.recovery.journal import Journal, acting
from twinlog.recovery.procedure import Actor, says_yes
from twinlog.recovery.report import FailoverReport, State, stopped_in
from twinlog.recovery.reverse import Way, as_noted, once_back
from twinlog.recovery.steps import ending, engine, groups, planned, registries, rights, source_dead
from twinlog.recovery.steps.forbidden import amounts_of
from twinlog.recovery.steps.world import LOOKING, Request, Tools, World
from twinlog.recovery.transitions import brings_nothing_home, is_idle, taken_back
from twinlog.state.ledger import read_ledger, require_ledger

BEGIN: Step[World] = Step(
    StepName.BEGIN,
    "takes the flow's fence and writes the state `failing-over`: every cycle, follow run and Dag stands by",
    "`failing-over` in `twinlog status`",
    "another failover is under way: `twinlog recovery status` says whose",
)
BEHIND = (
    *(ending.APPROVE, rights.RIGHTS, ending.PROMOTE, registries.SCHEMAS),
    *(ending.SWITCH, ending.CANARY, ending.REPORT),
)
STEPS: dict[str, tuple[Step[World], ...]] = {
    Mode.PLANNED: (BEGIN, planned.FENCE, planned.DRAIN, groups.GROUPS, planned.AUDIT, ending.GATE, *BEHIND),
    Mode.SOURCE_DEAD: (
        *(BEGIN, source_dead.LOSS, ending.GATE_WITHOUT_SOURCE, ending.APPROVE, source_dead.GROUPS),
        *BEHIND[1:],
    ),
}
"""The steps of both modes, in their order."""
_BEGIN = replace(BEGIN, does="writes the state `failing-over`: every cycle and Dag stands by")
_FENCES = (
    "refuses if a check of the gate fails that no step mends; denies WRITE on the source if it keeps ACLs; watches"
    " that the ends of its partitions stand still"
)
_PLACES = "commits the position of every group on the target by the map, wherever the engine has put it"
_BEHIND = rights.RIGHTS, ending.PROMOTE, ending.SWITCH, ending.REPORT
OBSERVED: dict[str, tuple[Step[World], ...]] = {
    Mode.PLANNED: (
        *(_BEGIN, replace(planned.FENCE, does=_FENCES), engine.THROUGH, engine.STOPPED),
        *(replace(groups.GROUPS, does=_PLACES), ending.GATE, ending.APPROVE, *_BEHIND),
    ),
    Mode.SOURCE_DEAD: (
        *(_BEGIN, source_dead.LOSS, ending.GATE_WITHOUT_SOURCE, ending.APPROVE),
        *(engine.STOPPED, source_dead.GROUPS, *_BEHIND),
    ),
}
"""Those of a flow that another engine copies: it has no lanes, schemas and heartbeats of its own."""


def steps_of(mode: str, *, observed: bool) -> tuple[Step[World], ...]:
    """Return the steps of a failover, of a flow that another engine copies if it is `observed`."""
    return (OBSERVED if observed else STEPS)[mode]


def run(flow: FlowSettings, clusters: Clusters, request: Request, tools: Tools = LOOKING) -> FailoverReport:
    """Fail over, or go on with the failover that is under way; a dry run says what that would do now.

    A step that fails or waits is in the report.  Raises TerminalError `promoted` if nothing is left to do, `paused`,
    `no-ledger` before the first cycle, `no-approver`, `live-run` if another operator is busy with it,
    `no-failover` for a flow that only brings home and brings nothing home now,
    and FencedError `relieved` if another process has taken over.
    """
    flow = as_noted(flow, clusters.target)
    if_lost = awaited(flow.source.alias, "if it is lost: twinlog failover --mode source-dead", flow=flow.name)
    with if_lost if request.mode is Mode.PLANNED else nullcontext():
        if flow.homes is not None and is_idle(read_ledger(flow, clusters.target)):
            raise brings_nothing_home(flow.name)
        require_ledger(flow, clusters.target)
        return (_look if request.dry_run else _run)(flow, clusters, request, tools)


def _look(flow: FlowSettings, clusters: Clusters, request: Request, tools: Tools) -> FailoverReport:
    """Return the steps as they would be done; of a flow that was promoted, what was to be done."""
    ledger, mode, asker = read_ledger(flow, clusters.target), request.mode, Actor(request.by, "")
    under_way, changed = transitions.open_run(ledger), ""
    if ledger.phase is not FlowPhase.PROMOTED:
        changed = transitions.begin(
            *(flow.name, ledger, mode, asker, "dry run", clock.now_ms()),
            only_brings_home=flow.homes is not None,
            observed=flow.observed,
        ).run.changed_mode
    run = under_way.run if under_way is not None else ""
    world = replace(World.of(Way(flow, clusters), request, tools, asker, run), mode=mode)
    world, _ = walking.look(world, steps_of(mode, observed=flow.observed), under_way)
    found = world.found
    standing = State.PROMOTED if ledger.phase.out_of_service else State.FOLLOWING
    again = f"; goes on with {run}{changed}" if run else ""
    return FailoverReport(
        flow=flow.name,
        run=run,
        mode=mode,
        state=State.WAITING if run else standing,
        dry_run=True,
        steps=world.steps,
        topics=found.topics,
        groups=found.groups,
        rpo_seconds=found.loss.seconds if found.loss is not None else None,
        by=request.by,
        next=f"twinlog failover --mode {mode.value} --flow '{flow.name}'{again}",
        estimate=found.loss.estimate if found.loss is not None else "",
        accept=amounts_of(found.forbidding),
    )


def _run(flow: FlowSettings, clusters: Clusters, request: Request, tools: Tools) -> FailoverReport:
    ledger = read_ledger(flow, clusters.target)
    actor = acting(request.by, "failover", request.driver)
    promoted = ledger.phase is FlowPhase.PROMOTED
    if not promoted and says_yes(request.only):
        require_approver(flow, request.by)
    before = ledger.present_recovery
    mode = Mode(before.mode) if promoted and before is not None else request.mode
    journal = Journal(flow, clusters, actor, ask_source=mode is Mode.PLANNED and not promoted)
    began = time.monotonic()
    tools.told(StepName.BEGIN, None)
    if promoted:
        taken = journal.move(lambda now: transitions.retake(flow.name, now, actor, clock.now_ms()))
    else:
        name, home = clock.new_run_name("failover"), flow.homes is not None
        taken = journal.move(
            lambda now: transitions.begin(
                *(flow.name, now, mode, actor, name, clock.now_ms()),
                only_brings_home=home,
                observed=flow.observed,
            )
        )
    assert taken is not None
    world = World.of(Way(flow, clusters), request, tools, actor, taken.run, ask_source=journal.ask_source)
    steps = steps_of(mode, observed=flow.observed)
    world, stopped = walking.go(replace(world, mode=mode), steps, taken, began, "failing over")
    flow, found = world.flow, world.found
    run, promoted, told = walking.ended(world, steps, stopped)
    return FailoverReport(
        **told,
        mode=mode,
        state=State.PROMOTED if promoted else stopped_in(stopped),
        topics=found.topics,
        groups=found.groups,
        next=_next(flow, mode, stopped, run, promoted=promoted),
        estimate=found.loss.estimate if found.loss is not None else "",
    )


def report_of(flow: FlowSettings, run: RecoveryRun) -> FailoverReport:
    """Return the report of a failover that is over, as the ledger tells it: without its topics and groups.  Pure."""
    mode = Mode(run.mode)
    told = walking.over(flow, steps_of(mode, observed=flow.observed), run)
    return FailoverReport(
        **told, mode=mode, state=State.PROMOTED, next=_next(flow, mode, None, run, promoted=True)
    )


def _next(
    flow: FlowSettings, mode: Mode, stopped: Outcome | None, run: RecoveryRun | None, *, promoted: bool
) -> str:
    """Say what can be done now."""
    again = f"twinlog failover --mode {mode.value} --flow '{flow.name}'"
    if stopped is not None or not promoted:
        if promoted:
            return f"{again} goes on after the promotion; there is no way back but a failback"
        back = f"; twinlog recovery abort --flow '{flow.name}' --reason ... {taken_back(run)}" if run else ""
        return f"{again} goes on{back}"
    if run is not None and run.home:
        return f"start consumers, then producers, on {flow.target.alias}; {once_back(flow, run.home)}"
    denied = len(run.denied) if run is not None else 0
    stays = f"; {flow.source.alias} goes on denying WRITE on {denied:,} topics" if denied else ""
    return f"start consumers, then producers, on {flow.target.alias}{stays}"
