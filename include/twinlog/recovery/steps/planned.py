"""The steps of a planned failover up to its promotion: while the source lives, so that nothing is lost.

Each may be done again at any time, and then changes nothing more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from twinlog import clock
from twinlog.audit import audit
from twinlog.audit.request import AuditMode, AuditRequest
from twinlog.audit.result import AuditedDifference, AuditResult
from twinlog.audit.verdict import AuditVerdict
from twinlog.copying import copy, ranges
from twinlog.copying.result import CopyResult
from twinlog.errors import FencedError, TransientError, TwinlogError
from twinlog.fact import Total
from twinlog.facts.observe import observe
from twinlog.formats.ledger.accepted import Accepted, Amount, Offence, amounts, counting, covering
from twinlog.gate.accepting import keep_shown, to_accept
from twinlog.gate.ask import see
from twinlog.gate.at_source import moving_topics, produced_topics
from twinlog.groups import checkpoints
from twinlog.groups.report import GroupPartitionRow, SyncReason
from twinlog.jsonable import to_json
from twinlog.lifecycle import sync_topics
from twinlog.monitoring import publish
from twinlog.procedure import Outcome, Step, StepName, done, failed, planned, waiting
from twinlog.recovery.report import at_risk, partitions_at_risk, placed, skips
from twinlog.recovery.steps import registries
from twinlog.recovery.steps.engine import look_once, not_copied, running
from twinlog.recovery.steps.forbidden import amounts_of, known_to_forbid, told
from twinlog.recovery.steps.groups import misplaced, placing
from twinlog.recovery.steps.source_writers import (
    clear_up,
    denied_to_everybody,
    deny_writes,
    plan_denials,
    sparing_readers,
    still_denied,
)
from twinlog.recovery.steps.world import Found, World
from twinlog.topics.snapshot import FlowSnapshot
from twinlog.visible import listed

AUDIT_EQUAL = "audit-equal"
"""The check of the differences that an audit found."""

LOSES = (AUDIT_EQUAL, "nothing-missing", "nothing-changed")
"""The checks of which an acceptance means that something is lost; the last two are of copies that others make."""

PASSES = 10
"""The most copies that a drain makes: with the producers stopped, the second finds nothing, or something is wrong."""


def fence_producers(world: World, *others: World) -> Outcome:
    """Copy what there is while producers still write, so that little is left; then stop them, and watch.

    What the gate would refuse anyway is said first.  The ledgers of `others` remember the denials
    too.
    """
    flow, source = world.flow, world.clusters.source
    if forbidding := known_to_forbid(flow, world.clusters):
        way = _to_accept(world, amounts_of(forbidding))
        return failed(f"no producer was stopped: not ready, {told(forbidding)}{way}", refused=True)
    copy_all(world)
    clear_up(source, (world, *others))
    denials = sparing_readers(source, plan_denials(flow, source))
    refused = deny_writes(world, others, denials.new)
    why = refused or denials.why_none
    found = replace(world.found, shut=denied_to_everybody(source, produced_topics(flow, source)))
    known = world.ledger.incarnations
    deadline = time.monotonic() + flow.failover.wait_seconds
    while (moving := moving_topics(flow, source, known, sleep=world.tools.sleep)).topics:
        if time.monotonic() >= deadline:
            none = f" (twinlog denies them nothing: {why})" if why else ""
            return waiting(f"{moving.told(flow.source.alias)}, and run it again{none}", found)
        copy_all(world)
    made = f"WRITE denied on {len(denials.new):,} topics" if denials.new and not refused else ""
    if why:
        denied = f"{made}, not on all: {why}" if made else f"no ACL was made: {why}"
    else:
        denied = made or "WRITE was denied already"
    text = f"the ends stood still for {flow.gate.fence_seconds} s; {denied}"
    return done(text, replace(found, watched=moving))


def drain(world: World) -> Outcome:
    """Copy until nothing is left, and report it as a cycle does."""
    flow, found, began_ms = world.flow, world.found, clock.now_ms()
    for _ in range(PASSES):
        copied, why = copy_all(world)
        facts = observe(FlowSnapshot(flow, world.clusters))
        found = replace(found, topics=partitions_at_risk(facts))
        left = at_risk(found.topics)
        if why:
            return failed(f"not everything could be copied: {why}", found)
        if left == Total():
            report = publish.run(
                flow, world.clusters, world.journal.actor.holder, to_json(copied), began_ms, facts
            )
            schemas = registries.bring_rest(world)
            text = f"nothing is left; {report.records:,} records in the last pass{schemas}"
            return done(text, replace(found, drained=True))
    what = left.told(f"are left after {PASSES} passes")
    return failed(f"{what}: something still writes, or a partition stands still", found)


def drain_both(world: World, other: World | None = None) -> Outcome:
    """Copy until nothing is left; the flow in the other direction then passes over what came.

    With unchanged names a group is placed by the maps of both flows, so both have to cover all of its log.  Without
    `other` it is that of the file, if it is there and keeps names.
    """
    other = other or _reverse(world)
    outcome = drain(world)
    if outcome.ends or other is None:
        return outcome
    if why := pass_over(other):
        drained = replace(world, found=outcome.found)
        return drained.noting(done(f"{outcome.message}; {why}"), why)
    return drain(world)  # in its turn it passes over what that wrote


def pass_over(world: World) -> str:
    """Let a flow pass over what the other one wrote, by a copy of what there is; say why it could not, "" if it could.

    The failover goes on if it could not: the flow copies the rest once it follows, and groups begin before that.
    """
    try:
        _, why = copy_all(world)
    except TwinlogError as error:
        if error.code == "relieved":
            raise
        why = error.message
    flow = world.flow.name
    return f"{flow} could not copy all of it yet, so groups may read records again: {why}" if why else ""


def _reverse(world: World) -> World | None:
    """Return the reverse flow as it acts for this failover; None if topics have other names, or it has never run."""
    way = world.tools.reverse
    if way is None or way.clusters.target.describe_topics([way.flow.ledger_topic]).refused:
        return None
    topics = FlowSnapshot(world.flow, world.clusters).discovery.topics
    if not any(topic.remote_topic == topic.topic for topic in topics):
        return None
    return replace(world, flow=replace(way.flow, recovery_run=world.run), clusters=way.clusters)


def copy_all(world: World) -> tuple[CopyResult | None, str]:
    """Provide topics and copy once; return the result, None if there was nothing, and why not all was copied.

    A cycle that had found the flow active may take the fence from under this copy, and then stands by: the copy begins
    again.  A process that has taken over the failover ends this one.
    """
    flow, clusters = world.flow, world.clusters
    if flow.observed:  # another engine copies
        return look_once(world)
    for tries_left in (2, 1, 0):
        try:
            snapshot, run_id = FlowSnapshot(flow, clusters), world.journal.actor.holder
            synced = sync_topics.run(flow, clusters, run_id=run_id, snapshot=snapshot)
            for refusal in synced.refused:
                return None, f"{refusal.name}: {refusal.message}; {refusal.hint}"
            snapshot = sync_topics.as_left(snapshot, synced)
            planned = ranges.run(flow, clusters, snapshot=snapshot)
            if not planned.ranges and not planned.unended:
                return None, next(
                    (f"{partition.topic}: {partition.message}" for partition in planned.stopped), ""
                )
            copied = copy.run(flow, clusters, world.tools.copies(), run_id=run_id, snapshot=snapshot)
        except FencedError:
            world.move(lambda *_: None)  # raises `relieved` if another process goes on
            if not tries_left:
                raise
            continue
        return copied, next(_failures(copied), "")
    raise TransientError(f"the copy of {flow.name} was fenced again and again", code="fenced")


def _failures(copied: CopyResult) -> Iterator[str]:
    yield from (f"{problem.topic}: {problem.message}; {problem.hint}" for problem in copied.problems)
    yield from (
        f"{partition.topic}-{partition.partition}: {partition.message}" for partition in copied.stopped
    )
    yield from (
        f"{partition.topic}-{partition.partition}: {partition.error}"
        for partition in copied.partitions
        if partition.error
    )
    if copied.error:
        yield copied.error


def prove_tail(world: World, *, again: bool = False) -> Outcome:
    """Audit what no audit has compared yet; with `again` also, in full, the topics in which one has found differences.

    Records that clients wrote to a copy are differences until they have come home.  As many differences as a person has
    accepted (`audit-equal`, as at the gate) stop nothing, and are named; what could not be audited stops it all the
    same.
    """

    def compare(request: AuditRequest) -> AuditResult:
        return audit.run(world.flow, world.clusters, world.tools.audits(), request)

    everything = AuditRequest(behind=True)
    result = compare(everything)
    if again and (unequal := frozenset(difference.topic for difference in result.differences)):
        compare(AuditRequest(AuditMode.FULL, topics=unequal, behind=True))
        result = compare(everything)
    if result.equal or result.verdict is AuditVerdict.NOTHING_TO_COMPARE:
        return done(f"{result.records:,} records looked at, {100 * result.coverage:.1f} % of the copy proved")
    told = [_named(difference) for difference in result.differences] + [
        problem.message for problem in result.problems
    ]
    first = next(iter(told), result.verdict.value)
    short = [
        Offence(partition.topic, partition.partition, partition.differences)
        for partition in result.partitions
        if partition.differences
    ]
    ledger = world.ledger
    found = covering(ledger.accepted, AUDIT_EQUAL, short, clock.now_ms())
    if result.differences and not result.problems and found:
        who = listed(sorted({accepted.by for accepted in found}))
        return done(f"{result.difference_count:,} differences, accepted by {who}: {first}")
    way = "" if result.problems else _to_accept(world, tuple(amounts(AUDIT_EQUAL, short)))
    return failed(f"the copy is not proved equal: {first}; see `twinlog audit`{way}", refused=True)


def _to_accept(world: World, found: tuple[Amount, ...]) -> str:
    """Keep what stands against a failover for a person to accept; return the command, as a clause."""
    if not found:
        return ""
    seen = keep_shown(world.flow, world.clusters.target, world.mode.value, found)
    return to_accept(world.flow.name, found, seen)


def answering(*worlds: World) -> tuple[Accepted, ...]:
    """Return who answers for differences, and for how many, so that nobody can say that nothing is lost."""
    return tuple(
        accepted
        for world in worlds
        for check in LOSES
        for accepted in counting(world.ledger.accepted, check, clock.now_ms())
    )


def told_lost(*worlds: World) -> str:
    """Say what is lost if everything was drained and audited: nothing, or what was accepted, when and by whom."""
    besides = listed([
        f"{accepted.told}, accepted by {accepted.by} at {clock.iso(accepted.at_ms)}"
        for accepted in answering(*worlds)
    ])
    return f"nothing is lost besides this: {besides}" if besides else "nothing is lost"


def missing(world: World) -> tuple[str, Found]:
    """Look at records and groups for what another process has proved; say what is missing, "" if nothing is."""
    flow = world.flow
    facts = observe(FlowSnapshot(flow, world.clusters), configs=False)
    groups = placed(checkpoints.run(placing(flow), world.clusters, dry_run=True).rows)
    left = not_copied(facts)
    why = "" if left == Total() else left.told(f"are not on {flow.target.alias} now")
    return why, replace(world.found, topics=partitions_at_risk(facts), groups=groups)


def _named(it: AuditedDifference) -> str:
    """Say which record differs: `twinlog audit` does not know a flow that is made for the way home."""
    places = (("upstream offset", it.upstream_offset), ("downstream offset", it.downstream_offset))
    where = " and ".join(f"{side} {offset}" for side, offset in places if offset is not None)
    return f"{it.topic}-{it.partition}, {where}: {it.kind.value}: {it.message}"


def moved_since(world: World) -> tuple[str, Found]:
    """Say what has moved since it was proved, just before the promotion, "" if nothing has, and what is known now."""
    if not world.found.drained:
        return "nothing was proved in this process", world.found
    facts = observe(FlowSnapshot(world.flow, world.clusters), configs=False)
    world = replace(world, found=replace(world.found, topics=partitions_at_risk(facts)))
    return _moved(world, not_copied(facts)), world.found


def _moved(world: World, left: Total) -> str:
    """Say what has moved since it was proved, records first; "" if nothing has."""
    shut = world.found.shut
    still = denied_to_everybody(world.clusters.source, shut)
    if open_again := [it for it in shut if it not in still]:
        return f"{world.flow.source.alias} does not deny WRITE any more on {listed(open_again)}"
    if world.flow.observed and (seen := running(world)):
        return f"{world.flow.copied_by} runs again: {listed(seen)}"
    if left.least:
        return left.told(f"were written to {world.flow.source.alias} since")
    if left.doubt:
        return f"{left.doubt} on {world.flow.source.alias}"
    result = checkpoints.run(placing(world.flow), world.clusters, dry_run=True)
    return _group_moved(world, result.rows)


def _group_moved(world: World, rows: Sequence[GroupPartitionRow]) -> str:
    """Say which group is not any more where it was placed, or skips more than a person was told; "" if none.  Pure."""
    if moved := [row for row in rows if row.reason is SyncReason.WRITTEN]:
        return f"group {moved[0].group} moved on {moved[0].topic}-{moved[0].partition} since"
    if wrong := misplaced(rows):
        return f"group {wrong[0].group} is not in its place any more: {wrong[0].text}"
    told = {(group.group, group.topic, group.partition): group.skipped or 0 for group in world.found.groups}
    more = skips(
        group
        for group in placed(rows)
        if (group.skipped or 0) > told.get((group.group, group.topic, group.partition), 0)
    )
    return f"{more}, more than before" if more else ""


def look_fence(world: World, copied: str = "") -> Outcome:
    """Say what would be copied and denied.

    `copied` says what is left to copy, if a step before this one brings the rest.
    """
    flow, clusters = world.flow, world.clusters
    seen = see(FlowSnapshot(flow, clusters))
    found = replace(world.found, observed=seen, topics=partitions_at_risk(seen.facts))
    if not copied:
        lag = seen.facts.lag
        most = "least" if lag.doubt or at_risk(found.topics).doubt else "most"
        copied = f"at {most} {lag.least:,} records"
    denials = plan_denials(flow, clusters.source)
    unnamed = sum(write.keeps_rest for write in denials.new)
    not_named = (
        f" ({unnamed:,} of them that no ACL is about: only if everybody may use these)" if unnamed else ""
    )
    denied = (
        f"deny WRITE on {len(denials.new):,} topics of {flow.source.alias}{not_named}"
        if denials.new
        else f"make no ACL ({denials.why_none or 'WRITE is denied already'})"
    )
    text = f"would {flow.work} {copied}, then {denied}, and watch for {flow.gate.fence_seconds} s"
    return planned(text, found)


FENCE = Step(
    StepName.FENCE_PRODUCERS,
    "refuses if a check of the gate fails that no step mends; copies what there is; denies WRITE on the source if"
    " it keeps ACLs; watches that the ends of its partitions stand still",
    "nothing is written to the source any more",
    "waits for `twinlog.failover.wait.seconds`, then names the topics: stop their producers and run it again",
    fence_producers,
    look_fence,
    undo=lambda world, run: still_denied(world.clusters.source, world.journal, run),
)
DRAIN = Step(
    StepName.DRAIN,
    "copies until nothing is left, and reports a cycle; with unchanged names both ways `B->A` passes over what"
    " came",
    "0 records left in every partition",
    "a partition that cannot be copied is named, with what to do",
    drain_both,
    lambda world: at_risk(world.found.topics).told(f"are not on {world.flow.target.alias} now"),
)
AUDIT = Step(
    StepName.AUDIT,
    "compares what no audit has compared yet, record by record",
    "equal",
    "differences are named: `twinlog audit`; copy the topic anew, or accept them (`twinlog accept`)",
    prove_tail,
)
