"""Stop the producers of the source: deny them WRITE if the source keeps ACLs, and watch that its ends stand still.

Denials bind neither super users nor brokers without an authorizer, so the watch decides.  Each denial is remembered in
the ledger before it is made: an abort removes exactly these.

The first ACL about a topic ends `allow.everyone.if.no.acl.found` for it: a DENY WRITE alone would hide the topic from
its readers.  If the source lets everybody use such topics, an ALLOW ALL is made before the denial, and goes after it.
If that is unknown, nothing is made, as the ALLOW ALL would open what is closed.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.cluster.admin.access_values import AclBinding
from twinlog.cluster.api import Cluster, ClusterReader
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, FencedError, TwinlogError
from twinlog.formats.ledger.recovery import DeniedWrite, RecoveryRun, RunState
from twinlog.gate.at_source import produced_topics
from twinlog.metadata.read import denial, rest_kept
from twinlog.recovery import transitions
from twinlog.recovery.journal import Journal
from twinlog.recovery.steps.world import World
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.visible import listed

EVERYBODY = "User:*"

PROBE = AclBinding("TOPIC", "LITERAL", "twinlog-probe-of-acls", EVERYBODY, "*", "DESCRIBE", "DENY")
"""An ACL about a topic that does not exist: it changes what users see who are no super users."""

PROBE_LOOKS = 15
PROBE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Denials:
    """The denials to make, and why there are none, or not all: the source keeps no ACLs, or does not show enough."""

    new: tuple[DeniedWrite, ...]
    why_none: str = ""


def plan_denials(flow: FlowSettings, source: ClusterReader) -> Denials:
    """List the ACLs that would keep producers from writing to the flow's topics; those that exist are not ours."""
    names = produced_topics(flow, source)
    if not names:
        return Denials((), f"{source.alias} has no topic to deny it on")
    try:
        known = set(source.describe_acls())
    except ClusterRefused as error:
        return Denials((), error.message)
    wanted = (
        DeniedWrite(name, EVERYBODY, "*", keeps_rest=not any(binding.is_about(name) for binding in known))
        for name in names
    )
    return Denials(tuple(denied for denied in wanted if denial(denied) not in known))


def sparing_readers(source: Cluster, denials: Denials) -> Denials:
    """Leave out topics that no ACL is about, unless the source lets everybody use those."""
    unnamed = [denied.topic for denied in denials.new if denied.keeps_rest]
    if not unnamed or not (why := _why_not_everybody(source)):
        return denials
    return Denials(
        tuple(denied for denied in denials.new if not denied.keeps_rest),
        f"{why}, so WRITE alone cannot be denied on topics that no ACL is about: {listed(unnamed)}; stop their"
        f" producers, or give the topics an ACL, such as kafka-acls --add --allow-principal '{EVERYBODY}'"
        f" --operation All --topic {unnamed[0]}, and run it again",
    )


def _why_not_everybody(source: Cluster) -> str:
    """Say why the source may not let everybody use topics that no ACL is about; "" if it does.

    This user sees such topics: it is a super user, which no ACL stops, or everybody sees them.
    """
    try:
        if why := _first_refusal(source.create_acls([PROBE]).refused.values()):
            return why
        for _ in range(PROBE_LOOKS):
            seen = source.describe_topics([PROBE.name])
            if seen.refused and not seen.absent:
                return ""
            time.sleep(PROBE_SECONDS)
        return f"twinlog's user is a super user of {source.alias}, and does not see what others may"
    finally:
        source.delete_acls([PROBE])


def clear_up(source: Cluster, worlds: Iterable[World]) -> None:
    """Remove denials of aborted runs from the source: a process may have made them after the abort, and died.

    If the source refuses to remove one, it stays noted in the ledger.
    """
    for world in worlds:
        flow = world.flow
        for run in world.ledger.recoveries:
            where = flow.target if run.failover else flow.source
            if run.state is RunState.ABORTED and where.alias == source.alias:
                forget_denials(source, world.journal, run)


