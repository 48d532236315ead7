"""Write a damaged batch of the source aside, as it lies in the log, and let the copy go on behind it.

A batch that fits no checksum, or whose records cannot be read, stops its partition (`corrupt-batch`, `bad-batch`,
`bad-record`).  If no replica has it whole, a person names it here.  Its bytes, progress, the map, a gap with the cause
`quarantine` and the note of who did it are one transaction behind the fence.

A damaged batch may say wrong offsets, and a wrong length.  Where it ends is believed only if the log bears it out:

    first ......... end - 1 | end .......
    damaged batch           | next batch     the bytes behind the damaged batch are a batch that begins at `end`
    |<--- its length ------>|

At the end of a segment, and of the log, no bytes follow in an answer.  There the batch has to be dense (as many records
as offsets), and either the next batch, whole, begins at `end`, or the log ends at it.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinlog import clock
from twinlog.batches.header import HEADER_BYTES, BatchHeader, require_crc
from twinlog.batches.quarantine import Captured, parts
from twinlog.batches.record import key_value_headers, read_records, record_rest
from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings, Guarantee
from twinlog.copying.ownership import Ownership
from twinlog.copying.ranges import message_limits
from twinlog.errors import FormatError, TerminalError, UsageError
from twinlog.formats.ledger.records import Gap, GapCause
from twinlog.formats.ledger.topics import OffsetsAltered
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lane.spec import DEFAULT_MAX_MESSAGE_BYTES
from twinlog.lifecycle.alter import refuse_unheld, require_service, standing, without_epoch
from twinlog.lifecycle.alter_plan import Standing, why_not_held
from twinlog.lifecycle.records import crossing, first_time, newest_time, noted
from twinlog.protocol.brokers import LATEST, Brokers
from twinlog.protocol.leader_epochs import first_batch
from twinlog.protocol.legacy import is_old
from twinlog.state.internal_topics import quarantine_topic
from twinlog.topics.plan import clamped
from twinlog.topics.snapshot import FlowSnapshot

REFUSED = "skip-refused"
"""Code of the error for a batch that is whole, or of which it is not known where it ends."""

BATCH_HEADER = "twinlog.batch"
"""A header of a record whose value are the bytes of a batch: the last upstream offset that the batch says it has."""


@dataclass(frozen=True, slots=True)
class SkipRequest:
    """A batch that a person names by an upstream offset in it."""

    topic: str
    partition: int
    offset: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Damaged:
    """A damaged batch, at upstream offsets [`first`, `end`) that are still to be copied; `why` says what is wrong."""

    first: int
    end: int
    data: bytes
    timestamp_ms: int
    why: str


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

    Raises UsageError for an unknown topic or partition, TerminalError `skip-refused` for a flow without transactions
    and for a batch that is whole, that is not the next to be copied, or whose end is not known, `alter-refused` and
    `phase` as `twinlog offsets alter`, and errors of clusters.
    """
    if flow.copy.guarantee is not Guarantee.EXACTLY_ONCE:
        raise TerminalError(
            f"{flow.name} copies without transactions, so bytes, gap and progress could not be written as one",
            hint="let it copy with twinlog.guarantee=exactly_once",
            code=REFUSED,
            flow=flow.name,
        )
    snapshot = FlowSnapshot(flow, clusters).read_state()
    require_service(flow, snapshot.ledger)
    at = standing(snapshot, snapshot.progress, asked.topic, asked.partition)
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
        refuse_unheld(flow, asked.topic, first.before)
    _ensure_topic(flow, clusters)
    owned = Ownership.taken(flow, clusters, "skip")
    snapshot = FlowSnapshot(flow, clusters).read_state()
    ledger = snapshot.ledger
    require_service(flow, ledger)
    if before := why_not_held(ledger, asked.topic):
        refuse_unheld(flow, asked.topic, before)
    at = standing(snapshot, owned.progress, asked.topic, asked.partition)
    found = look(flow, at, asked.offset)
    now = clock.now_ms()
    limits = message_limits(clusters.target, [flow.quarantine_topic])
    limit = limits.get(flow.quarantine_topic, DEFAULT_MAX_MESSAGE_BYTES)
    note = OffsetsAltered(*at.life, now, at.goes_on, found.end, asked.by, asked.reason.strip(), owned.run_id)
    owned.write([
        *aside(flow.quarantine_topic, at, found, limit),
        *crossing(owned.state, _gap(clusters, at, found, now), owned.grant.copy_ends.get(at.topic_partition)),
        *without_epoch(owned.state, ledger, at),
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


def damaged_batch(at: Standing, offset: int, block: memoryview | None) -> Damaged:
    """Judge the bytes that the source has at `at.goes_on`.  Raises TerminalError `skip-refused`.  Pure."""
    name = f"{at.topic}-{at.partition}"
    if not block:
        raise _refusal(at, f"{name} has no batch at upstream offset {at.goes_on}, or it may not be read")
    if len(block) < HEADER_BYTES or is_old(block):
        raise _refusal(at, f"{name}: what lies at upstream offset {at.goes_on} is no batch of today's format")
    header = BatchHeader.read(block)
    end = header.next_offset
    if not header.base_offset <= offset < end or end <= at.goes_on:
        raise _refusal(
            at,
            f"{name} goes on at upstream offset {at.goes_on}, with a batch of {header.base_offset} to {end - 1}:"
            f" {offset} is not in it",
        )
    if end > at.readable_end:
        raise _refusal(
            at,
            f"{name}: the batch of {header.base_offset} to {end - 1} can be copied up to {at.readable_end - 1} only",
        )
    size = header.size
    if size > len(block) or size < HEADER_BYTES:
        raise _refusal(at, f"{name}: the batch at upstream offset {at.goes_on} does not say how long it is")
    batch = block[:size]
    why = what_is_wrong(header, batch)
    if not why:
        raise TerminalError(
            f"{name}: the batch at upstream offsets {header.base_offset} to {end - 1} is whole",
            hint="if it is to be left out all the same: twinlog offsets alter",
            code=REFUSED,
            topic=at.topic,
            partition=at.partition,
        )
    return Damaged(at.goes_on, end, bytes(batch), header.max_timestamp, why)


def what_is_wrong(header: BatchHeader, batch: memoryview) -> str:
    """Say why a batch cannot be copied; "" if it is whole.  Pure."""
    try:
        require_crc(header, batch)
        for _ in read_records(header, batch):
            pass
    except FormatError as error:
        return error.code
    return ""


@dataclass(frozen=True, slots=True)
class Around:
    """What the log has around a damaged batch.

    `at_last` is the batch at its last offset, and `again` the batch at its first, both cut to its length.  `adjacent`
    are the bytes behind it, empty if the answer ended with it.  `behind` is the batch at the offset behind it, None if
    that may not be read.  `log_end` is where the log ends.
    """

    at_last: bytes
    again: bytes
    adjacent: bytes
    behind: memoryview | None
    log_end: int


def require_followed(at: Standing, found: Damaged, around: Around) -> None:
    """Raise TerminalError `skip-refused` unless the log bears out where the damaged batch says it ends.  Pure."""
    if not (found.data == around.at_last == around.again and _ends_there(found, around)):
        raise _refusal(
            at,
            f"{at.topic}-{at.partition}: the damaged batch says that it ends at upstream offset {found.end - 1}, and"
            " what lies behind that does not bear it out",
        )


def _ends_there(found: Damaged, around: Around) -> bool:
    if around.adjacent:
        return _begins(memoryview(around.adjacent), found.end)
    if around.behind is None or not BatchHeader.read(found.data).dense:
        return False
    if not around.behind:
        return found.end == around.log_end
    return _begins(around.behind, found.end) and not _wrong(around.behind)


def _begins(block: memoryview, offset: int) -> bool:
    if len(block) < HEADER_BYTES or is_old(block):
        return False
    return BatchHeader.read(block).base_offset == offset


def _wrong(block: memoryview) -> bool:
    header = BatchHeader.read(block)
    inside = HEADER_BYTES <= header.size <= len(block)
    return not inside or bool(what_is_wrong(header, block[: header.size]))


def aside(topic: str, at: Standing, found: Damaged, limit: int) -> list[StateRecord]:
    """Make the records of the quarantine topic that hold the batch: its bytes are the value.  Pure."""
    rest = record_rest(None, found.data, ((BATCH_HEADER, b"%d" % (found.end - 1)),))
    captured = Captured(
        at.topic, at.topic_id, at.partition, found.first, found.timestamp_ms, bytes(rest), found.why
    )
    return [StateRecord(topic, 0, *key_value_headers(it)) for it in parts(captured, limit)]


def _refusal(at: Standing, why: str) -> TerminalError:
    hint = "`twinlog offsets alter --to OFFSET` goes on behind an offset that you know; it keeps no bytes"
    return TerminalError(why, hint=hint, code=REFUSED, topic=at.topic, partition=at.partition)


def _gap(clusters: Clusters, at: Standing, found: Damaged, now_ms: int) -> Gap:
    return Gap(
        at.topic,
        at.partition,
        found.first,
        found.end - 1,
        GapCause.QUARANTINE,
        now_ms,
        found.end - found.first,
        at.topic_id,
        first_ms=newest_time(clusters.target, TopicPartition(at.remote_topic, at.partition)),
        last_ms=first_time(clusters.source, at.topic_partition, found.end),
        copied_past=True,
    )


def _ensure_topic(flow: FlowSettings, clusters: Clusters) -> None:
    wanted = quarantine_topic(flow)
    if wanted.name not in clusters.target.describe_topics([wanted.name]).found:
        factor = clamped(wanted.replication_factor, clusters.target.broker_count())
        clusters.target.create_topics([wanted.creation(factor)]).require()


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
