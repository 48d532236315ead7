"""Fail a flow over: walk the steps of its procedure, note each in the ledger, stop where one says so.

Running it again goes on: a failover that was killed, refused or kept waiting is taken up by the next command, on this
machine or another.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.cluster.open import Clusters, awaited
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ExitCode, TwinlogError, UsageError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import RecoveryRun, StepState
from twinlog.gate.suites.suites import Mode
from twinlog.groups.time_machine import require_known
from twinlog.recovery import preview, transitions
from twinlog.recovery.journal import Journal
from twinlog.recovery.procedure import StepName, asked, left
from twinlog.recovery.report import FailoverReport, Outcome, State, StepReport
from twinlog.recovery.reverse import Way, as_noted, once_back
from twinlog.recovery.steps import (
    consistent_cut,
    ending,
    groups_at,
    planned,
    registries,
    rights,
    source_dead,
    timed,
    untold,
)
from twinlog.recovery.steps.scene import Scene, Tools
from twinlog.recovery.transitions import Actor, taken_back
from twinlog.state.ledger import Ledger, read_ledger, require_ledger

Deed = Callable[[Scene], Outcome]

_DEEDS: Mapping[tuple[Mode, StepName], Deed] = {
    (Mode.PLANNED, StepName.FENCE_PRODUCERS): planned.fence_producers,
    (Mode.PLANNED, StepName.DRAIN): planned.drain_both,
    (Mode.PLANNED, StepName.GROUPS): planned.place_groups,
    (Mode.PLANNED, StepName.AUDIT): planned.prove_tail,
    (Mode.SOURCE_DEAD, StepName.LOSS): source_dead.count_loss,
    (Mode.SOURCE_DEAD, StepName.CONSISTENT_CUT): consistent_cut.find_cut,
    (Mode.SOURCE_DEAD, StepName.GROUPS): source_dead.place_from_checkpoints,
    **{
        (mode, name): deed
        for mode in Mode
        for name, deed in {
            StepName.GATE: ending.ask_gate,
            StepName.APPROVE: ending.approve,
            StepName.RIGHTS: rights.apply_rights,
            StepName.GROUPS_AT: groups_at.put_back,
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

    `groups_at_ms` is the time to which groups go back (epoch ms); None: they go on where they stand, or as the failover
    that is under way says.  So it is with `consistent_cut`: None is as that one says.  `driver` is what the names of
    the processes that work for one request begin with.
    """

    mode: Mode
    by: str
    dry_run: bool = False
    groups_at_ms: int | None = None
    driver: str = "failover"
    consistent_cut: bool | None = None


def run(flow: FlowSettings, clusters: Clusters, request: Request, tools: Tools) -> FailoverReport:
    """Fail over, or go on with the failover that is under way.

    A step that fails or waits is in the report.  Raises TerminalError `promoted` if nothing is left to do, `paused`,
    `no-ledger` before the first cycle, `no-failover` for a flow that only brings home, brings nothing home now, and
    whose source answers, and FencedError `relieved` if another process has taken over.
    """
    if request.dry_run:
        return look(flow, clusters, request, tools.reverse)
    flow = as_noted(flow, clusters.target)
    if _is_untold(flow, clusters, request):
        untold.make_ready(flow, clusters)
    with source_needed(flow, request.mode):
        require_ledger(flow, clusters.target)
        return _run(flow, clusters, request, tools)


def look(flow: FlowSettings, clusters: Clusters, request: Request, reverse: Way | None) -> FailoverReport:
    """Say what a failover would do now, and change nothing.  Raises as `run`."""
    flow = as_noted(flow, clusters.target)
    if _is_untold(flow, clusters, request):
        return untold.preview(flow, reverse, clusters, request.by)
    cut = request.consistent_cut
    with source_needed(flow, request.mode):
        require_ledger(flow, clusters.target)
        if cut:
            require_cut(flow, read_ledger(flow, clusters.target), request.mode, request.groups_at_ms)
        return preview.run(flow, clusters, request.mode, request.by, request.groups_at_ms, cut=cut)


def _is_untold(flow: FlowSettings, clusters: Clusters, request: Request) -> bool:
    """Say whether the failover is untold, after what such a one needs is checked.  Raises as the checks."""
    if not untold.is_untold(flow, read_ledger(flow, clusters.target)):
        return False
    untold.require_lost(flow, clusters, request.mode)
    untold.require_no_places(flow, request.groups_at_ms, cut=bool(request.consistent_cut))
    return True


def source_needed(flow: FlowSettings, mode: Mode) -> AbstractContextManager[None]:
    """Name the other mode to a person whose planned failover finds that the source does not answer."""
    if mode is not Mode.PLANNED:
        return nullcontext()
    return awaited(flow.source.alias, "if it is lost: twinlog failover --mode source-dead", flow=flow.name)


def _run(flow: FlowSettings, clusters: Clusters, request: Request, tools: Tools) -> FailoverReport:
    ledger = read_ledger(flow, clusters.target)
    actor = Actor(request.by, f"{request.driver}-{uuid.uuid4().hex[:12]}")
    promoted = ledger.phase is FlowPhase.PROMOTED
    if request.consistent_cut:
        require_cut(flow, ledger, request.mode, request.groups_at_ms)
    if request.groups_at_ms is not None:
        require_time(flow, ledger, request.groups_at_ms)
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
                request.groups_at_ms,
                consistent_cut=request.consistent_cut,
                only_brings_home=flow.homes is not None,
            )
        )
    assert taken is not None
    scene = Scene(replace(flow, recovery_run=taken.run), clusters, tools, journal, mode, taken.run)
    scene.journal = replace(journal, flow=scene.flow)
    scene.groups_at_ms, scene.untold = taken.groups_at_ms, taken.untold
    scene.steps = asked(mode, taken)
    steps = [*done_before(taken)] if promoted else []
    todo = left(mode, taken)
    if not promoted:
        went_on = len(taken.journal) > 0
        text = f"{'goes on with' if went_on else 'began'} {taken.run}; {flow.name} is failing over"
        first = StepReport(StepName.BEGIN, StepState.DONE, round(time.monotonic() - began, 3), text)
        steps.append(first)
        note(scene, first)
        tools.told(StepName.BEGIN, Outcome(first.state, first.message))
    return walk(scene, todo, steps)


