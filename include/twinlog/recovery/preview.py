"""Say what a failover would do now, with the real numbers, and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.metadata import Profile
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import ranges
from twinlog.errors import TwinlogError
from twinlog.facts.recall import source_answers
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import StepState
from twinlog.gate.ask import Observed, see
from twinlog.gate.suites.suites import Mode
from twinlog.groups import checkpoints
from twinlog.metadata import apply_plan, sync
from twinlog.metadata.apply_plan import with_profile
from twinlog.recovery import transitions
from twinlog.recovery.procedure import STEPS, Actor, StepName
from twinlog.recovery.report import (
    FailoverReport,
    PlacedGroup,
    State,
    StepReport,
    TopicAtRisk,
    at_risk,
    partitions_at_risk,
    placed,
    skips,
)
from twinlog.recovery.steps import registries
from twinlog.recovery.steps.client_switch import way_of
from twinlog.recovery.steps.forbidden import known_to_forbid
from twinlog.recovery.steps.loss import read_loss
from twinlog.recovery.steps.planned import misplaced, placing
from twinlog.recovery.steps.source_dead import read_placings, shown, without_place
from twinlog.recovery.steps.source_writers import plan_denials
from twinlog.recovery.transitions import open_run
from twinlog.state.ledger import Ledger
from twinlog.topics.snapshot import FlowSnapshot


def run(flow: FlowSettings, clusters: Clusters, mode: Mode, by: str) -> FailoverReport:
    """Return the steps as they would be done.

    Raises errors of the clusters, and the refusals of `transitions.begin`; of a flow that was promoted it shows what
    was to be done.
    """
    snapshot = FlowSnapshot(flow, clusters)
    ledger = snapshot.ledger
    changed = ""
    if ledger.phase is not FlowPhase.PROMOTED:
        asker, now = Actor(by, ""), clock.now_ms()
        changed = transitions.begin(
            flow.name, ledger, mode, asker, "dry run", now, only_brings_home=flow.homes is not None
        ).run.changed_mode
    under_way = open_run(ledger)
    seen = planned_facts(snapshot) if mode is Mode.PLANNED else _source_dead(snapshot)
    topics, groups, texts, seconds, estimate = seen
    ends = flow.source.alias, flow.target.alias
    steps = tuple(
        StepReport(step.name, StepState.PLANNED, 0.0, texts.get(step.name, step.does_for(*ends)))
        for step in STEPS[mode]
    )
    again = f"; goes on with {under_way.run}{changed}" if under_way else ""
    return FailoverReport(
        flow=flow.name,
        run=under_way.run if under_way is not None else "",
        mode=mode,
        state=_state(ledger),
        dry_run=True,
        steps=steps,
        topics=topics,
        groups=groups,
        rpo_seconds=seconds,
        by=by,
        next=f"twinlog failover --mode {mode.value} --flow '{flow.name}'{again}",
        estimate=estimate,
    )


def _state(ledger: Ledger) -> State:
    if open_run(ledger) is not None:
        return State.WAITING
    return State.PROMOTED if ledger.phase.out_of_service else State.FOLLOWING


Seen = tuple[tuple[TopicAtRisk, ...], tuple[PlacedGroup, ...], Mapping[StepName, str], float | None, str]


def planned_facts(snapshot: FlowSnapshot) -> Seen:
    """Return what a planned failover would find now, with a text for each step that has numbers."""
    flow, clusters = snapshot.flow, snapshot.clusters
    seen = see(snapshot)
    topics = partitions_at_risk(seen.facts)
    missing = at_risk(topics)
    most = "least" if missing.unseen else "most"
    plan = ranges.run(flow, clusters, snapshot=snapshot)
    found = checkpoints.run(placing(flow), clusters, dry_run=True)
    rows = found.rows
    denials = plan_denials(flow, clusters.source)
    unnamed = sum(it.keeps_rest for it in denials.new)
    wrong = misplaced(rows)
    changes = _counted(lambda: len(sync.make_plan(with_profile(flow, Profile.PROMOTED), clusters).changes))
    texts = {
        StepName.FENCE_PRODUCERS: f"would copy at {most} {plan.records:,} records, then "
        + (
            f"deny WRITE on {len(denials.new):,} topics of {flow.source.alias}"
            + (
                f" ({unnamed:,} of them that no ACL is about: only if everybody may use these)"
                if unnamed
                else ""
            )
            if denials.new
            else f"make no ACL ({denials.why_none or 'WRITE is denied already'})"
        )
        + f", and watch for {flow.gate.fence_seconds} s",
        StepName.DRAIN: missing.told(f"are not on {flow.target.alias} now"),
        StepName.GROUPS: f"{len({it.group for it in rows}):,} groups, {len(rows):,} positions"
        + (f"; {len(wrong):,} cannot be placed now: {wrong[0].group}: {wrong[0].text}" if wrong else "")
        + _after(found.untold)
        + _after(skips(placed(rows))),
        StepName.RIGHTS: f"{changes} changes on {flow.target.alias}",
        StepName.SCHEMAS: registries.preview(flow),
        StepName.SWITCH_CLIENTS: _hook(flow),
    }
    if forbidding := _forbidding(snapshot, seen):
        texts[StepName.GATE] = f"says no already, before producers are stopped: {forbidding}"
    return topics, placed(rows), texts, None, ""


def _forbidding(snapshot: FlowSnapshot, seen: Observed) -> str:
    """Say what forbids the failover already; of a flow that is promoted, nothing is asked."""
    run = open_run(snapshot.ledger)
    if run is None and snapshot.ledger.phase.out_of_service:
        return ""
    name = run.run if run is not None else ""
    return known_to_forbid(replace(snapshot.flow, recovery_run=name), snapshot.clusters, seen)


def _source_dead(snapshot: FlowSnapshot) -> Seen:
    flow, clusters, ledger = snapshot.flow, snapshot.clusters, snapshot.ledger
    loss = read_loss(snapshot)
    placings = read_placings(flow, clusters.target, ledger)
    blocked = [it for it in placings if it.trouble]
    alive = source_answers(clusters.source)
    texts = {
        StepName.LOSS: loss.told,
        StepName.GROUPS: f"{len({it.key.group for it in placings}):,} groups, {len(placings):,} positions,"
        f" {sum(it.writes for it in placings):,} to be written"
        + (f"; group {blocked[0].key.group}: {blocked[0].trouble}" if blocked else "")
        + without_place(placings)
        + _after(skips(shown(placings))),
        StepName.RIGHTS: _rights(snapshot),
        StepName.SCHEMAS: registries.preview(flow),
        StepName.SWITCH_CLIENTS: _hook(flow),
    }
    if alive:
        texts[StepName.GATE] = f"would say no: {flow.source.alias} answers (use --mode planned)"
    return loss.topics, shown(placings), texts, loss.seconds, loss.estimate


def _after(clause: str) -> str:
    return f"; {clause}" if clause else ""


def _rights(snapshot: FlowSnapshot) -> str:
    """Say what would change, once the source is lost: the denials of a failover that is over go too."""
    flow, target, ledger = snapshot.flow, snapshot.clusters.target, snapshot.ledger
    run, texts = open_run(ledger), []
    if run is not None and run.denied_on_target:
        texts.append(f"would remove {len(run.denied_on_target):,} denials of WRITE on {flow.target.alias}")
    if ledger.promotion_plan is not None:
        changes = len(apply_plan.fitting(flow, ledger, target).plan.changes)
        texts.append(f"{changes:,} changes on {flow.target.alias}")
    elif flow.homes is None:
        texts.append("no cycle has kept a plan")
    return "; ".join(texts) or f"{flow.target.alias} keeps its own"


def _hook(flow: FlowSettings) -> str:
    return way_of(flow.failover) or "no hook is set (twinlog.failover.hook.*)"


def _counted(count: Callable[[], int]) -> str:
    try:
        return f"{count():,}"
    except TwinlogError as error:
        return f"unknown ({error.message})"
