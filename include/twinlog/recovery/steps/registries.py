"""Bring the rest of a flow's schemas before a promotion, and let clients register on the promoted side after it.

A schema registry that cannot be asked stops no failover: consumers know their schemas, and the message says what a
person has to set.
"""

from __future__ import annotations

from twinlog.errors import TwinlogError
from twinlog.formats.ledger.recovery import RecoveryRun
from twinlog.procedure import Outcome, Step, StepName, done, skipped
from twinlog.recovery.steps.world import World
from twinlog.schemas import sync
from twinlog.visible import and_more

BY_HAND = "set it by hand: PUT /mode/SUBJECT READWRITE (docs/schema-registry.md)"


def bring_rest(world: World) -> str:
    """Copy what was registered since the last sync; say what was done, "" if the flow copies no subjects.

    The gate looks again, and judges.
    """
    if not world.flow.metadata.schemas.copied:
        return ""
    try:
        plan = sync.run(world.flow, world.clusters)
    except TwinlogError as error:
        return f"; schemas could not be copied: {error.message}"
    first = f", in the way: {plan.conflicts[0].subject}" if plan.conflicts else ""
    return f"; {plan.changes:,} changes of schemas{first}{and_more(len(plan.conflicts))}"


def let_register(world: World) -> Outcome:
    """Let clients register on the promoted target; what cannot be set is named, and the failover goes on."""
    flow = world.flow
    if not flow.metadata.schemas.copied:
        return skipped(f"{flow.name} copies no subjects of a schema registry")
    try:
        return done(f"{sync.promote(flow):,} subjects of {flow.target.alias} are READWRITE")
    except TwinlogError as error:
        text = f"clients may not be able to register on {flow.target.alias}: {error.message}; {BY_HAND}"
        return world.noting(done(f"see to it: {text}"), text)


def look(world: World) -> str:
    """Say what `let_register` would do now."""
    flow = world.flow
    if not flow.metadata.schemas.copied:
        return "nothing: the flow copies no subjects of a schema registry"
    try:
        return f"would let clients register {len(sync.to_promote(flow)):,} subjects of {flow.target.alias}"
    except TwinlogError as error:
        return f"unknown ({error.message})"


def come_home(there: World, back: World) -> Outcome:
    """Let clients register on the source again, and on the target no more.

    Both at once, before the reverse flow follows: else it would take the source's subjects for copies.
    """
    flows = [flow for flow in (there.flow, back.flow) if flow.metadata.schemas.copied]
    if not flows:
        return skipped(f"neither {there.flow.told} nor {back.flow.told} copies subjects of a schema registry")
    if back.flow in flows:
        sync.promote(back.flow)
    text = f"clients register on {there.flow.source.alias}"
    if there.flow not in flows:
        return done(text)
    plan = sync.return_home(there.flow, there.clusters)
    if plan.conflicts:
        first = plan.conflicts[0]
        what = f"{first.subject}: {first.message}"
        return there.noting(done(f"{text}; see to it: {what}{and_more(len(plan.conflicts))}"), what)
    return done(f"{text}, not on {there.flow.target.alias}")


def _undo(world: World, run: RecoveryRun) -> list[str]:
    """Let clients register on the source's schema registry again, and on the target's no more."""
    if run.promoted_ms is None or not world.flow.metadata.schemas.copied:
        return []
    try:
        plan = sync.return_home(world.flow, world.clusters)
    except TwinlogError as error:
        return [
            f"subjects are READWRITE on the wrong side: {error.message}; docs/schema-registry.md says how to set them"
        ]
    return [f"{conflict.subject}: {conflict.message}" for conflict in plan.conflicts]


SCHEMAS = Step(
    StepName.SCHEMAS,
    "lets clients register on the target's schema registry (`twinlog.schemas.subjects`): the copied subjects become"
    " READWRITE",
    "every copied subject is READWRITE, or the flow copies none",
    "it goes on, and names what is not set: set it by hand ([schema registries](../schema-registry.md#failover))",
    let_register,
    look,
    undo=_undo,
)
