"""Give producers their rights on the target: the metadata plan of profile `promoted`, made now or kept for this day."""

from __future__ import annotations

from dataclasses import replace

from twinlog.clock import iso
from twinlog.cluster.api import Clusters
from twinlog.config.flow.metadata import Profile
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.formats.ledger.recovery import RecoveryRun, StepState
from twinlog.judge.check import Mode
from twinlog.metadata import apply_plan, sync
from twinlog.metadata.apply_plan import with_profile
from twinlog.metadata.values import MetadataPlan
from twinlog.procedure import Outcome, Step, StepName, done, failed
from twinlog.recovery import transitions
from twinlog.recovery.steps.source_writers import (
    denied_to_everybody,
    forget_denials,
    forget_denials_on_target,
)
from twinlog.recovery.steps.world import World
from twinlog.state.ledger import read_ledger
from twinlog.topics.pauses import why_suspended
from twinlog.visible import and_more, listed


def apply_rights(world: World) -> Outcome:
    """Apply the metadata plan: a new one in a planned failover, else the one that a cycle has kept.

    Denials go first, for clients work on the target from now on: those that an unfinished way home has left there, and
    those of the failover from which clients were on their way home when the source was lost.

    A refused change stops a planned failover, which can wait.  If the source is lost, waiting helps no client:
    the failover goes on and names what is missing.
    """
    why, lifted = _lift_denials(world)
    if why:
        return failed(f"{world.flow.target.alias} still denies WRITE, {why}")
    outcome = _planned(world) if world.mode is Mode.PLANNED else _as_kept(world)
    return replace(outcome, message="; ".join(filter(None, [lifted, outcome.message])))


def _lift_denials(world: World) -> tuple[str, str]:
    """Remove denials of WRITE from the target; say since when one stays and why, and how many were removed."""
    target, removed = world.clusters.target, 0
    for run in world.ledger.recoveries:
        if run.failover and (why := forget_denials(target, world.journal, run)):
            return f"since {run.run}: {why}", ""
        if run.run == world.run and run.home:
            removed = len(run.denied_on_target)
            if why := forget_denials_on_target(target, world.journal, run):
                return f"since the failover of {run.home}: {why}", ""
    return "", f"{removed:,} denials of WRITE removed from {world.flow.target.alias}" if removed else ""


def _planned(world: World) -> Outcome:
    flow = with_profile(world.flow, Profile.PROMOTED)
    plan = sync.make_plan(flow, world.clusters)
    text, missing = _apply(
        flow, world, plan, [f"{refusal.name}: {refusal.message}" for refusal in plan.refused], ""
    )
    if missing:
        return failed(f"{text}; make it by hand, or mend what forbids it, and run it again")
    return done(text)


def _as_kept(world: World) -> Outcome:
    """Apply the plan that a cycle has kept; a flow that only brings home has none: its target keeps its own rights."""
    flow, target = with_profile(world.flow, Profile.PROMOTED), world.clusters.target
    ledger = world.ledger
    topics = {incarnation.remote_topic for incarnation in ledger.incarnations.values()}
    shut, notes = "", list[str]()
    if names := denied_to_everybody(target, topics):
        shut = (
            f"; {target.alias} denies WRITE to everybody on {listed(names)}, not by this run: is that meant?"
        )
        notes.append(shut.removeprefix("; "))
    if ledger.promotion_plan is None:
        text = f"{target.alias} keeps its own rights"
        if flow.homes is None:
            text = "no cycle has kept a plan: give producers their rights on the target by hand"
            notes.append(text)
        return world.noting(done(f"{text}{shut}"), *notes)
    kept = apply_plan.fitting(flow, ledger, target)
    age = f", as planned at {iso(ledger.promotion_plan.at_ms)}"
    text, missing = _apply(flow, world, kept.plan, list(kept.outdated), age)
    text += shut
    if missing:
        notes.append(text)
        text += "; see to it: twinlog metadata plan --profile promoted"
    return world.noting(done(text), *notes)


def own_rights(flow: FlowSettings, clusters: Clusters) -> list[str]:
    """Give the target's rights back the flow's own profile; return what could not be done.

    A flow that only brings home has given none.
    """
    if flow.homes is not None:
        return []
    try:
        refused = sync.run(flow, clusters).refused
    except TwinlogError as error:
        return [
            f"rights on {flow.target.alias} are as the failover left them: {error.message}; metadata apply"
        ]
    return [f"{refusal.name}: {refusal.message}" for refusal in refused]


def _undo(world: World, run: RecoveryRun) -> list[str]:
    """Give the target's own rights back, unless the flow stays suspended and no right was given before the approval.

    Those of a copy that another engine makes are that engine's, until they were changed.
    """
    approved = any(entry.step == StepName.APPROVE and entry.state is StepState.DONE for entry in run.journal)
    if not approved and (world.flow.observed or why_suspended(world.ledger)):
        return []
    return own_rights(world.flow, world.clusters)


def _apply(
    flow: FlowSettings, world: World, plan: MetadataPlan, missing: list[str], age: str
) -> tuple[str, bool]:
    """Apply a plan of the promoted `flow`; say what was done, and whether something is missing."""
    result = sync.apply(flow, replace(plan, refused=()), world.clusters.target)
    missing += [f"{refusal.name}: {refusal.message}" for refusal in result.refused]
    notes = f"; {'; '.join(result.notes)}" if result.notes else ""
    text = f"{len(result.applied):,} changes made{age}{notes}"
    if not missing:
        return text, False
    return f"{text}; not made: {missing[0]}{and_more(len(missing))}", True


def _look(world: World) -> str:
    """Say what would change; without the source, the denials of a failover that is over go too."""
    flow, target = world.flow, world.clusters.target
    if world.mode is Mode.PLANNED:
        seen, promoted = world.found.observed, with_profile(flow, Profile.PROMOTED)
        try:
            plan = (
                sync.plan_by(promoted, seen.facts.ledger, seen.both)
                if seen is not None
                else sync.make_plan(promoted, world.clusters)
            )
        except TwinlogError as error:
            return f"unknown ({error.message}) changes on {target.alias}"
        return f"{len(plan.changes):,} changes on {target.alias}"
    ledger, texts = read_ledger(flow, target), []
    run = transitions.open_run(ledger)
    if run is not None and run.denied_on_target:
        texts.append(f"would remove {len(run.denied_on_target):,} denials of WRITE on {target.alias}")
    if ledger.promotion_plan is not None:
        changes = len(apply_plan.fitting(flow, ledger, target).plan.changes)
        texts.append(f"{changes:,} changes on {target.alias}")
    elif flow.homes is None:
        texts.append("no cycle has kept a plan")
    return "; ".join(texts) or f"{target.alias} keeps its own"


RIGHTS = Step(
    StepName.RIGHTS,
    "gives producers their rights on the target: the metadata plan of profile `promoted`",
    "every change made, or nothing to change",
    "planned: the step fails and names the change; make it by hand and run it again. Source-dead: it goes on, and names"
    " what is missing",
    apply_rights,
    _look,
    undo=_undo,
)
