"""Drill a failover while the flow follows: clone groups on the target, read with them, judge, and delete them again.

Nothing that applications use is changed.  The clones are written into the ledger before they exist, and deleted
whatever happens; if this process dies, the next drill deletes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from twinlog import clock
from twinlog.cluster.admin.groups import OffsetChange
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import Configuration, FlowSettings
from twinlog.drill import clones
from twinlog.drill.compare import Comparison, Firsts
from twinlog.drill.joining import SESSION_SECONDS, First
from twinlog.drill.places import View, stand_on, view
from twinlog.drill.reading import Reader, reader
from twinlog.drill.report import DrilledPosition, DrillReport, Found
from twinlog.errors import ClusterUnreachable, ExitCode, TerminalError, TwinlogError
from twinlog.fact import known, total
from twinlog.facts.recall import observe_or_recall
from twinlog.formats.ledger.recovery import DrillRun, DrillState, StepState
from twinlog.gate.evidence import Seal
from twinlog.gate.record import keep_run
from twinlog.grouped import grouped
from twinlog.groups.report import GroupPartitionRow
from twinlog.judge.at_risk import topics_at_risk
from twinlog.kafka_types import Positions, TopicPartition
from twinlog.policy.selection import NameFilter
from twinlog.procedure import (
    Outcome,
    Step,
    StepName,
    StepReport,
    Told,
    Walked,
    done,
    failed,
    failed_by,
    learned,
    silent,
    skipped,
    walk,
)
from twinlog.recovery.report import TopicAtRisk, at_risk, partitions_at_risk
from twinlog.recovery.steps import ending
from twinlog.recovery.steps.loss import loss_of
from twinlog.state.ledger import Ledger, read_ledger, write_ledger
from twinlog.topics.snapshot import FlowSnapshot
from twinlog.visible import and_more, listed, singular


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
    """Tell what a drill works with, other than the clusters; `told` hears of every step that begins or ended."""

    read: Reader
    sleep: Callable[[float], None]
    seal: Seal
    told: Told = silent

    @classmethod
    def of(cls, configuration: Configuration, flow: FlowSettings, told: Told) -> Tools:
        """Return real consumers."""
        return cls(reader(flow.target), time.sleep, Seal.of(configuration, flow), told)


@dataclass(frozen=True, slots=True)
class Work:
    """One process's drill, and what it has found so far."""

    flow: FlowSettings
    clusters: Clusters
    request: Request
    tools: Tools
    run: DrillRun
    seen: View | None = None
    places: tuple[GroupPartitionRow, ...] = ()
    not_drilled: tuple[str, ...] = ()
    placed_seconds: float = 0.0
    met: Mapping[str, Firsts] = field(default_factory=dict)
    troubles: Mapping[str, str] = field(default_factory=dict)
    positions: tuple[DrilledPosition, ...] = ()
    topics: tuple[TopicAtRisk, ...] = ()
    rpo_seconds: float | None = None

    @property
    def firsts(self) -> Iterator[tuple[TopicPartition, First]]:
        """What clones met first that was a record."""
        return (it for met in self.met.values() for it in met.items() if it[1].record is not None)

    @property
    def rto_seconds(self) -> float | None:
        """Add what placing took and the slowest first record; None if none was read."""
        slowest = max((it.seconds for _, it in self.firsts), default=None)
        return None if slowest is None else round(self.placed_seconds + slowest, 3)

    def starts(self, group: str) -> Positions:
        """Return where a group goes on, by the copy's partition."""
        return {
            place.remote: place.downstream_offset
            for place in self.places
            if place.group == group and place.downstream_offset is not None
        }

    def noting(self, **changes: Any) -> Work:
        """Keep in the ledger that the drill lives, and what has changed of it."""
        run = replace(self.run, at_ms=clock.now_ms(), **changes)
        write_ledger(self.flow, self.clusters.target, [run])
        return replace(self, run=run)


