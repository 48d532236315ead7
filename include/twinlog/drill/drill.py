"""Drill a failover while the flow follows: clone groups on the target, read with them, judge, and delete them again.

Nothing that applications use is changed.  The clones are written into the ledger before they exist, and deleted
whatever happens; if this process dies, the next drill deletes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from twinlog import clock
from twinlog.cluster.admin.groups import OffsetChange
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.drill import clones
from twinlog.drill.application import Application
from twinlog.drill.compare import Comparison, Firsts, Readings
from twinlog.drill.places import View, view
from twinlog.drill.reading import SESSION_SECONDS, Reader
from twinlog.drill.report import DrilledPosition, DrillReport, Found
from twinlog.errors import ClusterUnreachable, ExitCode, TerminalError, TwinlogError
from twinlog.facts.observe import observe
from twinlog.facts.recall import recall
from twinlog.formats.ledger.recovery import DrillRun, DrillState, StepState
from twinlog.gate.evidence import Seal
from twinlog.gate.record import keep_run
from twinlog.grouped import grouped
from twinlog.groups.report import GroupPartitionRow
from twinlog.judge.at_risk import topics_at_risk
from twinlog.kafka_types import TopicPartition
from twinlog.policy.selection import NameFilter
from twinlog.procedure import Outcome, StepName, StepReport, Told, done, failed, skipped, timed
from twinlog.recovery.report import TopicAtRisk, at_risk, partitions_at_risk
from twinlog.recovery.steps import canary
from twinlog.recovery.steps.loss import loss_of
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.topics.snapshot import FlowSnapshot
from twinlog.visible import and_more, listed


@dataclass(frozen=True, slots=True)
class Request:
    """Tell who drills, and which groups: at most `most` of those that `groups` accepts.

    With `source_dead` groups are placed by their checkpoints, as a failover without the source would place them.
    `driver` names what drills, if that is tried again when its process dies: the clones of an earlier try are deleted.
    """

    by: str
    groups: NameFilter
    most: int
    driver: str = ""
    source_dead: bool = False


@dataclass(frozen=True, slots=True)
class Tools:
    """Tell what a drill works with, other than the clusters; `told` hears of every step that begins or ended.

    `application` reads once more, as the application of a group whose login is given.
    """

    read: Reader
    sleep: Callable[[float], None]
    application: Application
    seal: Seal
    told: Told = lambda _name, _outcome: None


@dataclass(slots=True)
class _Work:
    """One process's drill, and what it has found so far."""

    flow: FlowSettings
    clusters: Clusters
    request: Request
    tools: Tools
    run: DrillRun
    seen: View | None = None
    chosen: tuple[str, ...] = ()
    not_drilled: tuple[str, ...] = ()
    noted: bool = False
    placed_seconds: float = 0.0
    met: dict[str, Firsts] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    positions: tuple[DrilledPosition, ...] = ()
    topics: tuple[TopicAtRisk, ...] = ()
    rpo_seconds: float | None = None
    left: tuple[str, ...] = ()
    steps: list[StepReport] = field(default_factory=list)
    exit_code: ExitCode = ExitCode.DONE

    @property
    def places(self) -> tuple[GroupPartitionRow, ...]:
        """The positions of the chosen groups."""
        chosen = frozenset(self.chosen)
        return tuple(it for it in self.seen.places if it.group in chosen) if self.seen is not None else ()

    @property
    def rto_seconds(self) -> float | None:
        """Add what placing took and the slowest first record; None if none was read."""
        firsts = [it.seconds for met in self.met.values() for it in met.values() if it.record is not None]
        return round(self.placed_seconds + max(firsts), 3) if firsts else None


