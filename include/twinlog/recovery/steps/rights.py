"""Give producers their rights on the target: the metadata plan of profile `promoted`, made now or kept for this day."""

from __future__ import annotations

from dataclasses import replace

from twinlog.checks.risk import iso
from twinlog.config.flow.metadata import Profile
from twinlog.gate.suites.suites import Mode
from twinlog.metadata import promotion, sync
from twinlog.metadata.apply_plan import with_profile
from twinlog.recovery.report import Outcome, done, failed
from twinlog.recovery.steps.scene import Scene
from twinlog.recovery.steps.source_writers import forget_denials
from twinlog.state.ledger import read_ledger
from twinlog.visible import and_more


def apply_rights(scene: Scene) -> Outcome:
    """Apply the plan; made anew while the source lives, else as a cycle kept it.

    Denials go first that an unfinished way home has left on the target: there, clients work from now on.

    A refused change stops a planned failover, which can wait.  If the source is lost, nobody is helped by waiting: the
    failover goes on and names what is missing.
    """
    for run in read_ledger(scene.flow, scene.clusters.target).recoveries:
        if run.failover and (why := forget_denials(scene.clusters.target, scene.journal, run)):
            return failed(f"{scene.flow.target.alias} still denies WRITE, since {run.run}: {why}")
    if scene.mode is Mode.PLANNED:
        flow = with_profile(scene.flow, Profile.PROMOTED)
        plan, age = sync.make_plan(flow, scene.clusters), ""
        missing = [f"{it.name}: {it.message}" for it in plan.refused]
    else:
        flow = with_profile(scene.flow, Profile.PROMOTED)
        ledger = read_ledger(scene.flow, scene.clusters.target)
        if ledger.promotion_plan is None:
            text = "no cycle has kept a plan: give producers their rights on the target by hand"
            scene.notes.append(text)
            return done(text)
        kept = promotion.fitting(flow, ledger.promotion_plan, scene.clusters.target)
        plan, missing = kept.plan, list(kept.outdated)
        age = f", as planned at {iso(ledger.promotion_plan.at_ms)}"
    result = sync.apply(flow, replace(plan, refused=()), scene.clusters.target)
    missing += [f"{it.name}: {it.message}" for it in result.refused]
    notes = f"; {'; '.join(result.notes)}" if result.notes else ""
    text = f"{len(result.applied):,} changes made{age}{notes}"
    if not missing:
        return done(text)
    text = f"{text}; not made: {missing[0]}{and_more(len(missing))}"
    if scene.mode is Mode.PLANNED:
        return failed(f"{text}; make it by hand, or mend what forbids it, and run it again")
    scene.notes.append(text)
    return done(f"{text}; see to it: twinlog metadata plan --profile promoted")
