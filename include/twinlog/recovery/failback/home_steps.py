"""The steps of the way home that a planned failover does not have, or does for one flow only.

`back`, the reverse flow, is the one that is failed over: from B, where clients work, to A.  `there` is the promoted
flow: it keeps the journal, and copies for the same run, so that both maps cover all of both logs.  Only then does a
position on A lie behind everything that its group has read on B.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from functools import partial

from twinlog import clock
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.formats.ledger.recovery import FAILBACK, RecoveryRun, RunState, StepState
from twinlog.gate.record import keep_run
from twinlog.jsonable import Json, to_json
from twinlog.procedure import Outcome, Step, StepName, done, failed, waiting
from twinlog.recovery import homeward, transitions, walking
from twinlog.recovery.failback import failback, homes, looks, standby
from twinlog.recovery.report import FailbackReport, State, skips, stopped_in
from twinlog.recovery.steps import ending, groups, planned, registries
from twinlog.recovery.steps.rights import own_rights
from twinlog.recovery.steps.source_writers import forget_denials, still_denied
from twinlog.recovery.steps.world import World
from twinlog.state.ledger import Ledger
from twinlog.visible import listed


def begin(there: World) -> tuple[World, RecoveryRun]:
    """Take the run; if A is not promoted yet, take the reverse flow too.  Raises as the moves.

    What had expired before it came home is noted in the world.
    """
    back, notes = there.back, list[str]()
    actor, run = there.journal.actor, there.run
    taken = there.journal.move(lambda now: homeward.set_out(there.flow.name, now, actor, run, clock.now_ms()))
    assert taken is not None
    if taken.promoted_ms is None:
        if back.flow.homes is not None:
            homes.make_known(there.way, back.way)
        back.journal.move(lambda now: _lend(there, now, notes))
    return replace(there, found=replace(there.found, notes=tuple(notes))), taken


def _lend(there: World, ledger: Ledger, notes: list[str]) -> transitions.Move:
    """Take the reverse flow, unless another process goes on with the run, or has ended it, meanwhile.

    `notes` are then those of this move.
    """
    back = there.back
    known = there.ledger
    transitions.require_held(there.flow.name, known, there.journal.actor, there.run)
    failover = known.recovery(there.failover)
    denied = failover.denied if failover is not None else ()
    move = homeward.lend(
        back.flow.name, there.flow.name, ledger, back.journal.actor, back.run, clock.now_ms(), denied
    )
    if back.flow.homes is None:
        return move
    begun = homes.begin(move, there.way, back.way, there.failover, ledger)
    notes[:] = [
        f"{passed.life.topic}-{passed.life.partition}: {passed.expired:,} offsets behind the copies had expired on"
        f" {back.flow.source.alias} before they came home"
        for passed in begun.passed_over
        if passed.expired
    ]
    return begun


def _give_up(there: World, run: RecoveryRun) -> list[str]:
    """Let the reverse flow go, for a way home that was given up; return what is left to do.

    The denials on B go first: it would bring them to A, as it does with every ACL of B.
    """
    if run.state is not RunState.ABORTED:
        return []
    ends, reverse = (there.flow.source.alias, there.flow.target.alias), there.reverse
    name = reverse.flow.name if reverse is not None else f"{ends[1]}->{ends[0]}"
    if reverse is None:
        return [f"{name} may still stand by: enable it in the file, and do this again"]
    known = there.ledger.recovery(run.run)
    if known is not None and known.denied:
        return []
    actor, reason = reverse.journal.actor, run.journal[-1].message
    try:
        if still_lent(reverse, run):
            reverse.journal.move(lambda now: transitions.abort(name, now, actor, reason, clock.now_ms()))
    except TwinlogError as error:
        return [f"{name} may still stand by: {error.message}; do this again once {ends[0]} answers"]
    return []


def still_lent(back: World, run: RecoveryRun) -> bool:
    """Say whether the reverse flow copies home for this run."""
    lent = transitions.open_run(back.ledger)
    return lent is not None and lent.run == run.run


def bring_home(there: World) -> Outcome:
    """Copy both ways while clients work on B, so that little is left when they have to stop."""
    back, found = there.back, there.found.apart
    assert found is not None
    if why := looks.why_tail(there.flow, found.only_on_source, there.request.tail):
        return waiting(
            f"{why}; they are exported: run `twinlog failback --tail keep --flow '{there.flow.name}'`"
        )
    source = there.flow.source.alias
    failover = there.ledger.recovery(there.failover)
    removed = len(failover.denied) if failover is not None else 0
    if failover is not None and (refused := forget_denials(there.clusters.source, there.journal, failover)):
        return failed(f"{refused}; {back.flow.told} cannot write there")
    back.journal.move(lambda now: transitions.without_denials_on_target(now, back.run))
    _, why = planned.copy_all(back)
    if why:
        return failed(f"{back.flow.told}: not everything could be copied: {why}")
    not_there = planned.pass_over(there)
    what = f"; {removed:,} denials of WRITE removed from {source}" if removed else ""
    kept = (
        f"; {found.only_on_source:,} records of {source} copied behind them"
        if found.only_on_source and not not_there
        else ""
    )
    brought = f"{found.coming:,} records and what came since brought home{kept}{what}"
    stray = (
        f"{found.strayed:,} records stay on {there.flow.target.alias}: see the files" if found.strayed else ""
    )
    known, stay = standby.keep_known(back), _staying(there)
    texts = [brought, *there.found.notes, stray, *known, not_there, stay]
    return there.noting(done("; ".join(filter(None, texts))), *filter(None, [stray, not_there, stay]))


def let_cycles(there: World) -> None:
    """Let cycles go on bringing records home while the way home waits, once `bring-home` has seen to what A alone has.

    If that cannot be written, nothing copies until the next command.
    """
    run, back = there.noted, there.back
    brought = StepName.BRING_HOME.value, StepState.DONE
    if (
        run is None
        or run.promoted_ms is not None
        or brought not in {(entry.step, entry.state) for entry in run.journal}
    ):
        return
    with suppress(TwinlogError):
        back.journal.move(lambda now: homeward.let_cycles(now, back.journal.actor, back.run))


def compare(there: World) -> Outcome:
    """Count what each side alone has, and tell A what B has: it may have to do without B."""
    outcome = failback.compare_sides(there)
    standby.report(there.back)
    return outcome


def _staying(there: World) -> str:
    """Name the topics that stay on the target, if the flow home is one that was made for it; "" if there are none."""
    back = there.back
    usual = there.tools.reverse.flow if there.tools.reverse is not None else None
    if back.flow.homes is None or not (names := homes.staying(there.way, back.way, usual)):
        return ""
    return f"no flow brings {listed(names)} to {there.flow.source.alias}"


def audit(there: World) -> Outcome:
    """Audit both flows: each compares what it copied."""
    texts = []
    for world in (there.back, there):
        outcome = planned.prove_tail(world, again=there.back.flow.homes is not None)
        if outcome.ends:
            return replace(outcome, message=f"{world.flow.told}: {outcome.message}")
        texts.append(f"{world.flow.told}: {outcome.message}")
    return done("; ".join(texts))


def approve(there: World) -> Outcome:
    """Ask a person; without one the way home waits."""
    flow, back = there.flow, there.back
    missing, found = ("", there.found) if there.found.drained else planned.missing(back)
    placed = found.groups
    count, again = len({group.group for group in placed}), sum(it.again or 0 for it in placed)
    least = "at least " if any(group.again is None for group in placed) else ""
    lost = ", but ".join(filter(None, [missing or planned.told_lost(there, back), skips(placed)]))
    question = (
        f"{flow.name}: promote {flow.source.alias} again? {lost}, {count:,} groups are placed there,"
        f" {least}{again:,} records are read again"
    )
    return ending.answered(replace(there, found=found), question, lost, "clients stay where they are")


def promote(there: World) -> Outcome:
    """Look once more, and write that the flow follows; the entry of this step is in the same transaction."""
    back, began = there.back, time.monotonic()
    why, found = planned.moved_since(back)
    if why:
        return failed(f"{why}: nothing is promoted; run it again", found, refused=True)
    back.move(lambda *_: None)  # nobody has aborted the reverse flow alone
    outcome = done(f"{there.flow.source.alias} is promoted; {_follows(there)}", found)
    move = partial(homeward.arrive, nothing_lost=not planned.answering(there, back))
    return there.write(StepName.PROMOTE, outcome, began, move)


def _follows(world: World) -> str:
    """Say that a flow follows from now on, or who had paused it before it was failed over."""
    pause = transitions.pause_before(world.ledger)
    return (
        f"{world.flow.name} is still paused by {pause.by}: {pause.reason}"
        if pause
        else f"{world.flow.name} follows"
    )


def follow(there: World) -> Outcome:
    """Take back what clients of B were given and denied, let the reverse flow go, and keep on B what it knows of A.

    Rights go first: without its denials, B keeps producers out by them alone.  Denials go before the reverse flow
    follows: it would bring them to A, as it does with every ACL of B.
    """
    back, mine = there.back, there.noted
    notes = own_rights(there.flow, there.clusters)
    denied = len(mine.denied) if mine is not None else 0
    if mine is not None and (refused := forget_denials(there.clusters.target, there.journal, mine)):
        return failed(
            f"{denied:,} topics of {there.flow.target.alias} still deny WRITE, so {back.flow.told} stands by: {refused}"
        )
    actor, run = back.journal.actor, back.run
    back.journal.move(lambda now: homeward.give_back(now, actor, run, clock.now_ms()))
    notes += standby.keep_known(there)
    text = f"{_follows(there)}; {_follows(back)}" if back.flow.homes is None else _follows(there)
    if denied:
        text += f"; {denied:,} denials of WRITE removed from {there.flow.target.alias}"
    return there.noting(done("; see to it: ".join([text, *notes])), *notes)


def switch_clients(there: World) -> Outcome:
    """Run the hook of the reverse flow, whose target clients work on from now on."""
    return ending.send_clients(replace(there.back, flow=_as_clients_know(there)), FAILBACK, there.noted)


def _as_clients_know(there: World) -> FlowSettings:
    """Return the reverse flow under the name that it has in the file."""
    return replace(there.back.flow, homes=None)


def write_evidence(there: World) -> Outcome:
    """Write the evidence of the way home, and end it: nothing is left to do."""
    began, run, found = time.monotonic(), there.noted, there.request.found
    recovery = {
        **found,
        **{name: it for name, it in report(there, None).document.items() if it or name not in found},
        "journal": to_json(run.journal) if run is not None else [],
        "notes": there.found.notes,
    }
    path, digest = keep_run(there.flow, there.run, recovery, there.tools.seal)
    return ending.end(there, path, digest, began)


HOME: tuple[Step[World], ...] = (
    Step(
        StepName.BEGIN,
        "takes the fences of both flows and writes the states: `A->B` is `failing-back`, and only the way home copies",
        "`failing-back` in `twinlog status --flow 'A->B'`",
        "it says which flow is in the way: paused, or failing over itself",
        undo=_give_up,
    ),
    replace(failback.COMPARE, do=compare),
    failback.EXPORT_TAIL,
    failback.WRITE_FILES,
    Step(
        StepName.BRING_HOME,
        "removes the denials that the failover made on A, for they are in its way; copies to A what was written on B,"
        " and to B what A alone has, while clients work on B; notes on A how far records and groups have come, lest B"
        " is lost",
        "little is left to copy",
        "A alone has records: say `--tail keep`. A partition that cannot be copied is named, with what to do",
        bring_home,
        looks.look_bring_home,
    ),
    Step(
        StepName.FENCE_PRODUCERS,
        "refuses if a check of the gate fails that no step mends; copies what there is; denies WRITE on B if it keeps"
        " ACLs; watches that the ends of its partitions stand still",
        "nothing is written to B any more",
        "waits for `twinlog.failover.wait.seconds`, then names the topics: stop their producers and run it again",
        lambda it: planned.fence_producers(it.back, it),
        lambda it: planned.look_fence(it.back, f"what was written to {it.flow.target.alias} since"),
        undo=lambda it, run: still_denied(it.clusters.target, it.journal, run),
    ),
    Step(
        StepName.DRAIN,
        "copies home until nothing is left, and reports a cycle; `A->B` passes over what came home",
        "0 records left in every partition",
        "a partition that cannot be copied is named, with what to do",
        lambda it: planned.drain_both(it.back, it),
        looks.look_drain,
    ),
    Step(
        StepName.GROUPS,
        "writes offset syncs and checkpoints, and commits the position of every group on A, by the maps of both flows",
        "every group exactly placed",
        "a group is active on A, or still reads on B: stop it and run it again",
        lambda it: groups.place_groups(it.back),
        looks.look_groups,
    ),
    Step(
        StepName.AUDIT,
        "compares what no audit of either flow has compared yet, record by record",
        "equal, both ways",
        "differences are named: `twinlog audit`; copy the topic anew, or accept them (`twinlog accept`)",
        audit,
    ),
    Step(
        StepName.GATE,
        "asks the readiness gate of the way home, mode planned",
        "ready",
        "do what the check says, or accept it by the command that it prints, and run it again",
        lambda it: ending.ask_gate(it.back),
        lambda it: ending.look_gate(it.back, () if looks.are_home(it) else ("map-known",)),
    ),
    Step(
        StepName.APPROVE,
        "asks a person; `--yes` answers beforehand",
        "yes",
        "no: clients stay on B; run it again, or `twinlog recovery abort --reason ...`",
        approve,
    ),
    Step(
        StepName.PROMOTE,
        "looks once more, and writes behind the fence that `A->B` follows; there is no way back after this",
        "`active` in `twinlog status --flow 'A->B'`",
        "something moved since it was checked: run it again",
        promote,
    ),
    Step(
        StepName.SCHEMAS,
        "lets clients register on the schema registry of A, and not on that of B any more"
        " (`twinlog.schemas.subjects`)",
        "the copied subjects are READWRITE on A, READONLY on B, or no flow copies any",
        "mend what the message names, such as a registry that does not answer, and run it again",
        lambda it: registries.come_home(it, it.back),
        lambda it: registries.look(it.back),
    ),
    Step(
        StepName.FOLLOW,
        "lets a flow `B->A` follow again; takes the rights of producers on B away, and the denials there",
        "nothing is left over",
        "a right that stays is named: take it away by hand",
        follow,
    ),
    Step(
        StepName.SWITCH_CLIENTS,
        "runs the hook of the way home, `twinlog.failover.hook.*`",
        "the hook answers well within its time-out",
        "A stays promoted; mend the hook and run the command again: only this and what follows is done",
        switch_clients,
        lambda it: ending.look_switch(it.back),
    ),
    Step(
        StepName.CANARY,
        "writes a heartbeat to A and reads it back",
        "A takes writes",
        "see why A refuses writes; run it again",
        lambda it: ending.try_target(_as_clients_know(it), it.back.clusters.target, it.back.tools.sleep),
    ),
    ending.REPORT.on(write_evidence),
)
"""The steps of the way home, in their order."""


def report(there: World, stopped: Outcome | None) -> FailbackReport:
    """Return what was done, by the ledger as it is now; `stopped` is the outcome that ended it, if one did."""
    _, arrived, told = walking.ended(there, HOME, stopped)
    return replace(
        failback.report_of(there),
        **told,
        **_exported(there.flow, there.ledger, there.failover),
        state=State.FOLLOWING if arrived else stopped_in(stopped),
        groups=there.found.groups,
        next=_next(there.flow, arrived=arrived, ended=stopped is not None),
    )


def report_of(flow: FlowSettings, ledger: Ledger, run: RecoveryRun) -> FailbackReport:
    """Return the report of a way home that is over, as the ledger tells it: without what was compared.  Pure."""
    return FailbackReport(
        **walking.over(flow, HOME, run),
        **_exported(flow, ledger, run.failover),
        mode=FAILBACK,
        state=State.FOLLOWING,
        failover=run.failover,
        next=_next(flow, arrived=True, ended=False),
    )


def _exported(flow: FlowSettings, ledger: Ledger, failover: str) -> Json:
    """Return what a report says of the records that were exported after a failover.  Pure."""
    exported = tuple(tail for tail in ledger.tails if tail.run == failover)
    return {"exported": exported, "tail_topics": failback.tail_topics(flow, exported)}


def _next(flow: FlowSettings, *, arrived: bool, ended: bool) -> str:
    again = f"twinlog failback --flow '{flow.name}'"
    if arrived and ended:
        return f"{again} does the steps that are left; there is no way back but a failover"
    if arrived:
        return f"start consumers, then producers, on {flow.source.alias}"
    return f"{again} goes on; twinlog recovery abort --reason ... leaves clients on {flow.target.alias}"