def run(flow: FlowSettings, clusters: Clusters, request: Request, tools: Tools) -> DrillReport:
    """Drill, and clean up.

    A step that fails is in the report, and in the evidence.  Raises TerminalError `phase` for a flow that is failing
    over or promoted, errors of the target before anything is changed, and `reports` if no evidence can be written.
    """
    _require_following(flow, read_ledger(flow, clusters.target))
    now_ms = clock.now_ms()
    note = DrillRun(
        clock.new_run_name("drill"), DrillState.OPEN, request.by, now_ms, now_ms, driver=request.driver
    )
    work = _Work(flow, clusters, request, tools, note)
    ended = False
    try:
        for name, deed in DEEDS.items():
            _do(work, name, deed)
        ended = True
    finally:
        state, message = _verdict(work) if ended else (DrillState.FAILED, "it was broken off")
        _do(work, StepName.CLEAN_UP, lambda it: _clean_up(it, state, message))
    report = _report(work)
    path, _ = keep_run(flow, report.run, report.document, tools.seal)
    return replace(report, evidence=path)


def _require_following(flow: FlowSettings, ledger: Ledger) -> None:
    if ledger.phase.out_of_service:
        raise TerminalError(
            f"{flow.name} is {ledger.phase}: a drill is for a flow that follows",
            hint="`twinlog recovery status` says where it stands",
            code="phase",
            flow=flow.name,
        )


def _do(work: _Work, name: StepName, deed: Callable[[_Work], Outcome]) -> None:
    outcome, row = timed(name, lambda: deed(work), work.tools.told)
    if outcome.ends:
        work.exit_code = max(work.exit_code, outcome.exit_code)
    work.steps.append(row)


def _tidy(work: _Work) -> Outcome:
    driver, target = work.request.driver, work.clusters.target
    found = clones.tidy(work.flow, target, clock.now_ms(), driver)
    deleted, tries_left = found.deleted, SESSION_SECONDS + 5 if driver else 0
    while found.left and tries_left:  # the consumer of an earlier try is a member for a while after its death
        work.tools.sleep(1.0)
        found = clones.tidy(work.flow, target, clock.now_ms(), driver)
        deleted, tries_left = deleted + found.deleted, tries_left - 1
    spared = f"; may still run, and is left alone: {listed(found.running)}" if found.running else ""
    if found.left:
        return failed(f"{_undeleted(found.left)}{spared}")
    if not deleted:
        return done(f"nothing was left{spared}")
    return done(f"{deleted:,} clones of earlier drills deleted{spared}")


def _undeleted(refused: Mapping[str, TwinlogError]) -> str:
    name, error = next(iter(refused.items()))
    return f"not deleted: {listed(sorted(refused))}; {name}: {error}"


def _choose(work: _Work) -> Outcome:
    began = time.monotonic()
    work.seen = view(work.flow, work.clusters, source_dead=work.request.source_dead)
    work.placed_seconds = time.monotonic() - began
    accepts = work.request.groups.accepts
    asked = sorted({it.group for it in work.seen.places if accepts(it.group)})
    untold = sorted(group for group in work.seen.untold if accepts(group) and group not in asked)
    work.chosen, rest = tuple(asked[: work.request.most]), asked[work.request.most :]
    work.not_drilled = (*rest, *untold)
    without = f"placed by checkpoints, as without {work.flow.source.alias}; "
    source = "" if work.seen.positions is not None else without
    if not work.chosen:
        return done(f"{source}no group has a position to drill{_left_out(work)}")
    text = f"{source}{len(work.chosen):,} groups, {len(work.places):,} positions{_left_out(work)}"
    lost = [it for it in work.places if it.downstream_offset is None]
    if lost:
        more = and_more(len(lost), form=" (and {} positions more)")
        first = f"{lost[0].group} on {lost[0].topic}-{lost[0].partition}"
        return failed(f"{text}; group {first} has no place on the target: {lost[0].text}{more}")
    return done(text)


def _left_out(work: _Work) -> str:
    out = work.not_drilled
    return f"; {len(out):,} groups are not drilled: {listed(out)}" if out else ""


