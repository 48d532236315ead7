"""Fail a flow over: walk the steps of its procedure, note each in the ledger, stop where one says so.

Running it again goes on: a failover that was killed, refused or kept waiting is taken up by the next command, on this
machine or another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.cluster.api import Clusters, awaited
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ExitCode, TwinlogError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import RecoveryRun, StepState
from twinlog.gate.suites.suites import Mode
from twinlog.recovery import preview, report, transitions
from twinlog.recovery.journal import Journal, acting
from twinlog.recovery.procedure import StepName, left, names_of
from twinlog.recovery.report import FailoverReport, Outcome, State, StepReport, seconds_of, stopped_in
from twinlog.recovery.reverse import as_noted, once_back
from twinlog.recovery.steps import ending, planned, registries, rights, source_dead
from twinlog.recovery.steps.scene import Scene, Tools
from twinlog.recovery.transitions import brings_nothing_home, is_idle, taken_back
from twinlog.state.ledger import read_ledger, require_ledger

Deed = Callable[[Scene], Outcome]

_DEEDS: Mapping[tuple[Mode, StepName], Deed] = {
    (Mode.PLANNED, StepName.FENCE_PRODUCERS): planned.fence_producers,
    (Mode.PLANNED, StepName.DRAIN): planned.drain_both,
    (Mode.PLANNED, StepName.GROUPS): planned.place_groups,
    (Mode.PLANNED, StepName.AUDIT): planned.prove_tail,
    (Mode.SOURCE_DEAD, StepName.LOSS): source_dead.count_loss,
    (Mode.SOURCE_DEAD, StepName.GROUPS): source_dead.place_from_checkpoints,
    **{
        (mode, name): deed
        for mode in Mode
        for name, deed in {
            StepName.GATE: ending.ask_gate,
            StepName.APPROVE: ending.approve,
            StepName.RIGHTS: rights.apply_rights,
            StepName.PROMOTE: ending.promote,
            StepName.SCHEMAS: registries.let_register,
            StepName.SWITCH_CLIENTS: ending.switch_clients,
            StepName.CANARY: ending.try_target,
            StepName.REPORT: ending.write_evidence,
        }.items()
    },
}
WRITES_ITSELF = frozenset({StepName.BEGIN, StepName.PROMOTE, StepName.REPORT})
"""Steps whose journal entry is in the transaction that is the step."""


@dataclass(frozen=True, slots=True)
class Request:
    """Tell who fails over, in which mode; with `dry_run` nothing is changed.

    `driver`, if there is one, is what the names of the processes that work for one request begin with.
    """

    mode: Mode
    by: str
    dry_run: bool = False
    driver: str = ""


def run(flow: FlowSettings, clusters: Clusters, request: Request, tools: Tools) -> FailoverReport:
    """Fail over, or go on with the failover that is under way.

    A step that fails or waits is in the report.  Raises TerminalError `promoted` if nothing is left to do, `paused`,
    `no-ledger` before the first cycle, `live-run` if another operator is busy with it,
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
        return preview.run(flow, clusters, request.mode, request.by)


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
    scene = Scene(replace(flow, recovery_run=taken.run), clusters, tools, journal, mode, taken.run)
    scene.journal = replace(journal, flow=scene.flow)
    steps = [*done_before(taken)] if promoted else []
    todo = left(mode, taken)
    if not promoted:
        went_on = len(taken.journal) > 0
        text = f"{'goes on with' if went_on else 'began'} {taken.run}{taken.changed_mode}; {flow.name} is failing over"
        first = StepReport(StepName.BEGIN, StepState.DONE, round(time.monotonic() - began, 3), text)
        steps.append(first)
        note(scene, first)
        tools.told(StepName.BEGIN, Outcome(first.state, first.message))
    return walk(scene, todo, steps)


def walk(scene: Scene, todo: tuple[StepName, ...], steps: list[StepReport[StepName]]) -> FailoverReport:
    """Do the steps in their order, until one ends it."""
    deeds = {name: deed for (mode, name), deed in _DEEDS.items() if mode is scene.mode}
    stopped = walk_noted(scene, todo, lambda name: deeds[name](scene), steps)
    return _report(scene, steps, stopped)


def walk_noted(
    scene: Scene,
    todo: Iterable[StepName],
    do: Callable[[StepName], Outcome],
    steps: list[StepReport[StepName]],
) -> Outcome | None:
    """Do what comes after the beginning; keep each step's row, and write it into the journal of the scene."""

    def noted(row: StepReport[StepName], outcome: Outcome) -> None:
        steps.append(row)
        if row.name not in WRITES_ITSELF or outcome.ends:
            note(scene, row)

    behind: list[StepName] = [it for it in todo if it is not StepName.BEGIN]
    return report.walk(behind, do, scene.tools.told, noted)


def note(scene: Scene, step: StepReport[StepName]) -> None:
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


def done_before(run: RecoveryRun) -> list[StepReport[StepName]]:
    """Return the last outcome of each step that was done, of a run that was promoted before."""
    newest = {
        entry.step: entry for entry in run.journal if entry.state in {StepState.DONE, StepState.SKIPPED}
    }
    return [
        StepReport(name, newest[name.value].state, newest[name.value].seconds, newest[name.value].message)
        for name in names_of(run.mode)
        if name.value in newest
    ]


def report_of(flow: FlowSettings, run: RecoveryRun) -> FailoverReport:
    """Return the report of a failover that is over, as the ledger tells it: without its topics and groups.  Pure."""
    mode = Mode(run.mode)
    return FailoverReport(
        flow=flow.name,
        run=run.run,
        mode=mode,
        state=State.PROMOTED,
        dry_run=False,
        steps=tuple(done_before(run)),
        rto_seconds=seconds_of(run, run.at_ms),
        rpo_seconds=run.rpo_seconds,
        evidence=run.evidence,
        by=run.by,
        next=_next(flow, mode, None, run, promoted=True),
    )


def _report(scene: Scene, steps: list[StepReport[StepName]], stopped: Outcome | None) -> FailoverReport:
    run: RecoveryRun | None = None
    promoted = any(it.name is StepName.PROMOTE and it.state is StepState.DONE for it in steps)
    with suppress(TwinlogError):
        run = read_ledger(scene.flow, scene.clusters.target).recovery(scene.run)
    if run is not None:  # also if the answer to the promotion was lost
        promoted = run.promoted_ms is not None
    seen = {it.name for it in steps}
    not_done = [StepReport(it, StepState.PLANNED, 0.0, "") for it in names_of(scene.mode) if it not in seen]
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
        exit_code=stopped.exit_code if stopped is not None else ExitCode.DONE,
        transient=stopped is not None and stopped.transient,
    )


def _next(
    flow: FlowSettings, mode: Mode, stopped: Outcome | None, run: RecoveryRun | None, *, promoted: bool
) -> str:
    """Say what can be done now."""
    again = f"twinlog failover --mode {mode.value} --flow '{flow.name}'"
    if stopped is not None:
        if promoted:
            return f"{again} goes on after the promotion; there is no way back but a failback"
        back = f"; twinlog recovery abort --flow '{flow.name}' --reason ... {taken_back(run)}" if run else ""
        return f"{again} goes on{back}"
    if run is not None and run.home:
        return f"start consumers, then producers, on {flow.target.alias}; {once_back(flow, run.home)}"
    denied = mode is Mode.PLANNED
    stays = f"; {flow.source.alias} goes on denying WRITE where it was denied" if denied else ""
    return f"start consumers, then producers, on {flow.target.alias}{stays}"
