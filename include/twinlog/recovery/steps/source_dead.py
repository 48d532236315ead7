"""The steps of a failover whose source is lost, up to its promotion: from the state on the target alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twinlog import clock
from twinlog.cluster.api import ClusterReader
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.accepted import Accepted, Offence, amounts, uncovered
from twinlog.formats.ledger.recovery import StepState
from twinlog.gate import groups as groups_of
from twinlog.gate.accepting import command
from twinlog.gate.ask import see_target
from twinlog.groups.plan import Decided, changes_of
from twinlog.procedure import Outcome, Step, StepName, done, planned, waiting
from twinlog.recovery.report import PlacedGroup, placed, skips
from twinlog.recovery.steps.loss import loss_of
from twinlog.recovery.steps.world import Found, World
from twinlog.state.ledger import Ledger
from twinlog.state.progress import read_packed, read_progress
from twinlog.topics.snapshot import FlowSnapshot
from twinlog.visible import and_more, listed

GROUP_COVERED, GROUP_NOT_AHEAD = "group-covered", "group-not-ahead"
"""The checks of groups that cannot be placed, and of those that skip records."""


def look_loss(world: World) -> Outcome:
    """Say the same, of a dry run."""
    found = recalled(world)
    assert found.loss is not None
    return planned(found.loss.told, found)


def recalled(world: World) -> Found:
    """Read what the target knows, and what is lost by that."""
    seen = see_target(FlowSnapshot(world.flow, world.clusters))
    loss = loss_of(seen.snapshot, seen.facts)
    return replace(world.found, observed=seen, loss=loss, topics=loss.topics)


def place_from_checkpoints(world: World) -> Outcome:
    """Commit the position of every group that has a checkpoint; groups with members on the target are left alone."""
    target, flow = world.clusters.target, world.flow
    ledger = world.ledger
    placings = read_placings(flow, target, ledger)
    found = replace(world.found, groups=shown(placings))
    if blocked := unanswered(
        GROUP_COVERED, [placing for placing in placings if placing.trouble], ledger.accepted
    ):
        first = blocked[0]
        more = and_more(len(blocked), form=" (and {} positions more)")
        why = (
            f"group {first.key.group} on {first.key.topic}-{first.key.partition} cannot be placed: {first.trouble}"
            f"{more}; see to it and run it again, or accept it: {_command(flow, 'group-covered', first, blocked)}"
        )
        return waiting(why, found)
    if further := unanswered(
        GROUP_NOT_AHEAD, [placing for placing in placings if _skipped(placing)], ledger.accepted
    ):
        why = (
            f"{skips(shown(further))}, and nobody has accepted so many; reset the group, or accept it:"
            f" {_command(flow, 'group-not-ahead', further[0], further)}"
        )
        return waiting(why, found)
    changes = changes_of(placings)
    refused = target.alter_offsets(changes).refused if changes else {}
    for key, error in refused.items():
        why = f"group {key.group} on {key.topic}-{key.partition}: {error.message}{and_more(len(refused))}"
        return waiting(f"{why}; run it again", found)
    groups = {placing.key.group for placing in placings}
    left = sorted({placing.key.group for placing in placings if placing.trouble})
    unplaced = f"; left where they are, as was accepted: {listed(left)}" if left else ""
    written = sum(len(change) for change in changes.values())
    inexact = sum(
        not (placing.row.exact and not placing.row.ahead) and not placing.gone for placing in placings
    )
    about = f"; {inexact:,} are not exact" if inexact else ""
    text = (
        f"{len(groups):,} groups, {len(placings):,} positions, {written:,} of them written{about}{unplaced}"
        f"{without_place(placings)}"
        if placings or not flow.untold_groups
        else groups_of.UNTOLD.why
    )
    return done("; ".join(filter(None, [text, skips(found.groups)])), found)


def without_place(placings: Sequence[Decided]) -> str:
    """Say which copies are gone, so that groups have no place there; "" if there are none.  Pure."""
    gone = sorted({placing.key.topic for placing in placings if placing.gone})
    if not gone:
        return ""
    count = sum(placing.gone for placing in placings)
    return f"; {count:,} have no place: {listed(gone)}, which nothing is copied into any more, is gone"


def read_placings(flow: FlowSettings, target: ClusterReader, ledger: Ledger) -> tuple[Decided, ...]:
    """Decide for every position that the target knows of.  Raises errors of the target."""
    return groups_of.recalled(flow, target, ledger, read_progress(flow, target), read_packed(flow, target))


def shown(placings: Sequence[Decided]) -> tuple[PlacedGroup, ...]:
    """Return the positions as the report has them.  Pure."""
    return placed(placing.row for placing in placings)


def unanswered(check: str, placings: Sequence[Decided], accepted: Sequence[Accepted]) -> tuple[Decided, ...]:
    """Return those positions that fail a check by more than anybody has accepted."""
    left = frozenset(uncovered(accepted, check, [_offence(placing) for placing in placings], clock.now_ms()))
    return tuple(placing for placing in placings if _offence(placing) in left)


def _skipped(it: Decided) -> int:
    return shown([it])[0].skipped or 0


def _offence(it: Decided) -> Offence:
    """Say by how much a position fails the gate's checks: by the records it skips, or because it has no place."""
    return Offence(it.key.group, it.key.partition, 1 if it.trouble else _skipped(it))


def _command(flow: FlowSettings, check: str, first: Decided, placings: Sequence[Decided]) -> str:
    """Return the command that accepts what stands against the group of the first."""
    of_group = [_offence(placing) for placing in placings if placing.key.group == first.key.group]
    return command(flow.name, amounts(check, of_group)[0])


def _look_groups(world: World) -> Outcome:
    """Say which positions would be written."""
    found = world.found if world.found.observed is not None else recalled(world)
    assert found.observed is not None
    placings = found.observed.recalled
    blocked = next(
        (f"group {placing.key.group}: {placing.trouble}" for placing in placings if placing.trouble), ""
    )
    text = (
        f"{len({placing.key.group for placing in placings}):,} groups, {len(placings):,} positions,"
        f" {sum(placing.writes for placing in placings):,} to be written"
    )
    if world.flow.untold_groups and not placings:
        text = groups_of.UNTOLD.why
    text = "; ".join(filter(None, [text, blocked])) + without_place(placings)
    text = "; ".join(filter(None, [text, skips(shown(placings))]))
    return planned(text, replace(found, groups=shown(placings)))


LOSS: Step[World] = Step(
    StepName.LOSS,
    "says what is lost with the source: known from the last cycle, and estimated by the recent rate",
    "records and seconds, by partition",
    "without a report of a cycle the loss is unknown, and the gate says no",
    lambda world: replace(look_loss(world), state=StepState.DONE),
    look_loss,
)
GROUPS = Step(
    StepName.GROUPS,
    "commits on the target the position of every group that has a checkpoint, also of groups never synced",
    "every group placed",
    "a group is active on the target: stop it and run it again",
    place_from_checkpoints,
    _look_groups,
)