def require_time(flow: FlowSettings, ledger: Ledger, at_ms: int) -> None:
    """Raise UsageError if groups cannot go back to a time: it is not known, or the target is promoted."""
    run = ledger.present_recovery
    if ledger.phase is FlowPhase.PROMOTED and (run is None or run.groups_at_ms != at_ms):
        raise UsageError(
            f"{groups_at.OPTION}: {flow.name} is promoted: its groups belong to applications on {flow.target.alias}",
            hint="go on without the option; kafka-consumer-groups resets a group that is stopped",
        )
    require_known(flow, ledger, at_ms, groups_at.OPTION)


def require_cut(flow: FlowSettings, ledger: Ledger, mode: Mode, groups_at_ms: int | None) -> None:
    """Raise UsageError if there can be no consistent cut: nothing is lost, or groups go elsewhere, or are placed."""
    option, run = consistent_cut.OPTION, ledger.present_recovery
    if mode is Mode.PLANNED:
        raise UsageError(
            f"{option}: a planned failover loses nothing, so no transaction is split", hint="leave it out"
        )
    if groups_at_ms is not None:
        raise UsageError(
            f"{option} and {groups_at.OPTION} both say where groups go on", hint="choose one of them"
        )
    if ledger.phase is FlowPhase.PROMOTED and not (run is not None and run.consistent_cut):
        raise UsageError(
            f"{option}: {flow.name} is promoted: its groups belong to applications on {flow.target.alias}",
            hint="go on without the option",
        )
    if not flow.copy.consistent_cut:
        raise UsageError(
            f"{option}: {flow.name} has not noted the source's transactions (twinlog.consistent.cut is off)",
            hint="go on without the option: it has to be on while records are copied",
        )


def walk(scene: Scene, todo: tuple[StepName, ...], steps: list[StepReport[StepName]]) -> FailoverReport:
    """Do the steps in their order, until one ends it."""
    deeds = {name: deed for (mode, name), deed in _DEEDS.items() if mode is scene.mode}
    if scene.untold:
        deeds |= untold.DEEDS
    last = walk_noted(scene, todo, lambda name: deeds[name](scene), steps)
    return _report(scene, steps, last)


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
    return timed.walk(behind, do, scene.tools.told, noted)


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
        for name in asked(run.mode, run)
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
        rto_seconds=_rto(run, run.at_ms),
        rpo_seconds=run.rpo_seconds,
        evidence=run.evidence,
        by=run.by,
        next=_next(flow, mode, None, run, promoted=True),
    )


def _report(scene: Scene, steps: list[StepReport[StepName]], last: Outcome | None) -> FailoverReport:
    run: RecoveryRun | None = None
    promoted = any(it.name is StepName.PROMOTE and it.state is StepState.DONE for it in steps)
    with suppress(TwinlogError):
        run = read_ledger(scene.flow, scene.clusters.target).recovery(scene.run)
    ended = last is not None and last.ends
    seen = {it.name for it in steps}
    not_done = [StepReport(it, StepState.PLANNED, 0.0, "") for it in scene.steps if it not in seen]
    state = State.PROMOTED
    if not promoted:
        refused = last is not None and last.refused
        waits = last is not None and last.state is StepState.WAITING
        state = State.WAITING if waits else State.REFUSED if refused else State.FAILED
    now_ms = clock.now_ms()
    return FailoverReport(
        flow=scene.flow.name,
        run=scene.run,
        mode=scene.mode,
        state=state,
        dry_run=False,
        steps=(*steps, *not_done),
        topics=scene.topics,
        groups=scene.groups,
        rto_seconds=_rto(run, now_ms) if promoted else None,
        rpo_seconds=run.rpo_seconds if run is not None and promoted else None,
        evidence=run.evidence if run is not None else "",
        by=scene.journal.actor.by,
        next=_next(scene.flow, scene.mode, last, run, promoted=promoted),
        estimate=scene.loss.estimate if scene.loss is not None else "",
        cut=scene.cut,
        exit_code=last.exit_code if ended and last is not None else ExitCode.DONE,
        transient=ended and last is not None and last.transient,
    )


def _rto(run: RecoveryRun | None, now_ms: int) -> float | None:
    if run is None:
        return None
    return clock.seconds_since(run.started_ms, run.ended_ms if run.ended_ms is not None else now_ms)


def _next(
    flow: FlowSettings, mode: Mode, last: Outcome | None, run: RecoveryRun | None, *, promoted: bool
) -> str:
    """Say what can be done now."""
    again = f"twinlog failover --mode {mode.value} --flow '{flow.name}'"
    if last is not None and last.ends:
        if promoted:
            return f"{again} goes on after the promotion; there is no way back but a failback"
        back = f"; twinlog recovery abort --flow '{flow.name}' --reason ... {taken_back(run)}" if run else ""
        return f"{again} goes on{back}"
    if run is not None and run.home:
        return f"start consumers, then producers, on {flow.target.alias}; {once_back(flow, run.home)}"
    denied = mode is Mode.PLANNED
    stays = f"; {flow.source.alias} goes on denying WRITE where it was denied" if denied else ""
    return f"start consumers, then producers, on {flow.target.alias}{stays}"
