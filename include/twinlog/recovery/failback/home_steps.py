"""The steps of the way home that a planned failover does not have, or does for one flow only.

`back`, the reverse flow, is the one that is failed over: from B, where clients work, to A.  `there` is the promoted
flow: it keeps the journal, and copies for the same run, so that both maps cover all of both logs.  Only then does a
position on A lie behind everything that its group has read on B.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from twinlog import clock
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ExitCode, TwinlogError
from twinlog.formats.ledger.recovery import FAILBACK, RecoveryRun, StepState
from twinlog.gate.record import keep_run
from twinlog.jsonable import to_json
from twinlog.procedure import Outcome, Step, StepName, StepReport, done, failed, waiting
from twinlog.recovery import homeward, transitions
from twinlog.recovery.failback import failback, homes, standby
from twinlog.recovery.failback.failback import FailbackReport
from twinlog.recovery.failback.journey import Journey, look_bring_home, look_drain, look_export, why_tail
from twinlog.recovery.report import State, done_before, seconds_of, skips, stopped_in
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps import canary, ending, planned, registries
from twinlog.recovery.steps.rights import own_rights
from twinlog.recovery.steps.scene import Scene
from twinlog.recovery.steps.source_writers import forget_denials
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.visible import listed


def begin(journey: Journey) -> RecoveryRun:
    """Take the run; if A is not promoted yet, take the reverse flow too.  Raises as the moves."""
    there, back = journey.there, journey.back
    actor, run = there.journal.actor, there.run
    taken = there.journal.move(lambda now: homeward.set_out(there.flow.name, now, actor, run, clock.now_ms()))
    assert taken is not None
    if taken.promoted_ms is None:
        if back.flow.homes is not None:
            homes.make_known(_way(there), _way(back))
        back.journal.move(lambda now: _lend(journey, now))
    return taken


def _lend(journey: Journey, ledger: Ledger) -> transitions.Move:
    """Take the reverse flow, unless another process goes on with the run, or has ended it, meanwhile."""
    there, back = journey.there, journey.back
    known = read_ledger(there.flow, there.clusters.target)
    planned.still_mine(there, known)
    failover = known.recovery(journey.work.failover)
    denied = failover.denied if failover is not None else ()
    move = homeward.lend(
        back.flow.name, there.flow.name, ledger, back.journal.actor, back.run, clock.now_ms(), denied
    )
    if back.flow.homes is None:
        return move
    begun = homes.begin(move, _way(there), _way(back), journey.work.failover, ledger)
    there.notes += [
        f"{it.life.topic}-{it.life.partition}: {it.expired:,} offsets behind the copies had expired on"
        f" {back.flow.source.alias} before they came home"
        for it in begun.passed_over
        if it.expired
    ]
    return begun


def _way(scene: Scene) -> Way:
    return Way(scene.flow, scene.clusters)


def bring_home(journey: Journey) -> Outcome:
    """Copy both ways while clients work on B, so that little is left when they have to stop."""
    there, back, found = journey.there, journey.back, journey.work.found
    assert found is not None
    if why := why_tail(there.flow, found.only_on_source, journey.tail):
        return waiting(f"{why}; they are exported: run it again with --tail keep")
    source = there.flow.source.alias
    failover = read_ledger(there.flow, there.clusters.target).recovery(journey.work.failover)
    removed = len(failover.denied) if failover is not None else 0
    if failover is not None and (refused := forget_denials(there.clusters.source, there.journal, failover)):
        return failed(f"{refused}; {back.flow.name} cannot write there")
    back.journal.move(lambda now: transitions.without_denials_on_target(now, back.run))
    _, why = planned.copy_all(back)
    if why:
        return failed(f"{back.flow.name}: not everything could be copied: {why}")
    not_there = planned.pass_over(there)
    what = f"; {removed:,} denials of WRITE removed from {source}" if removed else ""
    kept = (
        f"; {found.only_on_source:,} records of {source} copied behind them"
        if found.only_on_source and not not_there
        else ""
    )
    brought = f"{found.only_on_target - found.strayed:,} records and what came since brought home{kept}{what}"
    if found.strayed:
        there.notes.append(f"{found.strayed:,} records stay on {there.flow.target.alias}: see the files")
    text = "; ".join([brought, *there.notes, *standby.keep_known(back)])
    if not_there:
        there.notes.append(not_there)
    return done("; ".join(filter(None, [text, not_there, _staying(journey)])))


def let_cycles(journey: Journey) -> None:
    """Let cycles go on bringing records home while the way home waits, once `bring-home` has seen to what A alone has.

    If that cannot be written, nothing copies until the next command.
    """
    run, back = journey.run, journey.back
    brought = StepName.BRING_HOME.value, StepState.DONE
    if (
        run is None
        or run.promoted_ms is not None
        or brought not in {(it.step, it.state) for it in run.journal}
    ):
        return
    with suppress(TwinlogError):
        back.journal.move(lambda now: homeward.let_cycles(now, back.journal.actor, back.run))


def compare(journey: Journey) -> Outcome:
    """Count what each side alone has, and tell A what B has: it may have to do without B."""
    outcome = failback.compare_sides(journey.work)
    if journey.work.found is not None:
        standby.report(journey.back)
    return outcome


def _staying(journey: Journey) -> str:
    """Name the topics that stay on the target, if the flow home is one that was made for it; "" if there are none."""
    there, back = journey.there, journey.back
    usual = there.tools.reverse.flow if there.tools.reverse is not None else None
    if back.flow.homes is None or not (names := homes.staying(_way(there), _way(back), usual)):
        return ""
    stay = f"no flow brings {listed(names)} to {there.flow.source.alias}"
    there.notes.append(stay)
    return stay


def audit(journey: Journey) -> Outcome:
    """Audit both flows: each compares what it copied."""
    texts = []
    for scene in (journey.back, journey.there):
        outcome = planned.prove_tail(scene, again=journey.back.flow.homes is not None)
        if outcome.ends:
            return replace(outcome, message=f"{scene.flow.name}: {outcome.message}")
        texts.append(f"{scene.flow.name}: {outcome.message}")
    return done("; ".join(texts))


def approve(journey: Journey) -> Outcome:
    """Ask a person; without one the way home waits."""
    flow, back = journey.there.flow, journey.back
    missing = "" if back.proved_drained else planned.missing(back)
    placed = back.groups
    groups, again = len({it.group for it in placed}), sum(it.again or 0 for it in placed)
    least = "at least " if any(it.again is None for it in placed) else ""
    lost = ", but ".join(filter(None, [missing or planned.told_lost(journey.there, back), skips(placed)]))
    question = (
        f"{flow.name}: promote {flow.source.alias} again? {lost}, {groups:,} groups are placed there,"
        f" {least}{again:,} records are read again"
    )
    return ending.answered(journey.there, question, lost, "clients stay where they are")


def promote(journey: Journey) -> Outcome:
    """Look once more, and write that the flow follows; the entry of this step is in the same transaction."""
    there, back, began = journey.there, journey.back, time.monotonic()
    why = planned.moved_since(back) if back.proved_drained else "nothing was proved in this process"
    if why:
        return failed(f"{why}: nothing is promoted; run it again", refused=True)
    back.journal.move(lambda now: planned.still_mine(back, now))  # nobody has aborted the reverse flow alone
    outcome = done(f"{there.flow.source.alias} is promoted; {_follows(there)}")
    nothing_lost = not planned.answering(there, back)

    def move(ledger: Ledger) -> transitions.Move:
        entry = there.entry(StepName.PROMOTE, outcome.state, time.monotonic() - began, outcome.message)
        actor = there.journal.actor
        return homeward.arrive(there.flow.name, ledger, actor, there.run, entry, nothing_lost=nothing_lost)

    there.journal.move(move)
    return outcome


def _follows(scene: Scene) -> str:
    """Say that a flow follows from now on, or who had paused it before it was failed over."""
    pause = transitions.pause_before(read_ledger(scene.flow, scene.clusters.target))
    return (
        f"{scene.flow.name} is still paused by {pause.by}: {pause.reason}"
        if pause
        else f"{scene.flow.name} follows"
    )


def follow(journey: Journey) -> Outcome:
    """Take back what clients of B were given and denied, and let the reverse flow go.

    Rights go first: without its denials, B keeps producers out by them alone.  Denials go before the reverse flow
    follows: it would bring them to A, as it does with every ACL of B.
    """
    there, back, mine = journey.there, journey.back, journey.run
    notes = own_rights(there.flow, there.clusters)
    denied = len(mine.denied) if mine is not None else 0
    if mine is not None and (refused := forget_denials(there.clusters.target, there.journal, mine)):
        return failed(
            f"{denied:,} topics of {there.flow.target.alias} still deny WRITE, so {back.flow.name} stands by: {refused}"
        )
    actor, run = back.journal.actor, back.run
    back.journal.move(lambda now: homeward.give_back(now, actor, run, clock.now_ms()))
    there.notes += notes
    text = f"{_follows(there)}; {_follows(back)}"
    if denied:
        text += f"; {denied:,} denials of WRITE removed from {there.flow.target.alias}"
    return done("; see to it: ".join([text, *notes]))


def switch_clients(journey: Journey) -> Outcome:
    """Run the hook of the reverse flow, whose target clients work on from now on."""
    run = journey.run
    promoted_ms = run.promoted_ms if run is not None and run.promoted_ms is not None else clock.now_ms()
    return ending.send_clients(replace(journey.back, flow=_as_clients_know(journey)), FAILBACK, promoted_ms)


def try_source(journey: Journey) -> Outcome:
    """Write to the promoted source and read it back."""
    back = journey.back
    return canary.try_target(_as_clients_know(journey), back.clusters.target, back.tools.sleep)


def _as_clients_know(journey: Journey) -> FlowSettings:
    """Return the reverse flow under the name that it has in the file."""
    return replace(journey.back.flow, homes=None)


def write_evidence(journey: Journey) -> Outcome:
    """Write the evidence of the way home, and end it: nothing is left to do."""
    there, began, tools = journey.there, time.monotonic(), journey.there.tools
    run = journey.run
    recovery = {
        **there.found,
        **{name: it for name, it in report(journey, None).document.items() if it or name not in there.found},
        "journal": to_json(run.journal) if run is not None else [],
        "notes": [*there.notes, *journey.back.notes],
    }
    path, digest = keep_run(there.flow, there.run, recovery, tools.seal)
    return ending.end(there, path, digest, began)


HOME: tuple[Step[Journey], ...] = (
    Step(
        StepName.BEGIN,
        "takes the fences of both flows and writes the states: `A->B` is `failing-back`, `B->A` copies for it alone",
        "`failing-back` in `twinlog status --flow 'A->B'`",
        "it says which flow is in the way: paused, or failing over itself",
    ),
    failback.COMPARE.on(compare),
    failback.EXPORT_TAIL.on(lambda it: failback.export_tails(it.work), look_export),
    failback.WRITE_FILES.on(lambda it: failback.write_tail_files(it.work)),
    Step(
        StepName.BRING_HOME,
        "removes the denials that the failover made on A, for `B->A` writes there; copies to A what was written on B,"
        " and to B what A alone has, while clients work on B; notes on A how far records and groups have come, lest B"
        " is lost",
        "little is left to copy",
        "A alone has records: say `--tail keep`. A partition that cannot be copied is named, with what to do",
        bring_home,
        look_bring_home,
    ),
    Step(
        StepName.FENCE_PRODUCERS,
        "copies what there is; refuses if the gate already says no to what no step mends; denies WRITE on B if it keeps"
        " ACLs; watches that the ends of its partitions stand still",
        "nothing is written to B any more",
        "waits for `twinlog.failover.wait.seconds`, then names the topics: stop their producers and run it again",
        lambda it: planned.fence_producers(it.back, it.there),
        lambda it: planned.look_fence(it.back),
    ),
    Step(
        StepName.DRAIN,
        "copies home until nothing is left, and reports a cycle of `B->A`; `A->B` passes over what came home",
        "0 records left in every partition",
        "a partition that cannot be copied is named, with what to do",
        lambda it: planned.drain_both(it.back, it.there),
        look_drain,
    ),
    Step(
        StepName.GROUPS,
        "writes offset syncs and checkpoints, and commits the position of every group on A, by the maps of both flows",
        "every group exactly placed",
        "a group is active on A, or still reads on B: stop it and run it again",
        lambda it: planned.place_groups(it.back),
        lambda it: planned.look_groups(it.back),
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
        "asks the readiness gate of `B->A`, mode planned",
        "ready",
        "do what the check says, or accept it (`twinlog accept --flow 'B->A'`), and run it again",
        lambda it: ending.ask_gate(it.back),
        lambda it: ending.look_gate(it.back),
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
        lambda it: registries.come_home(it.there, it.back),
        lambda it: registries.look(it.back),
    ),
    Step(
        StepName.FOLLOW,
        "lets `B->A` follow by itself again; takes the rights of producers on B away, and the denials there",
        "nothing is left over",
        "a right that stays is named: take it away by hand",
        follow,
    ),
    Step(
        StepName.SWITCH_CLIENTS,
        "runs the hook of `B->A`, `twinlog.failover.hook.*`",
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
        try_source,
    ),
    ending.REPORT.on(write_evidence),
)
"""The steps of the way home, in their order."""


def report(journey: Journey, stopped: Outcome | None) -> FailbackReport:
    """Return what was done, by the ledger as it is now; `stopped` is the outcome that ended it, if one did."""
    there, run, work = journey.there, journey.run, journey.work
    arrived = run is not None and run.promoted_ms is not None
    seen = {it.name for it in work.steps}
    not_done = [StepReport(it.name, StepState.PLANNED, 0.0, "") for it in HOME if it.name not in seen]
    tails = read_ledger(there.flow, there.clusters.target).tails
    exported = tuple(it for it in tails if it.run == work.failover)
    return replace(
        failback.report_of(work),
        state=State.FOLLOWING if arrived else stopped_in(stopped),
        steps=(*work.steps, *not_done),
        groups=journey.back.groups,
        rto_seconds=seconds_of(run, clock.now_ms()) if run is not None and arrived else None,
        rpo_seconds=run.rpo_seconds if run is not None else None,
        evidence=run.evidence if run is not None else "",
        cost=there.cost,
        exported=exported,
        tail_topics=tuple(sorted({there.flow.tail_topic(it.topic) for it in exported})),
        next=_next(there.flow, arrived=arrived, ended=stopped is not None),
        exit_code=stopped.exit_code if stopped is not None else ExitCode.DONE,
        transient=stopped is not None and stopped.transient,
    )


def report_of(flow: FlowSettings, ledger: Ledger, run: RecoveryRun) -> FailbackReport:
    """Return the report of a way home that is over, as the ledger tells it: without what was compared.  Pure."""
    exported = tuple(it for it in ledger.tails if it.run == run.failover)
    return FailbackReport(
        flow=flow.name,
        run=run.run,
        mode=FAILBACK,
        state=State.FOLLOWING,
        dry_run=False,
        steps=tuple(done_before(HOME, run)),
        rto_seconds=seconds_of(run, run.at_ms),
        rpo_seconds=run.rpo_seconds,
        evidence=run.evidence,
        by=run.by,
        next=_next(flow, arrived=True, ended=False),
        failover=run.failover,
        exported=exported,
        tail_topics=tuple(sorted({flow.tail_topic(it.topic) for it in exported})),
    )


def _next(flow: FlowSettings, *, arrived: bool, ended: bool) -> str:
    again = f"twinlog failback --flow '{flow.name}'"
    if arrived and ended:
        return f"{again} does the steps that are left; there is no way back but a failover"
    if arrived:
        return f"start consumers, then producers, on {flow.source.alias}"
    return f"{again} goes on; twinlog recovery abort --reason ... leaves clients on {flow.target.alias}"
