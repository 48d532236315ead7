"""Move the copy of a partition to another upstream offset, on a person's word and behind the fence.

The flow, or the topic, is paused meanwhile, so that no cycle begins to copy; the fence shuts out a lane that still
does.  What `alter_plan` allows is planned again from what is read behind the fence.  Progress, map, gaps and the note
of who did it are written in one transaction: a move happens as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import Ownership
from twinlog.errors import TerminalError, UsageError
from twinlog.formats.ledger.records import Gap, GapCause
from twinlog.formats.ledger.topics import OffsetsAltered
from twinlog.kafka_types import Positions
from twinlog.lifecycle.alter_plan import (
    Alteration,
    Standing,
    offset_wanted,
    plan_alteration,
    refused,
    why_not_held,
)
from twinlog.lifecycle.plan import Lost
from twinlog.lifecycle.records import crossing, describe, forgotten, noted
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
    gaps: tuple[Gap, ...]
    before: str


def preview(flow: FlowSettings, clusters: Clusters, asked: AlterRequest) -> AlterResult:
    """Say what the move would do, and change nothing.

    Raises UsageError for an unknown topic or partition and for no offset, TerminalError `alter-refused` or `phase` if
    the move would be refused, and errors of clusters.
    """
    snapshot = _state(flow, clusters)
    return _planned(snapshot, snapshot.progress, asked)


def run(flow: FlowSettings, clusters: Clusters, asked: AlterRequest) -> AlterResult:
    """Make the move.

    Raises UsageError without a reason and as `preview`, TerminalError `not-paused`, FencedError if another driver takes
    the flow meanwhile, and as `preview`.  The state is then as it was.
    """
    if not asked.reason.strip():
        raise UsageError("to alter offsets takes a reason", 'such as: --reason "known bad records"')
    first = _held(preview(flow, clusters, asked))
    if not first.move.moves:
        return first
    owned = Ownership.taken(flow, clusters, "alter")
    snapshot = _state(flow, clusters)
    todo = _held(_planned(snapshot, owned.progress, asked))
    move = todo.move
    if not move.moves:
        return todo
    copy_end = owned.grant.copy_ends.get(move.topic_partition)
    records = [record for gap in todo.gaps for record in crossing(owned.state, gap, copy_end)]
    note = OffsetsAltered(
        *(*move.life, clock.now_ms(), move.from_offset, move.to_offset),
        *(asked.by, asked.reason.strip(), owned.run_id),
    )
    # The epoch of the last copied batch says nothing of the log right before the new place.
    epochs = [
        forgotten(owned.state, epoch) for epoch in snapshot.ledger.leader_epochs if epoch.life == move.life
    ]
    owned.write([*records, *epochs, noted(owned.state, note)])
    return replace(todo, changed=True)


def _planned(snapshot: FlowSnapshot, progress: Positions, asked: AlterRequest) -> AlterResult:
    """Plan the move by what was read; `progress` are last copied upstream offsets."""
    at = _standing(snapshot, progress, asked)
    move = plan_alteration(at, offset_wanted(asked.to, at))
    gaps = tuple(_gaps(snapshot, move, clock.now_ms()))
    return AlterResult(snapshot.flow.name, move, False, gaps, why_not_held(snapshot.ledger, asked.topic))


def _gaps(snapshot: FlowSnapshot, move: Alteration, now_ms: int) -> Iterator[Gap]:
    """Describe the ranges that a move forward leaves without copies."""
    for span, cause in ((move.deleted, None), (move.left_out, GapCause.OFFSETS_ALTERED)):
        if span is not None:
            names = move.topic, move.topic_id, move.remote_topic, move.partition
            lost = Lost(*names, span[0], span[1] - 1, past=True)
            yield describe(snapshot.clusters, lost, snapshot.ledger, now_ms, cause)


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
            "`twinlog migrate takeover` takes it back"
            if state.handed_over
            else "`twinlog recovery status` says what can be done",
            code="phase",
            flow=flow.name,
        )
    return snapshot


def _held(todo: AlterResult) -> AlterResult:
    """Return it.  Raises TerminalError `not-paused` if there is something to do before."""
    if todo.before:
        raise TerminalError(
            f"{todo.flow} may copy {todo.move.topic} at any moment, so its offsets stay as they are",
            todo.before,
            code=NOT_PAUSED,
            flow=todo.flow,
            topic=todo.move.topic,
        )
    return todo


def _standing(snapshot: FlowSnapshot, progress: Positions, asked: AlterRequest) -> Standing:
    """Find where the copy of a partition stands.

    Raises UsageError for a topic or partition that the flow does not have, TerminalError `alter-refused` for one that
    has a problem or has not begun.
    """
    flow, name, number = snapshot.flow, asked.topic, asked.partition
    topic = snapshot.discovery.named(name)
    if topic is None:
        raise UsageError(
            f"--topic: {flow.name} replicates no topic {name}", "`twinlog topics offsets` lists them"
        )
    if not 0 <= number < topic.partition_count:
        raise UsageError(
            f"--partition: {name} has partitions 0 to {topic.partition_count - 1}, and no {number}"
        )
    if problem := next((it for it in snapshot.discovery.problems if it.topic == name and it.blocking), None):
        raise refused(name, number, f"is not copied: {problem.message}", problem.hint)
    found = next((partition for partition in topic.provisioned if partition.partition == number), None)
    if found is None or found.target is None:
        raise refused(
            *(name, number, "is not seen whole: a cluster does not say where its log begins and ends"),
            "it needs a leader that answers on both sides; a cycle creates the copy's partitions",
        )
    last = progress.get(topic.at_source(number))
    goes_on = found.begins if last is None else last + 1
    if name not in snapshot.ledger.incarnations or goes_on is None:
        raise refused(
            *(name, number, "has not begun: where its copy begins is not noted yet"),
            "`twinlog.start` says where new topics begin; `twinlog run --once` notes it",
        )
    return Standing(
        *(name, topic.topic_id, topic.remote_topic, number),
        goes_on=goes_on,
        log_start=found.source.log_start,
        readable_end=found.source_end(flow),
    )
