"""Fail a flow that only brings home over although it brought nothing home: B is lost before any way home had begun.

Clients of A had gone to B, A came back, and B is lost.  Only B knew that they had, how far the copies went, and where
groups stood.  So A is promoted with what it has: nothing is translated, no group is moved, and the loss is estimated by
what clients wrote to A before they left.  Once B is back, `failback` saves what it alone has (failback/homes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twinlog import clock
from twinlog.clock import iso
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, UsageError
from twinlog.formats.ledger.recovery import StepState
from twinlog.gate.ask import source_answers
from twinlog.gate.suites.suites import Mode
from twinlog.kafka_types import TopicPartition
from twinlog.recovery.procedure import StepName, steps_of
from twinlog.recovery.report import (
    FailoverReport,
    Outcome,
    PartitionAtRisk,
    State,
    StepReport,
    TopicAtRisk,
    done,
    estimated,
    failed,
    skipped,
)
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps import consistent_cut, groups_at, registries
from twinlog.recovery.steps.client_switch import way_of
from twinlog.recovery.steps.loss import NONE, Loss, rate_before, read_newest
from twinlog.recovery.steps.scene import Scene
from twinlog.recovery.steps.source_writers import denied_to_everybody
from twinlog.recovery.transitions import brings_nothing_home, is_idle, open_run
from twinlog.state.internal_topics import internal_topics
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.topics.discover import copied_names
from twinlog.topics.discovery import remote_name
from twinlog.topics.own_topics import ensure_topics
from twinlog.visible import listed


def is_untold(flow: FlowSettings, ledger: Ledger) -> bool:
    """Say whether a failover of the flow that begins now, or is under way, is untold.  Pure."""
    run = open_run(ledger)
    return flow.homes is not None and (is_idle(ledger) or (run is not None and run.untold))


def require_lost(flow: FlowSettings, clusters: Clusters, mode: Mode) -> None:
    """Raise TerminalError `no-failover` if the source answers before a run begins: then clients can go home."""
    idle = is_idle(read_ledger(flow, clusters.target))
    if mode is Mode.PLANNED or (idle and source_answers(clusters.source)):
        raise brings_nothing_home(flow.name)


def require_no_places(flow: FlowSettings, groups_at_ms: int | None, *, cut: bool) -> None:
    """Raise UsageError for groups that are to go to a time or a cut: they stand on A where they stood."""
    for option, asked in ((groups_at.OPTION, groups_at_ms is not None), (consistent_cut.OPTION, cut)):
        if asked:
            raise UsageError(
                f"{option}: {flow.target.alias} does not know where groups stood on {flow.source.alias}",
                hint="go on without the option: groups stand where they stood before the failover",
            )


def make_ready(flow: FlowSettings, clusters: Clusters) -> None:
    """Create the topics of the flow's state, which a way home would have created."""
    ensure_topics(clusters.target, internal_topics(flow))


def preview(flow: FlowSettings, there: Way | None, clusters: Clusters, by: str) -> FailoverReport:
    """Return the steps as they would be done; nothing is changed.  Raises errors of the target."""
    loss = read_loss(_left(flow, there), clusters.target)
    under_way = open_run(read_ledger(flow, clusters.target))
    texts = {
        StepName.LOSS: _lost(flow, loss),
        StepName.GATE: "would see that the source does not answer; there is no copy to judge",
        StepName.GROUPS: _stand(flow),
        StepName.RIGHTS: _shut(_left(flow, there), clusters.target) or f"{flow.target.alias} keeps its own",
        StepName.SCHEMAS: registries.preview(flow),
        StepName.SWITCH_CLIENTS: way_of(flow.failover) or "no hook is set (twinlog.failover.hook.*)",
    }
    return FailoverReport(
        flow=flow.name,
        run=under_way.run if under_way is not None else "",
        mode=Mode.SOURCE_DEAD,
        state=State.FOLLOWING if under_way is None else State.WAITING,
        dry_run=True,
        steps=tuple(
            StepReport(it.name, StepState.PLANNED, 0.0, texts.get(it.name, it.does))
            for it in steps_of(Mode.SOURCE_DEAD)
        ),
        topics=loss.topics,
        by=by,
        next=f"twinlog failover --mode source-dead --flow '{flow.name}'",
        estimate=loss.estimate,
    )