def deny_writes(world: World, others: Sequence[World], new: tuple[DeniedWrite, ...]) -> str:
    """Note the ACLs, make them, and see that the run is still ours; return what the source refused.

    If this process stalled before it made them, another may have gone on, and removed them before they were there: then
    this one removes them, and raises FencedError `relieved`.  A process that goes on with a run confirms what the one
    before has noted.
    """
    source, worlds, refused = world.clusters.source, (world, *others), ""
    if new:
        for it in worlds:
            it.move(lambda run, _: transitions.deny(run, new))
        refused = make_denials(source, new)
    for it in worlds:
        try:
            _confirm(it)
        except FencedError as error:
            if error.code == "relieved":
                take_back(source, read_ledger(it.flow, it.clusters.target), new)
            raise
    return refused


def _confirm(world: World) -> None:
    """Say that the ACLs are made, or will not be, by this process.  Raises FencedError `relieved`."""
    run = world.noted
    if run is None or run.denying or run.holder != world.journal.actor.holder:
        world.move(lambda run, _: transitions.Move(replace(run, denying="")))


def make_denials(source: Cluster, denied: Iterable[DeniedWrite]) -> str:
    """Make the ACLs; return what the source refused, "" if it refused nothing."""
    wanted, refused = list(denied), dict[AclBinding, TwinlogError]()
    if first := rest_kept(wanted):
        refused |= source.create_acls(first).refused
    refused |= source.create_acls([
        denial(write) for write in wanted if not refused.keys() & rest_kept([write])
    ]).refused
    return _first_refusal(refused.values())


def remove_denials(source: Cluster, denied: Iterable[DeniedWrite]) -> str:
    """Remove the ACLs; return what the source refused, "" if it refused nothing."""
    wanted = list(denied)
    refused = dict(source.delete_acls([denial(write) for write in wanted]).refused)
    if last := rest_kept(write for write in wanted if denial(write) not in refused):
        refused |= source.delete_acls(last).refused
    return _first_refusal(refused.values())


def forget_denials(cluster: Cluster, journal: Journal, run: RecoveryRun) -> str:
    """Remove the denials of a run, and forget them; return what the cluster refused, "" if it refused nothing."""
    why = remove_denials(cluster, run.denied) if run.denied else ""
    if run.denied and not why:
        journal.move(lambda ledger: transitions.without_denials(ledger, run.run, clock.now_ms()))
    return why


def take_back(source: Cluster, ledger: Ledger, made: Collection[DeniedWrite]) -> None:
    """Remove the ACLs that a relieved process has made, but not those that a run under way or promoted has noted."""
    live = [
        recovery for recovery in ledger.recoveries if recovery.state in {RunState.OPEN, RunState.PROMOTED}
    ]
    wanted = {denied for run in live for denied in run.denied}
    if left := [denied for denied in made if denied not in wanted]:
        remove_denials(source, left)


def still_denied(cluster: Cluster, journal: Journal, run: RecoveryRun) -> list[str]:
    """Remove the ACLs of the run from the cluster on which it made them; say what stays, and why."""
    try:
        why = forget_denials(cluster, journal, run)
    except TwinlogError as error:
        why = error.message
    if not why:
        return []
    return [
        f"{len(run.denied):,} topics of {cluster.alias} still deny WRITE to {run.denied[0].principal}: {why};"
        " do this again once it answers"
    ]


def forget_denials_on_target(target: Cluster, journal: Journal, run: RecoveryRun) -> str:
    """Remove what keeps producers from the target of a flow that copies home, and forget it; as `forget_denials`."""
    why = remove_denials(target, run.denied_on_target) if run.denied_on_target else ""
    if run.denied_on_target and not why:
        journal.move(lambda ledger: transitions.without_denials_on_target(ledger, run.run))
    return why


def denied_to_everybody(target: ClusterReader, topics: Collection[str]) -> tuple[str, ...]:
    """Return those of the topics to which the cluster lets nobody write; none if it does not show its ACLs."""
    try:
        known = set(target.describe_acls())
    except ClusterRefused:
        return ()
    return tuple(topic for topic in sorted(topics) if denial(DeniedWrite(topic, EVERYBODY, "*")) in known)


def _first_refusal(refused: Collection[TwinlogError]) -> str:
    first = next(iter(refused), None)
    return "" if first is None else f"{first.message} ({len(refused)} refused)"