def _place(work: _Work) -> Outcome:
    changes: dict[str, dict[TopicPartition, OffsetChange]] = {}
    for it in work.places:
        if it.downstream_offset is not None:
            clone = clones.clone_of(work.run.run, it.group)
            changes.setdefault(clone, {})[it.remote] = OffsetChange(it.downstream_offset, None, "")
    if not changes:
        return skipped("nothing to place")
    target = work.clusters.target
    work.run = replace(work.run, clones=tuple(changes), at_ms=clock.now_ms())
    # Also if the answer to this write is lost, it may have been made.
    work.noted = True
    clones.note(work.flow, target, work.run)
    began = time.monotonic()
    refused = target.alter_offsets(changes).refused
    work.placed_seconds += time.monotonic() - began
    if refused:
        for key, error in refused.items():
            group = key.group.removeprefix(clones.clone_of(work.run.run, ""))
            work.troubles.setdefault(group, f"its clone could not be placed: {error}")
        key, error = next(iter(refused.items()))
        return failed(f"{len(refused):,} positions could not be committed, such as {key.group}: {error}")
    written = sum(map(len, changes.values()))
    return done(f"{len(changes):,} clones, {written:,} positions committed on {work.flow.target.alias}")


def _read(work: _Work) -> Outcome:
    placed = {
        group: {it.remote for it in work.places if it.group == group and it.downstream_offset is not None}
        for group in work.chosen
        if group not in work.troubles
    }
    if not work.noted or not any(placed.values()):
        return skipped("no clone was placed")
    users = 0
    for group, places in placed.items():
        if not places:
            continue
        work.run = replace(work.run, at_ms=clock.now_ms())
        clones.note(work.flow, work.clusters.target, work.run)
        try:
            work.met[group] = work.tools.read(clones.clone_of(work.run.run, group), places)
            starts = {
                it.remote: it.downstream_offset
                for it in work.places
                if it.group == group and it.downstream_offset is not None
            }
            users += work.tools.application(group, starts) != ""
        except ClusterUnreachable:
            raise
        except TwinlogError as error:
            work.troubles[group] = str(error)
    records = sum(it.record is not None for met in work.met.values() for it in met.values())
    rto = work.rto_seconds
    took = f"; placed and read in {rto:,.3f} s" if rto is not None else ""
    logins = f"; {users:,} of them also by their application's login" if users else ""
    text = (
        f"{len(work.met):,} groups read {records:,} first records on {work.flow.target.alias}{took}{logins}"
    )
    late = "; ".join(_late(work))
    return failed(f"{text}; {late}") if late else done(text)


def _late(work: _Work) -> Iterator[str]:
    """Say which tiers missed their objective: by placing all groups, and the slowest first record of the tier."""
    topics = {it.remote: it.topic for it in work.places}
    met = (it for met in work.met.values() for it in met.items() if it[1].record is not None)
    seconds = grouped((work.flow.tier_of(topics[at]).name, first.seconds) for at, first in met)
    for tier in work.flow.tiers:
        took = work.placed_seconds + max(seconds.get(tier.name, ()), default=0.0)
        if tier.name in seconds and tier.drill_rto_seconds is not None and took > tier.drill_rto_seconds:
            key = f"twinlog.tier.{tier.name}.drill.rto.seconds" if tier.name else "twinlog.drill.rto.seconds"
            yield f"{took:,.3f} s is longer than {key}={tier.drill_rto_seconds}"


def _compare(work: _Work) -> Outcome:
    if work.seen is None or not work.places:
        return skipped("no group was chosen")
    if not work.met and not work.troubles and any(it.downstream_offset is not None for it in work.places):
        return skipped("no clone has read")
    now = view(work.flow, work.clusters, work.seen.positions, source_dead=work.request.source_dead)
    comparison = Comparison(work.flow, work.clusters, work.seen, now)
    work.positions = tuple(comparison.of(work.places, Readings(work.met, work.troubles)))
    wrong = [it for it in work.positions if it.found in {Found.WRONG, Found.NOT_PLACED}]
    right = sum(it.found is Found.RIGHT for it in work.positions)
    nothing = sum(it.found is Found.NOTHING_TO_READ for it in work.positions)
    again = sum(it.again or 0 for it in work.positions if it.found is Found.RIGHT)
    text = f"{right:,} of {len(work.positions):,} positions right, {again:,} records read again"
    text += f"; {nothing:,} had nothing to read" if nothing else ""
    if not wrong:
        return done(text)
    first = wrong[0]
    where = f"group {first.group} on {first.remote_topic}-{first.partition}"
    return failed(f"{text}; {where}: {first.message}{and_more(len(wrong))}")


