"""Replay the quarantine to a topic of the user's on the target, each record exactly once.

Into the copy it cannot go: records stand there in the order of the source, and others have been copied behind it since.
What is replayed is what the ledger says that the copy lacks: records from the quarantine topic, and those of a damaged
batch from the source, once that has the batch whole.  Records and the ledger's notes of them are one transaction, of a
transactional id that only replays have:

    initialise the id, which ends an earlier replay | read the notes | records + notes, committed | ...

So no two replays write at once, and the flow goes on copying meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from twinlog import clock
from twinlog.batches.quarantine import Origin, origin_headers
from twinlog.cluster.open import Clusters
from twinlog.config.flow.copying import Guarantee
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, TwinlogError, UsageError
from twinlog.formats.ledger.records import Gap, GapCause, QuarantineReplayed
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.state_records import BATCH_BYTES, StateRecord
from twinlog.lane.fence.fence import init_writer, write_own
from twinlog.lane.producer import Lane
from twinlog.policy.selection import is_internal
from twinlog.protocol.brokers import Brokers
from twinlog.quarantine.read import damaged_at, noted_at, read
from twinlog.quarantine.rescue import Left, Rescue, in_order, of_aside
from twinlog.quarantine.whole import read_whole
from twinlog.state.internal_topics import internal_topics
from twinlog.state.ledger import Ledger, read_ledger

CHUNK_BYTES = 8 << 20
"""Bytes of records in one transaction; what is noted as one is never divided."""

REFUSED = "replay-refused"
"""Code of the error for a topic that is not the user's, or does not take a record."""


