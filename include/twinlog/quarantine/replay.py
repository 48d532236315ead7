"""Replay the quarantine to a topic of the user's on the target, each record exactly once.

Into the copy it cannot go: records stand there in the order of the source, and the target has refused this one.  The
records of a transaction and the ledger's notes of them are committed together, under a transactional id of its own:

    initialise the id, which ends an earlier replay | read the notes | records + notes, committed | ...

The flow goes on copying meanwhile.  The id is none of the flow's lanes, so a reverse flow takes what is replayed for
records of clients, as which they are meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from twinlog import clock
from twinlog.batches.quarantine import Origin, origin_headers
from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, UsageError
from twinlog.formats.ledger.records import QuarantineReplayed
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.state_records import BATCH_BYTES, StateRecord
from twinlog.lane.fence.fence import init_writer, write_own
from twinlog.lane.producer import Lane
from twinlog.policy.selection import is_internal
from twinlog.protocol.brokers import Brokers
from twinlog.quarantine.read import Aside, read
from twinlog.state.internal_topics import internal_topics
from twinlog.state.ledger import Ledger, read_ledger

CHUNK_BYTES = 8 << 20
"""Bytes of records in one transaction, at least one record."""

REFUSED = "replay-refused"
"""Code of the error for a topic that is not the user's, or does not take a record."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """How many records were written to `to_topic` now, and how many it had from earlier replays."""

    flow: str
    to_topic: str
    records: int
    before: int


def replay_id(flow: str) -> str:
    """Return the transactional id of a replay; the prefix `twinlog-<flow>-` covers it."""
    return f"twinlog-{flow}-replay"


def run(flow: FlowSettings, clusters: Clusters, to_topic: str, *, by: str) -> Replayed:
    """Write every record of the quarantine to `to_topic` that it has not got yet, in the quarantine's order.

    A record keeps its key, value, headers and the headers that tell its origin.  It goes to the partition with the
    number of its source partition, modulo the topic's count.  Its timestamp is the present time.

    Raises UsageError for a topic that the target does not have, TerminalError `replay-refused` for a topic of the
    flow's and for one that does not take a record, FencedError if another replay begins meanwhile, and errors of the
    target.  What was committed before stays, and is not written again.
    """
    count = _partitions(flow, clusters, to_topic)
    written = before = 0
    with Brokers(flow.target.connection) as brokers:
        writer = init_writer(brokers, replay_id(flow.name), flow.copy.transaction_timeout_ms)
        ledger = read_ledger(flow, clusters.target)
        done = {_origin(it) for it in ledger.replayed if it.to_topic == to_topic}
        lane = Lane(brokers, writer)
        with Brokers(flow.target.connection) as reading:
            for chunk in chunks(read(flow, clusters, reading), CHUNK_BYTES):
                new = [it for it in chunk if it.origin not in done]
                before += len(chunk) - len(new)
                if new:
                    _write(lane, flow, to_topic, count, new, by)
                    written += len(new)
    return Replayed(flow.name, to_topic, written, before)


def chunks(records: Iterable[Aside], most_bytes: int) -> Iterator[list[Aside]]:
    """Cut where a chunk would be larger than `most_bytes`; a larger record goes alone.  Pure."""
    chunk: list[Aside] = []
    room = most_bytes
    for it in records:
        if chunk and it.size > room:
            yield chunk
            chunk, room = [], most_bytes
        chunk.append(it)
        room -= it.size
    if chunk:
        yield chunk


def _origin(it: QuarantineReplayed) -> Origin:
    return Origin(it.topic, it.topic_id, it.partition, it.offset)


def _partitions(flow: FlowSettings, clusters: Clusters, to_topic: str) -> int:
    """Return the partition count of a topic of the user's."""
    ledger = read_ledger(flow, clusters.target)
    if why := not_the_users(flow, ledger, to_topic):
        raise TerminalError(
            f"{to_topic} is {why}",
            hint="create a topic of your own for the replay",
            code=REFUSED,
            topic=to_topic,
        )
    found = clusters.target.describe_topics([to_topic]).found.get(to_topic)
    if found is None:
        raise UsageError(
            f"--to: {flow.target.alias} has no topic {to_topic}, or this user may not see it",
            hint="create it, with a max.message.bytes that its largest record fits",
        )
    return len(found.partitions)


def not_the_users(flow: FlowSettings, ledger: Ledger, topic: str) -> str:
    """Say why a topic is none that a person may let twinlog fill; "" if it is one.  Pure."""
    if topic in {it.remote_topic for it in ledger.every_incarnation}:
        return "a copy of this flow: records stand in it in the order of the source"
    if topic in {it.name for it in internal_topics(flow)} or is_internal(topic, flow.policy):
        return "a topic of twinlog's, MirrorMaker 2's or Kafka's own"
    return ""


def _write(lane: Lane, flow: FlowSettings, to_topic: str, count: int, new: list[Aside], by: str) -> None:
    now = clock.now_ms()
    records = [
        StateRecord(
            to_topic,
            it.origin.partition % count,
            it.part.key,
            it.part.value,
            (*it.part.headers, *origin_headers(it.part)),
        )
        for it in new
    ]
    notes = [
        QuarantineReplayed(
            it.origin.topic, it.origin.topic_id, it.origin.partition, it.origin.offset, to_topic, by, now
        )
        for it in new
    ]
    try:
        write_own(lane, [*records, *(StateRecord.of_ledger(flow.ledger_topic, it) for it in notes)])
    except TerminalError as error:
        if error.code != "state-refused":
            raise
        first = TopicPartition(new[0].origin.topic, new[0].origin.partition)
        raise TerminalError(
            f"{to_topic} does not take the records written aside from {first.topic}-{first.partition} at"
            f" {new[0].origin.offset} and behind it: {error.message}",
            hint=f"give {to_topic} a max.message.bytes of {max(BATCH_BYTES, *(it.size for it in new)) + 4096} or more,"
            " and replay again",
            code=REFUSED,
            topic=to_topic,
        ) from None
    lane.await_markers()
