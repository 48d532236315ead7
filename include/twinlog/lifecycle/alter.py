"""Move the copy of a partition to another upstream offset, on a person's word and behind the fence.

The flow, or the topic, is paused meanwhile, so that no cycle begins to copy; the fence shuts out a lane that still
does.  What `alter_plan` allows is planned again from what is read behind the fence.  Progress, map, gaps and the note
of who did it are written in one transaction: a move happens as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import Ownership
from twinlog.errors import TerminalError, UsageError
from twinlog.formats.ledger.records import Gap, GapCause
from twinlog.formats.ledger.topics import OffsetsAltered
from twinlog.kafka_types import TopicPartition
from twinlog.lifecycle.alter_plan import (
    REFUSED,
    Alteration,
    Direction,
    Standing,
    offset_wanted,
    plan_alteration,
    why_not_held,
)
from twinlog.lifecycle.plan import Lost
from twinlog.lifecycle.records import crossing, describe, first_time, forgotten, newest_time, noted
from twinlog.state.ledger import Ledger
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic
from twinlog.topics.pauses import why_suspended
from twinlog.topics.snapshot import FlowSnapshot

NOT_PAUSED = "not-paused"
"""Code of the error for a flow that may copy while it is to be changed."""


@dataclass(frozen=True, slots=True)
class AlterRequest:
    """A move that a person wants: `to` is an upstream offset, `earliest` or `latest`."""

    topic: str
    partition: int
    to: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class AlterResult:
    """A move that was made (`changed`), or that would be made; `gaps` are the ranges that it leaves without copies.

    `before` says what a person does before the move can be made, "" for nothing.
    """

    flow: str
    move: Alteration
    changed: bool
    gaps: tuple[Gap, ...] = ()
    before: str = ""


def preview(flow: FlowSettings, clusters: Clusters, asked: AlterRequest) -> AlterResult:
    """Say what the move would do, and change nothing.

    Raises UsageError for an unknown topic or partition and for no offset, TerminalError `alter-refused` or `phase` if
    the move would be refused, and errors of clusters.
    """
    snapshot = _state(flow, clusters)
    at = _standing(snapshot, snapshot.progress, asked.topic, asked.partition)
    move = plan_alteration(at, offset_wanted(asked.to, at))
    gaps = tuple(_gaps(clusters, at, move, snapshot.ledger, clock.now_ms()))
    return AlterResult(flow.name, move, False, gaps, why_not_held(snapshot.ledger, asked.topic))


def run(flow: FlowSettings, clusters: Clusters, asked: AlterRequest) -> AlterResult:
    """Make the move.

    Raises UsageError without a reason and as `preview`, TerminalError `not-paused`, FencedError if another driver takes
    the flow meanwhile, and as `preview`.  The state is then as it was.
    """
    if not asked.reason.strip():
        raise UsageError("to alter offsets takes a reason", hint='such as: --reason "known bad records"')
    first = preview(flow, clusters, asked)
    _require_held(flow, asked.topic, first.before)
    if first.move.direction is Direction.NOWHERE:
        return first
    owned = Ownership.taken(flow, clusters, "alter")
    snapshot = _state(flow, clusters)
    ledger = snapshot.ledger
    _require_held(flow, asked.topic, why_not_held(ledger, asked.topic))
    at = _standing(snapshot, owned.progress, asked.topic, asked.partition)
    move = plan_alteration(at, offset_wanted(asked.to, at))
    if move.direction is Direction.NOWHERE:
        return AlterResult(flow.name, move, False)
    now = clock.now_ms()
    gaps = tuple(_gaps(clusters, at, move, ledger, now))
    copy_end = owned.grant.copy_ends.get(at.topic_partition)
    records = [it for gap in gaps for it in crossing(owned.state, gap, copy_end)]
    note = OffsetsAltered(
        *at.life, now, move.from_offset, move.to_offset, asked.by, asked.reason.strip(), owned.run_id
    )
    # The epoch of the last copied batch says nothing of the log right before the new place.
    epochs = [forgotten(owned.state, it) for it in ledger.leader_epochs if it.life == at.life]
    owned.write([*records, *epochs, noted(owned.state, note)])
    return AlterResult(flow.name, move, True, gaps)


def _gaps(clusters: Clusters, at: Standing, move: Alteration, ledger: Ledger, now_ms: int) -> Iterator[Gap]:
    """Describe the ranges that a move forward leaves without copies."""
    if move.deleted is not None:
        first, end = move.deleted
        lost = Lost(at.topic, at.topic_id, at.remote_topic, at.partition, first, end - 1, past=True)
        yield describe(clusters, lost, ledger, now_ms)
    if move.left_out is not None:
        first, end = move.left_out
        yield Gap(
            at.topic,
            at.partition,
            first,
            end - 1,
            GapCause.OFFSETS_ALTERED,
            now_ms,
            end - first,
            at.topic_id,
            first_ms=newest_time(clusters.target, TopicPartition(at.remote_topic, at.partition)),
            last_ms=first_time(clusters.source, at.topic_partition, end),
            copied_past=True,
        )


def _state(flow: FlowSettings, clusters: Clusters) -> FlowSnapshot:
    """Read the flow's state, and change nothing.

    Raises TerminalError `phase` for a flow that is failing over or promoted, or that MirrorMaker 2 copies now, and
    errors of clusters.
    """
    snapshot = FlowSnapshot(flow, clusters).read_state()
    state = snapshot.ledger.flow_state
    if state is not None and (state.state.out_of_service or state.handed_over):
        raise TerminalError(
            f"flow {flow.name} is {why_suspended(snapshot.ledger)}",
            hint="`twinlog migrate takeover` takes it back"
            if state.handed_over
            else "`twinlog recovery status` says what can be done",
            code="phase",
            flow=flow.name,
        )
    return snapshot


def _require_held(flow: FlowSettings, topic: str, before: str) -> None:
    """Raise TerminalError `not-paused` if there is something to do `before`."""
    if before:
        raise TerminalError(
            f"{flow.name} may copy {topic} at any moment, so its offsets stay as they are",
            hint=before,
            code=NOT_PAUSED,
            flow=flow.name,
            topic=topic,
        )


def _standing(
    snapshot: FlowSnapshot, progress: Mapping[TopicPartition, int], topic_name: str, number: int
) -> Standing:
    """Find where the copy of a partition stands, by `progress` (last copied upstream offsets).

    Raises UsageError for a topic or partition that the flow does not have, TerminalError `alter-refused` for one that
    has a problem or has not begun.
    """
    flow, ledger = snapshot.flow, snapshot.ledger
    topic, partition = _found(snapshot, topic_name, number)
    noted_life = ledger.incarnations.get(topic.topic)
    last = progress.get(topic.at_source(partition.partition))
    goes_on = partition.begins if last is None else last + 1
    if noted_life is None or goes_on is None:
        raise TerminalError(
            f"{topic.topic}-{partition.partition}: where its copy begins is not noted yet",
            hint="`twinlog.start` says where new topics begin; `twinlog run --once` notes it",
            code=REFUSED,
            topic=topic.topic,
        )
    return Standing(
        topic.topic,
        topic.topic_id,
        topic.remote_topic,
        partition.partition,
        goes_on,
        partition.source.log_start,
        partition.source.readable_end(read_committed=flow.copy.read_committed),
    )


def _found(snapshot: FlowSnapshot, name: str, number: int) -> tuple[DiscoveredTopic, DiscoveredPartition]:
    flow, discovery = snapshot.flow, snapshot.discovery
    topic = next((it for it in discovery.topics if it.topic == name), None)
    if topic is None:
        raise UsageError(
            f"--topic: {flow.name} replicates no topic {name}",
            hint="`twinlog topics offsets` lists them",
        )
    problem = next((it for it in discovery.problems if it.topic == topic.topic and it.blocking), None)
    if problem is not None:
        raise TerminalError(problem.message, hint=problem.hint, code=REFUSED, topic=topic.topic)
    if not 0 <= number < topic.partition_count:
        raise UsageError(
            f"--partition: {topic.topic} has partitions 0 to {topic.partition_count - 1}, and no {number}"
        )
    found = next((it for it in topic.provisioned if it.partition == number), None)
    if found is None or found.target is None:
        raise TerminalError(
            f"{topic.topic}-{number}: one of the clusters did not say where its log begins and ends",
            hint="it needs a leader that answers on both sides; a cycle creates the copy's partitions",
            code=REFUSED,
            topic=topic.topic,
        )
    return topic, found
