"""Move the copy of a partition to another upstream offset, on a person's word and behind the fence.

The flow, or the topic, is paused meanwhile, so that no cycle begins to copy; the fence shuts out a lane that still
does.  What `alter_plan` allows is planned again from what is read behind the fence.  Progress, map, gaps and the note
of who did it are written in one transaction: a move happens as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import UsageError
from twinlog.formats.ledger.records import Gap, GapCause
from twinlog.formats.ledger.topics import OffsetsAltered
from twinlog.lifecycle.alter_plan import (
    Alteration,
    Direction,
    Standing,
    offset_wanted,
    plan_alteration,
    why_not_held,
)
from twinlog.lifecycle.held import hold, left_by_a_person, look, refuse_unheld, without_epoch
from twinlog.lifecycle.plan import Lost
from twinlog.lifecycle.records import (
    crossing,
    describe,
    noted,
)
from twinlog.state.ledger import Ledger


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
    snapshot, at = look(flow, clusters, asked.topic, asked.partition)
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
    if first.before:
        refuse_unheld(flow, asked.topic, first.before)
    if first.move.direction is Direction.NOWHERE:
        return first
    owned, snapshot, at = hold(flow, clusters, asked.topic, asked.partition, "alter")
    ledger = snapshot.ledger
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
    owned.write([*records, *without_epoch(owned.state, ledger, at), noted(owned.state, note)])
    return AlterResult(flow.name, move, True, gaps)


def _gaps(clusters: Clusters, at: Standing, move: Alteration, ledger: Ledger, now_ms: int) -> Iterator[Gap]:
    """Describe the ranges that a move forward leaves without copies."""
    if move.deleted is not None:
        first, end = move.deleted
        lost = Lost(at.topic, at.topic_id, at.remote_topic, at.partition, first, end - 1, past=True)
        yield describe(clusters, lost, ledger, now_ms)
    if move.left_out is not None:
        first, end = move.left_out
        yield left_by_a_person(clusters, at, first, end, GapCause.OFFSETS_ALTERED, now_ms)