@dataclass(frozen=True, slots=True)
class Late:
    """A record, or a damaged batch from `offset` (upstream) on, that was replayed behind later ones."""

    topic: str
    topic_id: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """Tell what a replay wrote to `to_topic`.

    `records` were written now.  `before` counts the records and batches that earlier replays wrote.  `late` are those
    written now that stand behind later records of their partition.  `left` could not be written.
    """

    flow: str
    to_topic: str
    records: int
    before: int
    late: tuple[Late, ...] = ()
    left: tuple[Left, ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """Tell what the copy lacks by the ledger and `to_topic` has not got: single records, and damaged batches.  Pure.

    `before` counts what earlier replays wrote there, `highest` is the last of it in each partition.
    """

    records: frozenset[Origin]
    damaged: tuple[Gap, ...]
    before: int
    highest: dict[tuple[str, str, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, ledger: Ledger, to_topic_id: str) -> Wanted:
        """Take what the ledger notes; a topic that was made anew has nothing yet, whatever its name."""
        done = {noted_at(it) for it in ledger.replayed if it.to_topic_id == to_topic_id}
        records = set(map(noted_at, ledger.quarantined))
        damaged = {damaged_at(it): it for it in ledger.gaps if it.cause is GapCause.QUARANTINE}
        wanted = cls(
            frozenset(records - done),
            tuple(gap for origin, gap in damaged.items() if origin not in done),
            len(done & (records | set(damaged))),
        )
        for origin in sorted(done):
            wanted.note(origin)
        return wanted

    def note(self, origin: Origin) -> bool:
        """Note that this is written next; say whether it stands behind a later one of its partition."""
        last = self.highest.get(origin.place, -1)
        self.highest[origin.place] = max(last, origin.offset)
        return origin.offset < last


def replay_id(flow: str) -> str:
    """Return the transactional id of a replay; the prefix `twinlog-<flow>-` covers it."""
    return f"twinlog-{flow}-replay"


def run(flow: FlowSettings, clusters: Clusters, to_topic: str, *, by: str) -> Replayed:
    """Write what the copy lacks to `to_topic`, as far as that has not got it and it can be had.

    A record keeps its key, value, headers and the headers that tell its origin.  It goes to the partition with the
    number of its source partition, modulo the topic's count.  Its timestamp is the present time.

    Raises UsageError for a topic that the target does not have, TerminalError `replay-refused` for a flow without
    transactions, a topic of the flow's and one that does not take a record, FencedError if another replay begins
    meanwhile, and errors of the clusters.  What was committed before stays, and is not written again.
    """
    if flow.copy.guarantee is not Guarantee.EXACTLY_ONCE:
        raise TerminalError(
            f"{flow.name} copies without transactions, so that a record could be replayed twice",
            hint=f"read {flow.quarantine_topic} yourself: it holds each record with its origin",
            code=REFUSED,
            flow=flow.name,
        )
    to = _users_topic(flow, clusters, to_topic)
    written, late = 0, list[Late]()
    left, found = list[Left](), set[Origin]()
    with Brokers(flow.target.connection) as target:
        lane = Lane(target, init_writer(target, replay_id(flow.name), flow.copy.transaction_timeout_ms))
        ledger = read_ledger(flow, clusters.target)
        wanted = Wanted.of(ledger, to.topic_id)
        with Brokers(flow.target.connection) as reading:
            whole = _whole(flow, clusters, ledger, wanted.damaged, left)
            asides = (it for it in read(flow, clusters, reading) if it.origin in wanted.records)
            for chunk in chunks(in_order(map(of_aside, asides), whole), CHUNK_BYTES):
                _write(lane, flow, to, chunk, by)
                late += [Late(*it.origin) for it in chunk if wanted.note(it.origin)]
                found.update(it.origin for it in chunk)
                written += sum(len(it.records) for it in chunk)
    gone = wanted.records - found
    left += [Left(*it, f"{flow.quarantine_topic} no longer has it") for it in gone]
    return Replayed(flow.name, to_topic, written, wanted.before, tuple(late), tuple(sorted(left)))


def _whole(
    flow: FlowSettings, clusters: Clusters, ledger: Ledger, damaged: Collection[Gap], left: list[Left]
) -> list[Rescue]:
    """Read the batches that the source has whole now; add the others to `left`, all of them if it is away."""
    found: list[Rescue] = []
    with Brokers(flow.source.connection) as source:
        for gap in damaged:
            try:
                records = read_whole(flow, clusters, source, ledger, gap)
            except TwinlogError as error:
                records = error.message
            if isinstance(records, str):
                left.append(Left(*damaged_at(gap), records))
            else:
                found.append(Rescue(damaged_at(gap), records))
    return found


def chunks(records: Iterable[Rescue], most_bytes: int) -> Iterator[list[Rescue]]:
    """Cut where a chunk would be larger than `most_bytes`; a larger rescue goes alone.  Pure."""
    chunk: list[Rescue] = []
    room = most_bytes
    for it in records:
        if chunk and it.size > room:
            yield chunk
            chunk, room = [], most_bytes
        chunk.append(it)
        room -= it.size
    if chunk:
        yield chunk


@dataclass(frozen=True, slots=True)
class _UsersTopic:
    name: str
    topic_id: str
    partitions: int


def _users_topic(flow: FlowSettings, clusters: Clusters, to_topic: str) -> _UsersTopic:
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
    return _UsersTopic(to_topic, found.topic_id, len(found.partitions))


def not_the_users(flow: FlowSettings, ledger: Ledger, topic: str) -> str:
    """Say why a topic is none that a person may let twinlog fill; "" if it is one.  Pure."""
    if topic in {it.remote_topic for it in ledger.every_incarnation}:
        return "a copy of this flow: records stand in it in the order of the source"
    upstream = flow.policy.upstream_topic(topic)
    if upstream not in {None, topic} and flow.policy.topic_source(topic) in {
        flow.source.alias,
        *flow.aliases,
    }:
        return f"named as a copy of {upstream} of {flow.policy.topic_source(topic)}"
    if topic in {it.name for it in internal_topics(flow)} or is_internal(topic, flow.policy):
        return "a topic of twinlog's, MirrorMaker 2's or Kafka's own"
    return ""


def _write(lane: Lane, flow: FlowSettings, to: _UsersTopic, chunk: list[Rescue], by: str) -> None:
    now = clock.now_ms()
    records = [
        StateRecord(
            to.name,
            it.origin.partition % to.partitions,
            it.key,
            it.value,
            (*it.headers, *origin_headers(it)),
        )
        for rescue in chunk
        for it in rescue.records
    ]
    notes = [QuarantineReplayed(*it.origin, to.name, to.topic_id, by, now) for it in chunk]
    try:
        write_own(lane, [*records, *(StateRecord.of_ledger(flow.ledger_topic, it) for it in notes)])
    except TerminalError as error:
        if error.code != "state-refused" or error.data.get("topic") != to.name:
            raise
        origin = chunk[0].origin
        first = TopicPartition(origin.topic, origin.partition)
        largest = max(len(it.key or b"") + len(it.value or b"") for one in chunk for it in one.records)
        raise TerminalError(
            f"{to.name} does not take the records written aside from {first.topic}-{first.partition} at"
            f" {origin.offset} and behind it: {error.message}",
            hint=f"give {to.name} a max.message.bytes of {max(BATCH_BYTES, largest) + 4096} or more,"
            " and replay again",
            code=REFUSED,
            topic=to.name,
        ) from None
    lane.await_markers()
