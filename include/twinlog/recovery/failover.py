"""Fail a flow over: walk the steps of its procedure, note each in the ledger, stop where one says so.

Running it again goes on: a failover that was killed, refused or kept waiting is taken up by the next command, on this
machine or another.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace

from twinlog import clock
from twinlog.cluster.api import Clusters, awaited
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ExitCode, TwinlogError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import RecoveryRun, StepState
from twinlog.gate.accepting import require_approver
from twinlog.jsonable import Json
from twinlog.judge.check import Mode
from twinlog.procedure import Outcome, Step, StepName, StepReport, World, walk
from twinlog.recovery import transitions
from twinlog.recovery.journal import Journal, acting
from twinlog.recovery.procedure import Actor, left, says_yes
from twinlog.recovery.report import FailoverReport, State, done_before, seconds_of, stopped_in
from twinlog.recovery.reverse import as_noted, once_back
from twinlog.recovery.steps import ending, planned, registries, rights, source_dead
from twinlog.recovery.steps.forbidden import amounts_of
from twinlog.recovery.steps.scene import LOOKING, Scene, Tools
from twinlog.recovery.transitions import brings_nothing_home, is_idle, taken_back
from twinlog.state.ledger import read_ledger, require_ledger

BEGIN: Step[Scene] = Step(
    StepName.BEGIN,
    "takes the flow's fence and writes the state `failing-over`: every cycle, follow run and Dag stands by",
    "`failing-over` in `twinlog status`",
    "another failover is under way: `twinlog recovery status` says whose",
)
BEHIND = (
    *(ending.APPROVE, rights.RIGHTS, ending.PROMOTE, registries.SCHEMAS),
    *(ending.SWITCH, ending.CANARY, ending.REPORT),
)
STEPS: dict[str, tuple[Step[Scene], ...]] = {
    Mode.PLANNED: (BEGIN, planned.FENCE, planned.DRAIN, planned.GROUPS, planned.AUDIT, ending.GATE, *BEHIND),
    Mode.SOURCE_DEAD: (
        *(BEGIN, source_dead.LOSS, ending.GATE_WITHOUT_SOURCE, ending.APPROVE, source_dead.GROUPS),
        *BEHIND[1:],
    ),
}
"""The steps of both modes, in their order."""

WRITES_ITSELF = frozenset({StepName.BEGIN, StepName.PROMOTE, StepName.REPORT})
"""Steps whose journal entry is in the transaction that is the step."""


@dataclass(frozen=True, slots=True)
class Request:
    """Tell who fails over, in which mode; with `dry_run` nothing is changed.

    `driver`, if there is one, is what the names of the processes that work for one request begin with.  Of the steps
    that are left, `only` these are done, all if it is empty.  `found` is what an earlier process has found, for the
    evidence: `topics` and `groups` as JSON.
    """

    mode: Mode
    by: str
    dry_run: bool = False
    driver: str = ""
    only: frozenset[StepName] = frozenset()
    found: Json = field(default_factory=dict)


def run(flow: FlowSettings, clusters: Clusters, request: Request, tools: Tools) -> FailoverReport:
    """Fail over, or go on with the failover that is under way.

    A step that fails or waits is in the report.  Raises TerminalError `promoted` if nothing is left to do, `paused`,
    `no-ledger` before the first cycle, `no-approver`, `live-run` if another operator is busy with it,
    `no-failover` for a flow that only brings home and brings nothing home now,
    and FencedError `relieved` if another process has taken over.
    """
    if request.dry_run:
        return look(flow, clusters, request)
    flow = as_noted(flow, clusters.target)
    with source_needed(flow, request.mode):
        _require_ledger(flow, clusters)
        return _run(flow, clusters, request, tools)


def look(flow: FlowSettings, clusters: Clusters, request: Request) -> FailoverReport:
    """Say what a failover would do now, and change nothing.  Raises as `run`."""
    flow = as_noted(flow, clusters.target)
    with source_needed(flow, request.mode):
        _require_ledger(flow, clusters)
        return _look(flow, clusters, request)


def _look(flow: FlowSettings, clusters: Clusters, request: Request) -> FailoverReport:
    """Return the steps as they would be done; of a flow that was promoted, what was to be done."""
    ledger, mode, asker = read_ledger(flow, clusters.target), request.mode, Actor(request.by, "")
    under_way, changed = transitions.open_run(ledger), ""
    if ledger.phase is not FlowPhase.PROMOTED:
        changed = transitions.begin(
            flow.name, ledger, mode, asker, "dry run", clock.now_ms(), only_brings_home=flow.homes is not None
        ).run.changed_mode
    run = under_way.run if under_way is not None else ""
    flow = replace(flow, recovery_run=run)
    scene = Scene(flow, clusters, LOOKING, Journal(flow, clusters, asker, ask_source=False), mode, run)
    ends = flow.source.alias, flow.target.alias
    steps = tuple(StepReport(it.name, StepState.PLANNED, 0.0, it.seen(scene, *ends)) for it in STEPS[mode])
    standing = State.PROMOTED if ledger.phase.out_of_service else State.FOLLOWING
    again = f"; goes on with {run}{changed}" if run else ""
    return FailoverReport(
        flow=flow.name,
        run=run,
        mode=mode,
        state=State.WAITING if run else standing,
        dry_run=True,
        steps=steps,
        topics=scene.topics,
        groups=scene.groups,
        rpo_seconds=scene.loss.seconds if scene.loss is not None else None,
        by=request.by,
        next=f"twinlog failover --mode {mode.value} --flow '{flow.name}'{again}",
        estimate=scene.loss.estimate if scene.loss is not None else "",
        accept=amounts_of(scene.forbidding),
    )


def _require_ledger(flow: FlowSettings, clusters: Clusters) -> None:
    """Raise TerminalError if there is nothing to fail over: `no-ledger`, or `no-failover` of a flow home."""
    if flow.homes is not None and is_idle(read_ledger(flow, clusters.target)):
        raise brings_nothing_home(flow.name)
    require_ledger(flow, clusters.target)


def source_needed(flow: FlowSettings, mode: Mode) -> AbstractContextManager[None]:
    """Name the other mode to a person whose planned failover finds that the source does not answer."""
    if mode is not Mode.PLANNED:
        return nullcontext()
    return awaited(flow.source.alias, "if it is lost: twinlog failover --mode source-dead", flow=flow.name)


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
        name = clock.new_run_name("failover")
        taken = journal.move(
            lambda now: transitions.begin(
                flow.name,
                now,
                mode,
                actor,
                name,
                clock.now_ms(),
                only_brings_home=flow.homes is not None,
            )
        )
    assert taken is not None
    acting_for = replace(flow, recovery_run=taken.run)
    journal = replace(journal, flow=acting_for)
    scene = Scene(acting_for, clusters, tools, journal, mode, taken.run, found=request.found)
    todo = tuple(it for it in left(STEPS[mode], taken) if not request.only or it in request.only)
    steps = [
        it for it in done_before(STEPS[mode], taken) if promoted or (request.only and it.name not in todo)
    ]
    if StepName.BEGIN in todo:
        went_on = len(taken.journal) > 0
        text = f"{'goes on with' if went_on else 'began'} {taken.run}{taken.changed_mode}; {flow.name} is failing over"
        first = StepReport(StepName.BEGIN, StepState.DONE, round(time.monotonic() - began, 3), text)
        steps.append(first)
        note(scene, first)
        tools.told(StepName.BEGIN, Outcome(first.state, first.message))
    stopped = walk_noted(scene, scene, STEPS[mode], todo, steps)
    return _report(scene, steps, stopped)


def walk_noted(
    scene: Scene,
    world: World,
    procedure: Iterable[Step[World]],
    todo: Collection[StepName],
    steps: list[StepReport],
) -> Outcome | None:
    """Do what comes after the beginning in this `world`; keep each step's row, and note it in the scene's journal."""

    def noted(row: StepReport, outcome: Outcome) -> None:
        steps.append(row)
        if row.name not in WRITES_ITSELF or outcome.ends:
            note(scene, row)

    behind = {it.name: it.do for it in procedure if it.name in todo and it.do is not None}
    return walk(behind, lambda name: behind[name](world), scene.tools.told, noted)


def note(scene: Scene, step: StepReport) -> None:
    """Write a step into the journal.

    If the target does not take it, the step counts as not done: the next command does it again.  A process that was
    relieved stops here, also with a step that failed: otherwise its scheduler would try again, and take the failover
    back.
    """
    entry = scene.entry(step.name, step.state, step.seconds, step.message)
    try:
        scene.journal.move(
            lambda now: transitions.note(scene.flow.name, now, scene.journal.actor, scene.run, entry)
        )
    except TwinlogError as error:
        if step.state is not StepState.FAILED or error.code == "relieved":
            raise


def report_of(flow: FlowSettings, run: RecoveryRun) -> FailoverReport:
    """Return the report of a failover that is over, as the ledger tells it: without its topics and groups.  Pure."""
    mode = Mode(run.mode)
    return FailoverReport(
        flow=flow.name,
        run=run.run,
        mode=mode,
        state=State.PROMOTED,
        dry_run=False,
        steps=tuple(done_before(STEPS[mode], run)),
        rto_seconds=seconds_of(run, run.at_ms),
        rpo_seconds=run.rpo_seconds,
        evidence=run.evidence,
        by=run.by,
        next=_next(flow, mode, None, run, promoted=True),
    )


def _report(scene: Scene, steps: list[StepReport], stopped: Outcome | None) -> FailoverReport:
    run: RecoveryRun | None = None
    promoted = any(it.name is StepName.PROMOTE and it.state is StepState.DONE for it in steps)
    with suppress(TwinlogError):
        run = read_ledger(scene.flow, scene.clusters.target).recovery(scene.run)
    if run is not None:  # also if the answer to the promotion was lost
        promoted = run.promoted_ms is not None
    seen = {it.name for it in steps}
    not_done = [
        StepReport(it.name, StepState.PLANNED, 0.0, "") for it in STEPS[scene.mode] if it.name not in seen
    ]
    now_ms = clock.now_ms()
    return FailoverReport(
        flow=scene.flow.name,
        run=scene.run,
        mode=scene.mode,
        state=State.PROMOTED if promoted else stopped_in(stopped),
        dry_run=False,
        steps=(*steps, *not_done),
        topics=scene.topics,
        groups=scene.groups,
        rto_seconds=seconds_of(run, now_ms) if run is not None and promoted else None,
        rpo_seconds=run.rpo_seconds if run is not None and promoted else None,
        evidence=run.evidence if run is not None else "",
        by=scene.journal.actor.by,
        next=_next(scene.flow, scene.mode, stopped, run, promoted=promoted),
        estimate=scene.loss.estimate if scene.loss is not None else "",
        cost=scene.cost,
        exit_code=stopped.exit_code if stopped is not None else ExitCode.DONE,
        transient=stopped is not None and stopped.transient,
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
    denied = mode is Mode.PLANNED
    stays = f"; {flow.source.alias} goes on denying WRITE where it was denied" if denied else ""
    return f"start consumers, then producers, on {flow.target.alias}{stays}"