def count_loss(scene: Scene) -> Outcome:
    """Say that the loss is not known, and what it may be."""
    scene.loss = loss = read_loss(_left(scene.flow, scene.tools.reverse), scene.clusters.target)
    scene.topics = loss.topics
    return done(_lost(scene.flow, loss))


def see_silence(scene: Scene) -> Outcome:
    """Take the place of the gate, which judges a copy: there is none; but a source that answers is not lost."""
    if source_answers(scene.clusters.source):
        return failed(
            f"{scene.flow.source.alias} answers: clients can go home; `twinlog recovery abort` takes this back",
            refused=True,
        )
    return skipped(f"{scene.flow.source.alias} does not answer, and there is no copy to judge")


def leave_groups(scene: Scene) -> Outcome:
    """Move no group: where each stood on the source, nobody here knows."""
    return skipped(_stand(scene.flow))


def name_denials(scene: Scene) -> Outcome:
    """Name what the target lets nobody write to; whose denials these are, only the source knew."""
    target = scene.clusters.target
    shut = _shut(_left(scene.flow, scene.tools.reverse), target)
    if shut:
        scene.notes.append(shut)
    return done(shut or f"{scene.flow.target.alias} keeps its own rights")


DEEDS: Mapping[StepName, Callable[[Scene], Outcome]] = {
    StepName.LOSS: count_loss,
    StepName.GATE: see_silence,
    StepName.GROUPS: leave_groups,
    StepName.RIGHTS: name_denials,
}


def read_loss(there: FlowSettings, target: ClusterReader) -> Loss:
    """Estimate what clients wrote to the lost cluster, by the topics of the flow `there` that they had left.

    The number is that of the minute before the last record, for all the time since.  Raises errors of the target.
    """
    names = own_topics(there, target)
    found = target.describe_topics(names).found
    places = [TopicPartition(name, it) for name in names for it in range(len(found[name].partitions))]
    ends = target.offsets(places).found
    newest = read_newest(target, {at: it.end for at, it in ends.items()}, ends)
    now_ms = clock.now_ms()
    at_ms = max(
        (it.timestamp for each in newest.values() for it in each.records if it.timestamp <= now_ms),
        default=0,
    )
    age = clock.seconds_since(at_ms, now_ms)
    topics = tuple(
        TopicAtRisk(
            remote_name(there, name),
            name,
            tuple(
                PartitionAtRisk(
                    at.partition,
                    None,
                    ends[at].end if at in ends else None,
                    0,
                    round(rate_before(newest.get(at, NONE), at_ms) * age) if at_ms else None,
                )
                for at in places
                if at.topic == name
            ),
        )
        for name in names
    )
    here, away = there.source.alias, there.target.alias
    estimate = f"{here} was never told what clients wrote to {away}"
    if at_ms:
        estimate += (
            f"; they wrote to {here} last at {iso(at_ms)}, and what came in the {age:,.0f} s since is estimated by the"
            " rate of the minute before"
        )
    return Loss(topics, None, None, estimate)


def own_topics(there: FlowSettings, source: ClusterReader) -> list[str]:
    """Return the topics that a flow copies from its source, but for heartbeats and copies from elsewhere."""
    return sorted(
        name
        for name in copied_names(there, source)
        if not there.policy.is_heartbeats_topic(name) and there.policy.upstream_topic(name) in {None, name}
    )


def _left(flow: FlowSettings, there: Way | None) -> FlowSettings:
    if there is not None:
        return there.flow
    raise TerminalError(
        f"{flow.name}: the file enables no flow {flow.target.alias}->{flow.source.alias}, so which topics clients had"
        " left is not known",
        code="no-way-home",
        flow=flow.name,
    )


def _lost(flow: FlowSettings, loss: Loss) -> str:
    guess = estimated(loss.topics)
    about = f"; about {guess:,}, if it went on as before" if guess is not None else ""
    return f"how many records are lost with {flow.source.alias} is not known{about}; {loss.estimate}"


def _stand(flow: FlowSettings) -> str:
    here, away = flow.target.alias, flow.source.alias
    return f"groups stand on {here} where they stood before the failover: what they read on {away} is not known here"


def _shut(there: FlowSettings, target: ClusterReader) -> str:
    names = denied_to_everybody(target, own_topics(there, target))
    if not names:
        return ""
    here, away = there.source.alias, there.target.alias
    return (
        f"{here} denies WRITE to everybody on {listed(names)}, as a planned failover does, and only {away} knows who"
        " made that: kafka-acls --remove --deny-principal 'User:*' --operation Write --topic ..."
    )
