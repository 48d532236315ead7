"""Export the records that were never copied to topics on the target, each once.

Records and the ledger's note of how far they go are one transaction behind the flow's fence.  A process that is killed,
or loses the fence, leaves both or neither, and whoever goes on begins behind the last note:

    fence | read the notes | read from the source | records + notes, committed | fence | ...
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from twinlog import clock
from twinlog.audit.comparison.record_fields import RawRecord
from twinlog.batches.record import key_value_headers
from twinlog.cluster.api import Cluster, Clusters
from twinlog.cluster.values import NewTopic
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import Ownership
from twinlog.errors import TerminalError, TransientError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import TailExported
from twinlog.lane.copy.state_records import StateRecord
from twinlog.logs.partition_reader import Lost
from twinlog.recovery.homeward import not_promoted
from twinlog.recovery.one_sided.read import Read, Stretch
from twinlog.state.ledger import Ledger, read_behind_fence, read_ledger
from twinlog.topics.plan import clamped

CHUNK_BYTES = 8 << 20
"""Bytes of records in one transaction; a fence costs as much as some megabytes."""

TRIES = 4
PAUSE_SECONDS = 1.0

LARGEST_MESSAGE = 100 << 20
"""`max.message.bytes` of the topics: a record that the source holds compressed may be larger here."""


def ensure_topics(flow: FlowSettings, target: Cluster, counts: Iterable[tuple[str, int]]) -> None:
    """Create the topics, or let them grow to these partition counts.  Raises errors with which the target refuses."""
    for topic, count in counts:
        name = flow.tail_topic(topic)
        there = target.describe_topics([name]).found.get(name)
        if there is None:
            factor = flow.offset_storage_replication_factor
            entries = {
                "cleanup.policy": "delete",
                "retention.ms": "-1",
                "retention.bytes": "-1",
                "max.message.bytes": str(LARGEST_MESSAGE),
            }
            lowered = clamped(factor, target.broker_count())
            target.create_topics([NewTopic(name, count, factor, entries, lowered)]).require()
        elif len(there.partitions) < count:
            target.create_partitions({name: count}).require()


def require_promoted(flow: FlowSettings, ledger: Ledger) -> str:
    """Return the name of the failover that the flow's state belongs to, also while the flow is on its way home.

    Raises TerminalError `not-promoted` for a flow that is not promoted.
    """
    state, home = ledger.flow_state, ledger.present_recovery
    if state is not None and state.state is FlowPhase.FAILING_BACK and home is not None:
        return home.failover
    if state is None or state.state is not FlowPhase.PROMOTED:
        raise not_promoted(flow.name)
    return state.run or f"promoted-{state.since_ms}"


def export(
    flow: FlowSettings, clusters: Clusters, tails: Sequence[Stretch], run: str, holder: str, read: Read
) -> tuple[tuple[TailExported, ...], int]:
    """Write what is missing; return what the topics hold then, by partition, and the records of this process.

    Raises FencedError if another process keeps taking the flow, and errors of the clusters.

    Raises TerminalError `not-promoted` if the flow follows again meanwhile.
    """
    written, tries_left = 0, TRIES
    while left(tails, notes := of_run(read_ledger(flow, clusters.target), run, tails)):
        try:
            written += _one_chunk(flow, clusters, tails, run, holder, read)
            tries_left = TRIES
        except TransientError:  # also if another process has taken the fence: its notes are read next
            tries_left -= 1
            if not tries_left:
                raise
            time.sleep(PAUSE_SECONDS)
    return notes, written


def of_run(ledger: Ledger, run: str, tails: Iterable[Stretch]) -> tuple[TailExported, ...]:
    """Return how far these partitions were exported after this failover.  Pure."""
    asked = {(tail.topic, tail.topic_id, tail.partition) for tail in tails}
    return tuple(tail for tail in ledger.tails if tail.run == run and tail.life in asked)


def left(tails: Iterable[Stretch], notes: Iterable[TailExported]) -> tuple[Stretch, ...]:
    """Return the partitions of which something was not exported yet.  Pure."""
    reached = {(note.topic, note.partition): note.next_offset for note in notes}
    return tuple(tail for tail in tails if reached.get((tail.topic, tail.partition), tail.start) < tail.end)


def _one_chunk(
    flow: FlowSettings, clusters: Clusters, tails: Sequence[Stretch], run: str, holder: str, read: Read
) -> int:
    owned = Ownership.taken(flow, clusters, "failback", holder)
    ledger = read_behind_fence(flow, clusters.target)
    if require_promoted(flow, ledger) != run:
        raise TerminalError(
            f"{flow.name} was failed over again meanwhile", "run it again", code="not-promoted"
        )
    notes = of_run(ledger, run, tails)
    records, noted = chunk(flow, tails, notes, run, read, clock.now_ms(), CHUNK_BYTES)
    owned.write([*records, *(StateRecord.of_ledger(flow.ledger_topic, tail) for tail in noted)])
    return len(records)


def chunk(
    flow: FlowSettings,
    tails: Iterable[Stretch],
    notes: Iterable[TailExported],
    run: str,
    read: Read,
    now_ms: int,
    most_bytes: int,
) -> tuple[list[StateRecord], list[TailExported]]:
    """Read the next records, and note how far they go; what can no longer be read is passed over."""
    known = {(note.topic, note.partition): note for note in notes}
    records: list[StateRecord] = []
    noted: list[TailExported] = []
    room = most_bytes
    for tail in left(tails, known.values()):
        if room <= 0:
            break
        before = known.get((tail.topic, tail.partition))
        position = before.next_offset if before is not None else tail.start
        count = before.records if before is not None else 0
        for item in read(tail, position):
            if isinstance(item, Lost):
                continue
            if room <= 0:
                break
            records.append(_exported(flow, tail, item))
            position, count = item.offset + 1, count + 1
            room -= len(item.rest)
        else:
            position = tail.end
        first = before.first if before is not None else tail.start
        noted.append(
            TailExported(tail.topic, tail.topic_id, tail.partition, run, first, position, count, now_ms)
        )
    return records, noted


def _exported(flow: FlowSettings, tail: Stretch, record: RawRecord) -> StateRecord:
    """Return the record with its origin in headers behind its own.  Pure."""
    key, value, headers = key_value_headers(memoryview(record.rest))
    origin = {
        "twinlog.topic": tail.topic,
        "twinlog.partition": tail.partition,
        "twinlog.offset": record.offset,
        "twinlog.timestamp": record.timestamp,
    }
    more = tuple((name, str(content).encode()) for name, content in origin.items())
    return StateRecord(flow.tail_topic(tail.topic), tail.partition, key, value, (*headers, *more))