def run(flow: FlowSettings, clusters: Clusters, request: Request, tools: Tools) -> DrillReport:
    """Drill, and clean up.

    A step that fails is in the report, and in the evidence.  Raises TerminalError `phase` for a flow that is failing
    over or promoted, errors of the target before anything is changed, and `reports` if no evidence can be written.
    """
    _require_following(flow, read_ledger(flow, clusters.target))
    now_ms = clock.now_ms()
    begun = DrillRun(
        clock.new_run_name("drill"), DrillState.OPEN, request.by, now_ms, now_ms, driver=request.driver
    )
    work = Work(flow, clusters, request, tools, begun)
    ended = DrillState.FAILED, "it was broken off"
    tried = Walked(work, (), ())
    try:
        tried = walk(TRIED, work, tools.told, goes_on=lambda _work, _outcome: True)
        ended = _verdict(tried.world, tried.rows)
    finally:
        clean_up = replace(CLEAN_UP, do=lambda it: _clean_up(it, *ended))
        cleaned = walk([clean_up], tried.world, tools.told)
    report = _report(cleaned.world, (*tried.rows, *cleaned.rows), (*tried.stopped, *cleaned.stopped))
    path, _ = keep_run(flow, report.run, report.document, tools.seal)
    return replace(report, evidence=path)


def _require_following(flow: FlowSettings, ledger: Ledger) -> None:
    if ledger.phase.out_of_service:
        raise TerminalError(
            f"{flow.name} is {ledger.phase}: a drill is for a flow that follows",
            "`twinlog recovery status` says where it stands",
            code="phase",
            flow=flow.name,
        )


def _tidy(work: Work) -> Outcome:
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


def _choose(work: Work) -> Outcome:
    flow, request, began = work.flow, work.request, time.monotonic()
    seen = view(flow, work.clusters, source_dead=request.source_dead)
    seconds = time.monotonic() - began
    asked = sorted({place.group for place in seen.places if request.groups.accepts(place.group)})
    untold = sorted(it for it in seen.untold - {*asked} if request.groups.accepts(it))
    chosen, rest = asked[: request.most], asked[request.most :]
    work = replace(
        work,
        seen=seen,
        placed_seconds=seconds,
        places=tuple(place for place in seen.places if place.group in chosen),
        not_drilled=(*rest, *untold),
    )
    source = "" if seen.positions is not None else f"placed by checkpoints, as without {flow.source.alias}; "
    text = f"{source}{len(chosen):,} groups, {len(work.places):,} positions{_left_out(work)}"
    if lost := [place for place in work.places if place.downstream_offset is None]:
        more = and_more(len(lost), form=" (and {} positions more)")
        first = f"{lost[0].group} on {lost[0].topic}-{lost[0].partition}"
        outcome = failed(f"{text}; group {first} has no place on the target: {lost[0].text}{more}")
        return learned(outcome, work)
    return done(text, work)


def _left_out(work: Work) -> str:
    out = work.not_drilled
    return f"; {len(out):,} groups are not drilled: {listed(out)}" if out else ""


def _place(work: Work) -> Outcome:
    prefix = clones.clone_of(work.run.run, "")
    changes = {
        f"{prefix}{group}": {at: OffsetChange(offset, None, "") for at, offset in starts.items()}
        for group in dict.fromkeys(place.group for place in work.places)
        if (starts := work.starts(group))
    }
    if not changes:
        return skipped("nothing to place")
    work, began = work.noting(clones=tuple(changes)), time.monotonic()
    try:
        refused = work.clusters.target.alter_offsets(changes).refused
    except TwinlogError as error:
        return failed_by(error, work)
    work = replace(
        work,
        placed_seconds=work.placed_seconds + time.monotonic() - began,
        troubles={
            key.group.removeprefix(prefix): f"its clone could not be placed: {why}"
            for key, why in refused.items()
        },
    )
    if refused:
        key, why = next(iter(refused.items()))
        outcome = failed(f"{len(refused):,} positions could not be committed, such as {key.group}: {why}")
        return learned(outcome, work)
    written = sum(map(len, changes.values()))
    text = f"{len(changes):,} clones, {written:,} positions committed on {work.flow.target.alias}"
    return done(text, work)


