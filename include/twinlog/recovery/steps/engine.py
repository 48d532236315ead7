"""The steps of a flow that another engine copies: wait until it is through, and stop it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from twinlog import clock
from twinlog.cluster.api import ClusterReader
from twinlog.config.flow.settings import CopiedBy, FlowSettings
from twinlog.copying.result import CopyResult
from twinlog.errors import TerminalError, TwinlogError
from twinlog.fact import Total
from twinlog.facts.flow import FlowFacts
from twinlog.facts.observe import observe
from twinlog.formats.ledger.recovery import RecoveryRun, StepState
from twinlog.jsonable import to_json
from twinlog.judge.check import Mode
from twinlog.lifecycle import sync_topics
from twinlog.migration.copier import (
    DEDICATED_CONNECTOR,
    DEDICATED_GROUP,
    Origin,
    connect_groups,
    require_stopped,
    still_runs,
)
from twinlog.monitoring import publish
from twinlog.observe import run as looks
from twinlog.observe.lane import LocalObserveRunner
from twinlog.observe.values import HORIZON_MS
from twinlog.procedure import Outcome, Step, StepName, done, failed, planned, waiting
from twinlog.recovery.report import at_risk, partitions_at_risk
from twinlog.recovery.steps.client_switch import event_of, run_command
from twinlog.recovery.steps.world import World
from twinlog.topics.snapshot import FlowSnapshot, all_partitions
from twinlog.visible import listed

LOOK_SECONDS = 1.0
"""Pause between two looks at an engine that copies what is left."""


def look_once(world: World, horizon_ms: int = HORIZON_MS) -> tuple[CopyResult, str]:
    """Look at what was copied since the last look; return the result, and why not all could be looked at."""
    flow, clusters, run_id = world.flow, world.clusters, world.journal.actor.holder
    snapshot = FlowSnapshot(flow, clusters)
    snapshot = sync_topics.as_left(snapshot, sync_topics.run(flow, clusters, snapshot=snapshot))
    seen = looks.run(
        flow, clusters, LocalObserveRunner(), run_id=run_id, snapshot=snapshot, horizon_ms=horizon_ms
    )
    return seen, next(
        (f"{row.topic}-{row.partition}: {row.error}" for row in seen.partitions if row.error), ""
    )


def wait_until_through(world: World) -> Outcome:
    """Look until the engine has copied all that the source has, and report it as a cycle does."""
    flow, began_ms, actor = world.flow, clock.now_ms(), world.journal.actor
    deadline = time.monotonic() + flow.failover.wait_seconds
    while True:
        seen, why = look_once(world)
        facts = observe(FlowSnapshot(flow, world.clusters))
        found = replace(world.found, topics=partitions_at_risk(facts))
        behind = not_copied(facts)
        if not why and behind == Total():
            publish.run(flow, world.clusters, actor.holder, to_json(seen), began_ms, facts)
            text = f"{flow.copied_by} is through: all records were looked at"
            return done(text, replace(found, drained=True))
        if time.monotonic() >= deadline:
            what = why or behind.told(f"of {flow.source.alias} have no copy yet")
            return waiting(f"{what}; see what {flow.copied_by} does, and run it again", found)
        world.tools.sleep(LOOK_SECONDS)


def not_copied(facts: FlowFacts) -> Total:
    """Count what is still to come; records that the engine has passed over are for the gate to judge.  Pure."""
    risk = at_risk(partitions_at_risk(facts))
    topics = (topic for topic in facts.topics if not topic.heartbeats)
    absent = sum(part.absent_records for topic in topics for part in topic.partitions)
    return Total(risk.least - absent, risk.doubt)


def stop(world: World) -> Outcome:
    """Stop the engine, see that nothing moves, and look for the last time: all positions are exact then.

    Without the source a failover goes on, and names what a person has to see to.
    """
    try:
        before = running(world)
        why = _not_stopped(world, before)
        seen = "" if why else f"{_told(world, before)}; nothing moved for {_watch_seconds(world.flow):.0f} s"
    except TwinlogError as error:
        why, seen = f"nobody knows whether {world.flow.copied_by} still copies: {error.message}", ""
    if world.mode is Mode.SOURCE_DEAD:
        text = f"see to it that {world.flow.copied_by} does not go on once {world.flow.source.alias} is back: {why}"
        return world.noting(done(text), text) if why else done(seen)
    if why:
        return waiting(f"{why}; stop it (a connector that is only paused keeps its tasks), and run it again")
    _, unread = look_once(world, horizon_ms=0)
    if unread:
        return failed(f"not all could be looked at: {unread}")
    return done(f"{seen}: every position up to here is exact")


def running(world: World) -> list[str]:
    """Say which Kafka Connect workers run the engine now, on the target, and on the source unless it is lost."""
    origin, target = Origin.of(world.flow), world.clusters.target
    return [
        line for cluster in _asked(world) for line in origin.running(cluster, is_target=cluster is target)
    ]


def _asked(world: World) -> tuple[ClusterReader, ...]:
    source, target = world.clusters.source, world.clusters.target
    return (target,) if world.mode is Mode.SOURCE_DEAD else (target, source)


def _told(world: World, before: Sequence[str]) -> str:
    """Say what was seen of an engine that seems to have stopped; what was never seen may be idle."""
    if before:
        return f"before the stop command {listed(before)}, and now none"
    connector, asked = Origin.of(world.flow).connector, " and ".join(it.alias for it in _asked(world))
    refused = _refused(world)
    return (
        f"the stop command has ended well; before it, too, no Kafka Connect worker of {asked} was seen to run"
        f" {connector}: an idle {world.flow.copied_by} that runs elsewhere looks the same"
        f"{f'; not told: {listed(refused)}' if refused else ''}"
    )


def _refused(world: World) -> list[str]:
    """Say which groups of Kafka Connect do not tell what they run, or that they are not listed."""
    return [
        f"{group} on {cluster.alias}: {error.message}"
        for cluster in _asked(world)
        for group, error in connect_groups(cluster).refused.items()
    ]


def _perhaps(world: World) -> list[str]:
    """Say which workers may copy the flow, as long as nobody knows the connector of its MirrorMaker 2."""
    flow = world.flow
    if flow.copied_by is not CopiedBy.MIRROR_MAKER or flow.connector_name != DEDICATED_CONNECTOR:
        return []
    if Origin.of(flow).positions(flow, world.clusters):
        return []
    lines = _refused(world)
    for cluster in _asked(world):
        for group, workers in connect_groups(cluster).found.items():
            tasks = sum(workers.tasks.values())
            if tasks and not group.endswith(DEDICATED_GROUP):
                lines.append(f"{group} on {cluster.alias} runs {tasks} task(s) of {listed([*workers.tasks])}")
    return lines


def _not_stopped(world: World, before: Sequence[str]) -> str:
    """Stop the engine, which ran `before`; say why it may still copy, "" if nothing shows that it does.

    Raises what a cluster answers instead of telling who copies.
    """
    flow, command = world.flow, world.flow.failover.stop_command
    if not command:
        unset = "twinlog.failover.stop.command is not set (`true` if you have stopped it)"
        return f"{flow.copied_by} may still copy: {unset}"
    event = event_of(flow, world.run, world.mode, 0) | {"event": "stop"}
    del event["promoted_ms"]
    if failure := run_command(command, event, flow.failover.hook_seconds):
        return f"{flow.copied_by} may still copy: {failure}"
    names = {life.remote_topic for life in world.ledger.incarnations.values()}
    copies = tuple(all_partitions(world.clusters.target.describe_topics(names).found.values()))
    deadline = time.monotonic() + flow.failover.wait_seconds
    while True:
        try:
            require_stopped(flow, world.clusters, Origin.of(flow), copies, _watch_seconds(flow))
            if seen := running(world):
                raise still_runs(flow, listed(seen))
        except TerminalError as error:
            if time.monotonic() >= deadline:
                return error.message
        else:
            break
    if not before and (perhaps := _perhaps(world)):
        what = f"nobody knows the connector of {flow.name}, and {listed(perhaps)}"
        return f"{what}: name it (twinlog.connector.name)"
    return ""


def _watch_seconds(flow: FlowSettings) -> float:
    """Return for how long nothing may move: as long as writers of the source are watched, and for two heartbeats."""
    return max(flow.gate.fence_seconds, 2.5 * flow.heartbeats_interval_seconds)


def _undo(world: World, run: RecoveryRun) -> list[str]:
    """Name the engine that was stopped: a person starts it."""
    stopped = any(it.step == StepName.STOPPED and it.state is StepState.DONE for it in run.journal)
    return [f"start {world.flow.copied_by} again, which step stopped has stopped"] if stopped else []


THROUGH = Step(
    StepName.DRAIN,
    "looks until the engine has copied all that A has, and reports a cycle",
    "0 records left in every partition",
    "waits for `twinlog.failover.wait.seconds`: see the engine's lag and its log, and run it again",
    wait_until_through,
    lambda world: (
        not_copied(world.found.observed.facts).told("have no copy now") if world.found.observed else ""
    ),
)
STOPPED = Step(
    StepName.STOPPED,
    "runs `twinlog.failover.stop.command`, looks for Kafka Connect workers that run the engine, and watches that"
    " neither records, positions nor heartbeats move; then looks once more: every position is exact",
    "no worker runs it, and nothing moves; it says if no worker was seen before, either",
    "stop the engine by hand, set the command to `true`, and run it again",
    stop,
    lambda world: planned(
        world.flow.failover.stop_command or "no command is set (twinlog.failover.stop.command): it would wait"
    ),
    undo=_undo,
)