def _canary(work: _Work) -> Outcome:
    return canary.try_target(work.flow, work.clusters.target, work.tools.sleep)


def _at_risk(work: _Work) -> Outcome:
    flow, snapshot = work.flow, FlowSnapshot(work.flow, work.clusters)
    try:
        facts = observe(snapshot, configs=False)
        work.topics, since = partitions_at_risk(facts), ""
    except ClusterUnreachable as error:
        if error.data.get("cluster") != flow.source.alias:
            raise
        facts = recall(snapshot)
        loss = loss_of(snapshot, facts)
        work.topics, since = loss.topics, f"; {loss.estimate}"
    work.rpo_seconds = facts.rpo_seconds
    age = (
        f"the oldest for {work.rpo_seconds:,.3f} s"
        if work.rpo_seconds is not None
        else "for how long is unknown"
    )
    text = f"{at_risk(work.topics).told(f'are not on {flow.target.alias}')}, {age}{since}"
    judged = {it.topic for it in work.topics}  # without heartbeats
    over = [it for it in topics_at_risk(flow, facts) if it.topic in judged and it.over_rpo]
    if not over:
        return done(text) if work.rpo_seconds is not None else failed(f"{text}: no RPO is proved")
    first = over[0]
    waited = "for how long is not known" if first.seconds is None else f"for {first.seconds:,.3f} s"
    late = f"records of {first.topic} wait {waited}, its RPO is {first.rpo_seconds} s"
    return failed(f"{text}; {late}{and_more(len(over))}")


DEEDS: Mapping[StepName, Callable[[_Work], Outcome]] = {
    StepName.TIDY: _tidy,
    StepName.CHOOSE: _choose,
    StepName.PLACE: _place,
    StepName.READ: _read,
    StepName.COMPARE: _compare,
    StepName.CANARY: _canary,
    StepName.AT_RISK: _at_risk,
}


def _clean_up(work: _Work, state: DrillState, message: str) -> Outcome:
    """Delete the clones, and write how the drill ended; until both are done, the ledger has the clones' names."""
    target, made = work.clusters.target, work.run.clones if work.noted else ()
    work.left = made
    refused = clones.delete(target, work.run) if made else {}
    work.left = tuple(it for it in made if it in refused)
    work.run = replace(
        work.run,
        state=DrillState.FAILED if refused else state,
        at_ms=clock.now_ms(),
        clones=work.left,
        groups=len(work.met),
        rto_seconds=work.rto_seconds,
        rpo_seconds=work.rpo_seconds,
        message=_undeleted(refused) if refused else message,
    )
    clones.note(work.flow, target, work.run)
    if refused:
        return failed(_undeleted(refused))
    return done(f"{len(made):,} clones deleted" if made else "nothing to delete")


def _verdict(work: _Work) -> tuple[DrillState, str]:
    """Say how the drill ended: `passed` is earned by records that were read, and lost by any step that failed."""
    bad = next((it for it in work.steps if it.state is StepState.FAILED), None)
    if bad is not None:
        return DrillState.FAILED, f"{bad.name.value}: {bad.message}"
    if not work.chosen:
        return DrillState.WAITING, "no group was looked at: nothing is proved"
    right = {it.group for it in work.positions if it.found is Found.RIGHT}
    if not right:
        return DrillState.WAITING, "no group had anything to read on the target: nothing is proved"
    return DrillState.PASSED, f"{len(right):,} groups went on at the right record{_left_out(work)}"


def _report(work: _Work) -> DrillReport:
    state, message = _verdict(work)
    code = work.exit_code
    return DrillReport(
        flow=work.flow.name,
        run=work.run.run,
        mode="drill",
        state=state,
        dry_run=False,
        steps=tuple(work.steps),
        topics=work.topics,
        groups=work.positions,
        rto_seconds=work.rto_seconds,
        rpo_seconds=work.rpo_seconds,
        evidence="",
        by=work.request.by,
        message=message,
        drilled=tuple(sorted(work.met)),
        not_drilled=work.not_drilled,
        left=work.left,
        exit_code=ExitCode.DONE if state is DrillState.PASSED else max(code, ExitCode.SAYS_NO),
    )