def _read(work: Work) -> Outcome:
    prefix = clones.clone_of(work.run.run, "")
    placed = [clone.removeprefix(prefix) for clone in work.run.clones]
    if not placed:
        return skipped("no clone was placed")
    for group in placed:
        if group in work.troubles:
            continue
        work = work.noting()
        try:
            met = work.tools.read(f"{prefix}{group}", work.starts(group))
            work = replace(work, met={**work.met, group: met})
        except ClusterUnreachable:
            raise
        except TwinlogError as error:
            work = replace(work, troubles={**work.troubles, group: str(error)})
    rto = work.rto_seconds
    took = f"; placed and read in {rto:,.3f} s" if rto is not None else ""
    records = len([*work.firsts])
    text = f"{len(work.met):,} groups read {records:,} first records on {work.flow.target.alias}{took}"
    late = "; ".join(_late(work))
    return learned(failed(f"{text}; {late}") if late else done(text), work)


def _late(work: Work) -> Iterator[str]:
    """Say which tiers missed their objective: by placing all groups, and the slowest first record of the tier."""
    topics = {place.remote: place.topic for place in work.places}
    seconds = grouped((work.flow.tier_of(topics[at]).name, first.seconds) for at, first in work.firsts)
    for tier in work.flow.tiers:
        took = work.placed_seconds + max(seconds.get(tier.name, ()), default=0.0)
        if tier.name in seconds and tier.drill_rto_seconds is not None and took > tier.drill_rto_seconds:
            key = f"twinlog.tier.{tier.name}.drill.rto.seconds" if tier.name else "twinlog.drill.rto.seconds"
            yield f"{took:,.3f} s is longer than {key}={tier.drill_rto_seconds}"


def _compare(work: Work) -> Outcome:
    if work.seen is None or not work.places:
        return skipped("no group was chosen")
    placed = any(place.downstream_offset is not None for place in work.places)
    if placed and not work.met and not work.troubles:
        return skipped("no clone has read")
    now = view(work.flow, work.clusters, work.seen.positions, source_dead=work.request.source_dead)
    stands = stand_on(work.clusters.source, work.places) if now.positions is None else None
    comparison = Comparison(work.flow, work.clusters, work.seen, now, work.met, work.troubles, stands)
    positions = tuple(map(comparison.judged, work.places))
    work = replace(work, positions=positions)
    by = grouped((position.found, position) for position in positions)
    right, nothing = by.get(Found.RIGHT, []), by.get(Found.NOTHING_TO_READ, [])
    again = total(known(position.again, "of some nobody knows it") for position in right)
    text = f"{len(right):,} of {len(positions):,} positions right, {again.told('read again')}"
    text += f"; {len(nothing):,} had nothing to read" if nothing else ""
    wrong = [position for position in positions if position.found in {Found.WRONG, Found.NOT_PLACED}]
    if not wrong:
        return done(text, work)
    first = wrong[0]
    where = f"group {first.group} on {first.remote_topic}-{first.partition}"
    return failed(f"{text}; {where}: {first.message}{and_more(len(wrong))}", work)


def _at_risk(work: Work) -> Outcome:
    flow, snapshot = work.flow, FlowSnapshot(work.flow, work.clusters)
    facts = observe_or_recall(snapshot)
    if facts.live:
        topics, since = partitions_at_risk(facts), ""
    else:
        loss = loss_of(snapshot, facts)
        topics, since = loss.topics, f"; {loss.estimate}"
    rpo = facts.rpo_seconds
    work = replace(work, topics=topics, rpo_seconds=rpo)
    age = f"the oldest for {rpo:,.3f} s" if rpo is not None else "for how long is unknown"
    text = f"{at_risk(topics).told(f'are not on {flow.target.alias}')}, {age}{since}"
    judged = {topic.topic for topic in topics}  # without heartbeats
    over = [topic for topic in topics_at_risk(flow, facts) if topic.topic in judged and topic.over_rpo]
    if not over:
        return learned(done(text) if rpo is not None else failed(f"{text}: no RPO is proved"), work)
    first = over[0]
    waited = "for how long is not known" if first.seconds is None else f"for {first.seconds:,.3f} s"
    late = f"records of {first.topic} wait {waited}, its RPO is {first.rpo_seconds} s"
    return failed(f"{text}; {late}{and_more(len(over))}", work)


