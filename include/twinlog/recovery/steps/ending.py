"""The steps that both modes share: the gate, the approval, the promotion, and what follows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from twinlog import clock
from twinlog.cluster.api import Cluster
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.formats.ledger.accepted import Offence, covering
from twinlog.formats.ledger.recovery import Answered, RecoveryRun
from twinlog.formats.mm2.records import Heartbeat
from twinlog.gate import ask
from twinlog.gate.accepting import require_approver, to_accept
from twinlog.gate.ask import GateRequest
from twinlog.gate.at_source import arrival
from twinlog.gate.record import keep, keep_run
from twinlog.jsonable import to_json
from twinlog.judge.check import Mode
from twinlog.procedure import (
    Outcome,
    Step,
    StepName,
    done,
    failed,
    failed_by,
    learned,
    planned,
    skipped,
    waiting,
)
from twinlog.recovery import transitions
from twinlog.recovery.report import at_risk, skips
from twinlog.recovery.steps.client_switch import event_of, switch, way_of
from twinlog.recovery.steps.forbidden import known_to_forbid, told
from twinlog.recovery.steps.planned import answering, missing, moved_since, told_lost
from twinlog.recovery.steps.source_dead import recalled, shown
from twinlog.recovery.steps.world import Answer, Found, World
from twinlog.visible import listed, singular

_ONCE_MORE_SECONDS = 2.0
"""How long a source that the gate of this run found silent is asked again before a target is promoted."""

AGAIN = "look at what would be done now, and approve that"


def ask_gate(world: World) -> Outcome:
    """Ask the readiness gate, and keep its answer."""
    tools = world.tools
    known, request = world.found, GateRequest(world.mode)
    answer = ask.run(
        world.flow, world.clusters, request, sleep=tools.sleep, seen=known.observed, watched=known.watched
    )
    kept = keep(world.flow, world.clusters.target, answer, tools.seal)
    result = answer.result
    yes = listed([
        f"{check.name}{f' of {by.subject}' if by.subject else ''} up to {by.up_to if by.up_to is not None else 'any'},"
        f" by {by.by} ({by.known_by}): {by.reason}"
        for check in result.checks
        for by in check.waived
    ])
    waived = f"; accepted: {yes}" if yes else ""
    if result.ready:
        return done(f"ready{waived}; {kept.evidence}")
    first = next((check for check in result.checks if check.blocks), None)
    why = f": {first.message}" if first is not None else ""
    way = to_accept(world.flow.name, result.amounts, kept.seen)
    return failed(f"not ready, {listed(result.blocking)}{why}{waived}; {kept.evidence}{way}", refused=True)


def look_gate(world: World, mended: Collection[str] = ()) -> Outcome:
    """Say what forbids the failover already, if something is known to, unless the flow is promoted.

    The checks `mended` are made to hold by a step that is still to come.
    """
    flow, clusters = world.flow, world.clusters
    ledger = world.ledger
    if transitions.open_run(ledger) is None and ledger.phase.out_of_service:
        return planned("")
    if world.mode is Mode.PLANNED:
        known = known_to_forbid(flow, clusters, world.found.observed)
        found = tuple(check for check in known if check.name not in mended)
        why = f"says no already, before producers are stopped: {told(found)}"
    else:
        result = ask.run(flow, clusters, GateRequest(world.mode), seen=world.found.observed).result
        found = tuple(check for check in result.checks if check.blocks)
        answers = "source-silent" in result.blocking
        why = f"{flow.source.alias} answers (use mode planned)" if answers else told(found)
        why = f"would say no: {why}"
    return planned(why if found else "", replace(world.found, forbidding=found))


def look_switch(world: World) -> str:
    """Say by which hook clients are sent."""
    return way_of(world.flow.failover) or "no hook is set (twinlog.failover.hook.*)"


def approve(world: World) -> Outcome:
    """Ask a person; without one the failover waits."""
    flow, found = world.flow, world.found
    if world.mode is Mode.PLANNED:
        cost, found = ("", found) if found.drained else missing(world)
        cost = cost or told_lost(world)
    else:
        found = found if found.loss is not None else recalled(world)
        assert found.loss is not None and found.observed is not None
        cost, found = found.loss.cost, replace(found, groups=shown(found.observed.recalled))
    if text := skips(found.groups):
        cost = f"{cost}, but {text}"
    run = world.noted
    if run is not None:
        cost += run.changed_mode
    groups = len({group.group for group in found.groups})
    placed = f", {groups:,} groups are placed" if groups else ""
    question = f"{flow.name}: promote {flow.target.alias}? {cost}{placed}"
    return answered(replace(world, found=found), question, cost, "nothing is promoted")


def answered(world: World, question: str, cost: str, stays: str) -> Outcome:
    """Put the question to a person: a yes is to what it costs, after a no all `stays` as it is.

    It ends with TerminalError `approval-expired` if the yes was given beforehand, to another cost.
    Raises TerminalError `no-approver`.
    """
    abort = f"twinlog recovery abort --flow '{world.flow.name}' --reason ..."
    found, agreed, by = replace(world.found, cost=cost), world.tools.agreed, world.journal.actor.by
    if agreed not in {"", cost}:
        what = f"{by} has approved `{agreed}`, and now it is `{cost}`"
        return failed_by(TerminalError(what, AGAIN, code="approval-expired"), found)
    answer, actor = world.tools.approve(singular(question)), world.journal.actor
    run = world.noted
    said_then = run.answered if run is not None else None
    before = said_then if said_then is not None and said_then.yes and said_then.cost == cost else None
    if answer is Answer.NOBODY:
        alone = f"nobody is there to approve: run it with --yes, or `{abort}`"
        nobody = waiting("nobody has answered" if actor.driver else alone)
        return learned(nobody, replace(found, answered=before))
    yes, lost = answer is Answer.YES, at_risk(found.topics).least
    if yes:
        require_approver(world.flow, by)
    others = tuple(ye for ye in before.yes_of if ye != by) if yes and before is not None else ()
    found = replace(found, answered=Answered(by, actor.known_by, yes, cost, lost, actor.driver, others))
    if not yes:
        then = "" if actor.driver else f"; run it again, or `{abort}`"
        return failed(f"no: {stays}{then}", found, refused=True)
    anybody = "" if world.flow.failover.approvers else "; no twinlog.approvers: whoever may run it"
    said = f"yes, by {by} ({actor.known_by}{anybody}){f', after {listed(others)}' if others else ''}"
    wanting = world.flow.failover.approvals_required - 1 - len(others)
    if wanting > 0:
        more = f"twinlog.approvals.required asks for {wanting:,} more, by others"
        return waiting(f"{said}; {more}; {cost}", found)
    return done(f"{said}; {cost}", found)


def promote(world: World) -> Outcome:
    """Look once more, and write the promotion; the entry of this step is in the same transaction."""
    flow, began = world.flow, time.monotonic()
    why, found = _changed(world)
    if why:
        return failed(f"{why}: nothing is promoted; run it again", found, refused=True)
    proved = world.mode is Mode.PLANNED and not answering(world)
    known = 0 if proved else (found.loss.known if found.loss else None)
    rpo = 0.0 if proved else (found.loss.seconds if found.loss else None)
    move = partial(transitions.promote, at_risk_records=0 if proved else None, known=known, rpo_seconds=rpo)
    outcome = done(f"{flow.target.alias} is promoted", found)
    return world.write(StepName.PROMOTE, outcome, began, move)


def _changed(world: World) -> tuple[str, Found]:
    """Say what is not any more as it was proved, "" if all of it is; return what is known by that, too."""
    if world.mode is Mode.PLANNED:
        return moved_since(world)
    accepted = world.ledger.accepted
    answers = (Offence(world.flow.name, None, 1),)
    decided = covering(accepted, "source-silent", answers, clock.now_ms())
    if not decided and world.clusters.source.answers(_ONCE_MORE_SECONDS):
        return f"{world.flow.source.alias} answers again", world.found
    return "", world.found


def switch_clients(world: World) -> Outcome:
    """Run the hook."""
    return send_clients(world, world.mode, world.noted)


def send_clients(world: World, mode: str, run: RecoveryRun | None) -> Outcome:
    """Tell the hook of the flow that clients are to work on its target since the run was promoted."""
    promoted_ms = run.promoted_ms if run is not None and run.promoted_ms is not None else clock.now_ms()
    flow, settings = world.flow, world.flow.failover
    way = way_of(settings)
    if not way:
        return skipped(
            f"no hook is set (twinlog.failover.hook.*): send clients to {flow.target.bootstrap_servers}"
        )
    why, attempts = switch(settings, event_of(flow, world.run, mode, promoted_ms), world.tools.sleep)
    if why:
        return failed(
            f"{way}: {why}, {attempts} times; {flow.target.alias} stays promoted: mend the hook and run the command"
            " again, or switch clients by hand"
        )
    return done(f"{way}, attempt {attempts}")


def try_target(flow: FlowSettings, target: Cluster, sleep: Callable[[float], None]) -> Outcome:
    """Prove that the promoted target takes writes and gives them to readers, unless no heartbeat may be written.

    It is the heartbeat that the flow writes there anyway, so it leaves nothing unusual.  Raises as `arrival`.
    """
    if not flow.emit_heartbeats:
        return skipped(
            f"not tried: {flow.name} writes no heartbeats (emit.heartbeats.enabled=false, or it observes)"
        )
    beat = Heartbeat(flow.source.alias, flow.target.alias, clock.now_ms())
    seconds = arrival(flow, target, beat, target, flow.policy.heartbeats_topic(), sleep)
    if seconds is None:
        return failed(f"what was written to {flow.target.alias} could not be read back")
    return done(f"written and read on {flow.target.alias} in {seconds:.3f} s")


def write_evidence(world: World) -> Outcome:
    """Write the evidence of the run, and end the run: nothing is left to do."""
    began = time.monotonic()
    run = world.noted
    if run is None:
        raise TerminalError(f"the ledger has no run {world.run}", code="no-failover", flow=world.flow.name)
    path, digest = _write(world, run)
    return end(world, path, digest, began)


def end(world: World, path: str, digest: str, began: float) -> Outcome:
    """Note the evidence, and that nothing is left to do."""
    outcome = done(f"evidence {path}{'' if world.tools.seal.key else ' (not signed)'}")
    clear = transitions.clear
    return world.write(
        StepName.REPORT, outcome, began, lambda run, _, entry: clear(run, entry, (path, digest))
    )


def _write(world: World, run: RecoveryRun) -> tuple[str, str]:
    recovery = {
        "flow": world.flow.name,
        **to_json(replace(run, evidence="", evidence_sha256="")),
        "topics": to_json(world.found.topics) or world.request.found.get("topics", []),
        "groups": to_json(world.found.groups) or world.request.found.get("groups", []),
        "notes": world.found.notes,
    }
    return keep_run(world.flow, world.run, recovery, world.tools.seal)


GATE = Step(
    StepName.GATE,
    "asks the readiness gate, mode planned",
    "ready",
    "do what the check says, or accept it (`twinlog accept`), and run it again",
    ask_gate,
    look_gate,
)
GATE_WITHOUT_SOURCE = Step(
    StepName.GATE,
    "asks the readiness gate, mode source-dead",
    "ready",
    "the source answers: use mode planned. Otherwise decide what you accept, and run it again",
    ask_gate,
    look_gate,
)
APPROVE = Step(
    StepName.APPROVE,
    "asks a person; `--yes` answers beforehand",
    "yes",
    "no: nothing is promoted; run it again, or `twinlog recovery abort --reason ...`",
    approve,
)
PROMOTE = Step(
    StepName.PROMOTE,
    "looks once more, and writes the state `promoted` behind the fence; there is no way back after this",
    "`promoted` in `twinlog status`",
    "something moved since it was checked: run it again",
    promote,
)
SWITCH = Step(
    StepName.SWITCH_CLIENTS,
    "runs the hook of `twinlog.failover.hook.*`",
    "the hook answers well within its time-out",
    "the flow stays promoted; mend the hook and run the command again: only this and what follows is done",
    switch_clients,
    look_switch,
)
CANARY: Step[World] = Step(
    StepName.CANARY,
    "writes a heartbeat to the target and reads it back",
    "the target takes writes",
    "see why the target refuses writes; run it again",
    lambda world: try_target(world.flow, world.clusters.target, world.tools.sleep),
)
REPORT = Step(
    StepName.REPORT,
    "writes the signed evidence",
    "a file below `twinlog.reports.folder`",
    "make the folder writable and run it again",
    write_evidence,
)
