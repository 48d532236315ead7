"""Write a damaged batch of the source aside, as it lies in the log, and let the copy go on behind it.

A batch that fits no checksum, or whose records cannot be read, stops its partition (`corrupt-batch`, `bad-batch`,
`bad-record`).  If no replica has it whole, a person names it here.  Its bytes, progress, the map, a gap with the cause
`quarantine` and the note of who did it are one transaction behind the fence.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinlog import clock
from twinlog.batches.header import HEADER_BYTES
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ranges import message_limits
from twinlog.errors import UsageError
from twinlog.formats.ledger.records import GapCause
from twinlog.formats.ledger.topics import OffsetsAltered
from twinlog.lane.spec import DEFAULT_MAX_MESSAGE_BYTES
from twinlog.lifecycle import held
from twinlog.lifecycle.alter_plan import Standing, why_not_held
from twinlog.lifecycle.records import crossing, noted
from twinlog.protocol.brokers import LATEST, Brokers
from twinlog.protocol.leader_epochs import first_batch
from twinlog.quarantine.skip_plan import Around, Damaged, aside, damaged_batch, require_followed
from twinlog.state.internal_topics import quarantine_topic
from twinlog.topics.own_topics import ensure_topics


@dataclass(frozen=True, slots=True)
class SkipRequest:
    """A batch that a person names by an upstream offset in it."""

    topic: str
    partition: int
    offset: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A batch that was written aside (`changed`), or that would be.  Offsets are upstream, both included.

    `before` says what a person does before, "" for nothing.
    """

    flow: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    bytes: int
    why: str
    quarantine_topic: str
    changed: bool
    before: str = ""


def preview(flow: FlowSettings, clusters: Clusters, asked: SkipRequest) -> Skipped:
    """Look at the batch, and change nothing.

    Raises UsageError for an unknown topic or partition, TerminalError `skip-refused` for a batch that is whole, that is
    not the next to be copied, or whose end is not known, `alter-refused` and `phase` as `twinlog offsets alter`, and
    errors of clusters.
    """
    snapshot, at = held.look(flow, clusters, asked.topic, asked.partition)
    found = look(flow, at, asked.offset)
    return _told(flow, at, found, changed=False, before=why_not_held(snapshot.ledger, asked.topic))


def run(flow: FlowSettings, clusters: Clusters, asked: SkipRequest) -> Skipped:
    """Write the batch aside and go on behind it.

    Raises as `preview`, UsageError without a reason, TerminalError `not-paused`, and FencedError if another driver
    takes the flow meanwhile.  The state is then as it was.
    """
    if not asked.reason.strip():
        raise UsageError("to skip a batch takes a reason", hint='such as: --reason "damaged on all replicas"')
    first = preview(flow, clusters, asked)
    if first.before:
        held.refuse_unheld(flow, asked.topic, first.before)
    ensure_topics(clusters.target, [quarantine_topic(flow)])
    owned, snapshot, at = held.hold(flow, clusters, asked.topic, asked.partition, "skip")
    found = look(flow, at, asked.offset)
    now = clock.now_ms()
    limits = message_limits(clusters.target, [flow.quarantine_topic])
    limit = limits.get(flow.quarantine_topic, DEFAULT_MAX_MESSAGE_BYTES)
    gap = held.left_by_a_person(clusters, at, found.first, found.end, GapCause.QUARANTINE, now)
    note = OffsetsAltered(*at.life, now, at.goes_on, found.end, asked.by, asked.reason.strip(), owned.run_id)
    owned.write([
        *aside(flow.quarantine_topic, at, found, limit),
        *crossing(owned.state, gap, owned.grant.copy_ends.get(at.topic_partition)),
        *held.without_epoch(owned.state, snapshot.ledger, at),
        noted(owned.state, note),
    ])
    return _told(flow, at, found, changed=True)


def look(flow: FlowSettings, at: Standing, offset: int) -> Damaged:
    """Read the next batch to be copied, and what lies around it.  Raises TerminalError `skip-refused`."""
    place = at.topic_partition
    with Brokers(flow.source.connection) as source:
        connection = source.node(source.leader(*place), "coordinate")
        found = damaged_batch(at, offset, first_batch(connection, place, at.goes_on))
        size = len(found.data)
        more = first_batch(connection, place, at.goes_on, size + HEADER_BYTES) or b""
        around = Around(
            bytes(first_batch(connection, place, found.end - 1) or b"")[:size],
            bytes(more[:size]),
            bytes(more[size : size + HEADER_BYTES]),
            first_batch(connection, place, found.end),
            source.offsets([place], LATEST)[place],
        )
        require_followed(at, found, around)
    return found


def _told(flow: FlowSettings, at: Standing, found: Damaged, *, changed: bool, before: str = "") -> Skipped:
    return Skipped(
        flow.name,
        at.topic,
        at.partition,
        found.first,
        found.end - 1,
        len(found.data),
        found.why,
        flow.quarantine_topic,
        changed,
        before,
    )