def _clean_up(work: Work, state: DrillState, message: str) -> Outcome:
    """Delete the clones, and write how the drill ended; until both are done, the ledger has the clones' names.

    They are the ledger's: a step that was broken off has told nobody else of them.
    """
    noted = read_ledger(work.flow, work.clusters.target).drills
    run = next((drill for drill in noted if drill.run == work.run.run), work.run)
    made, refused = run.clones, clones.delete(work.clusters.target, run)
    why = _undeleted(refused) if refused else ""
    work = work.noting(
        state=DrillState.FAILED if why else state,
        clones=tuple(it for it in made if it in refused),
        groups=len(work.met),
        rto_seconds=work.rto_seconds,
        rpo_seconds=work.rpo_seconds,
        message=why or message,
    )
    if why:
        return failed(why, work)
    return done(f"{len(made):,} clones deleted" if made else "nothing to delete", work)


TRIED: tuple[Step[Work], ...] = (
    Step(
        StepName.TIDY,
        "deletes the clones that an earlier drill left on the target, by the names in the ledger",
        "nothing was left, or all of it is deleted",
        "a clone with members cannot be deleted: stop its consumer and run it again",
        _tidy,
    ),
    Step(
        StepName.CHOOSE,
        "translates the position of every group that is asked for, as a failover would, and takes the first of them",
        "every position has a place on the target",
        "a position without a place is named, and fails the drill: `twinlog groups` says why",
        _choose,
    ),
    Step(
        StepName.PLACE,
        "writes the names of the clones into the ledger, then commits them on the target",
        "every clone committed",
        "the target refuses a commit: grant READ on groups with the prefix `drill-`",
        _place,
    ),
    Step(
        StepName.READ,
        "starts a consumer with each clone on the target, and takes the first record of each partition",
        "a first record in seconds",
        "no record within 30 s fails the drill: look at the target's brokers",
        _read,
    ),
    Step(
        StepName.COMPARE,
        "tells by the map, and by the source if it answers, whether each record is the one that the group would read"
        " next",
        "the right record in every partition that had one",
        "a wrong record is named by both offsets: do not fail over before `twinlog audit` and `twinlog groups` say why",
        _compare,
    ),
    ending.CANARY.on(lambda work: ending.try_target(work.flow, work.clusters.target, work.tools.sleep)),
    Step(
        StepName.AT_RISK,
        "finds the age of the oldest record that is not on the target; without the source, by the last cycle's report",
        "within the RPO of its tier",
        "the flow lags: `twinlog status`",
        _at_risk,
    ),
)
"""What is tried, also behind a step that fails."""

CLEAN_UP: Step[Work] = Step(
    StepName.CLEAN_UP,
    "deletes the clones, whatever happened before",
    "none is left",
    "those that are left are named: the next drill deletes them",
)
STEPS = (*TRIED, CLEAN_UP)


def _verdict(work: Work, steps: Iterable[StepReport]) -> tuple[DrillState, str]:
    """Say how the drill ended: `passed` is earned by records that were read, and lost by any step that failed."""
    chosen = work.places or work.seen is None
    nobody = "" if chosen else f"no group asked for has a position: nothing is proved{_left_out(work)}"
    bad = next((step for step in steps if step.state is StepState.FAILED), None)
    if bad is not None:
        return DrillState.FAILED, f"{nobody}{nobody and '; '}{bad.name.value}: {bad.message}"
    if nobody:
        return DrillState.WAITING, nobody
    right = {position.group for position in work.positions if position.found is Found.RIGHT}
    if not right:
        return DrillState.WAITING, "no group had anything to read on the target: nothing is proved"
    return DrillState.PASSED, singular(f"{len(right):,} groups went on at the right record{_left_out(work)}")


def _report(work: Work, steps: tuple[StepReport, ...], stopped: Iterable[Outcome]) -> DrillReport:
    state, message = _verdict(work, steps)
    worst = max((outcome.exit_code for outcome in stopped), default=ExitCode.SAYS_NO)
    return DrillReport(
        flow=work.flow.name,
        run=work.run.run,
        mode="drill",
        state=state,
        dry_run=False,
        steps=steps,
        topics=work.topics,
        groups=work.positions,
        rto_seconds=work.rto_seconds,
        rpo_seconds=work.rpo_seconds,
        evidence="",
        by=work.request.by,
        message=message,
        drilled=tuple(sorted(work.met)),
        not_drilled=work.not_drilled,
        left=work.run.clones,
        exit_code=ExitCode.DONE if state is DrillState.PASSED else max(worst, ExitCode.SAYS_NO),
    )
