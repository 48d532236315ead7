"""Read few records of others and of our own small topics, by twinlog's own fetcher."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.batches.markers import AbortedTransactions
from twinlog.batches.record import Record, key_and_value, read_records
from twinlog.kafka_types import Positions, ReadRecord, TopicPartition
from twinlog.logs.log_reader import read_while, refuse
from twinlog.protocol.brokers import EARLIEST, LATEST, Brokers
from twinlog.protocol.fetcher import Fetcher
from twinlog.protocol.legacy import as_batches, naming, walk_verified
from twinlog.protocol.wire import Fetched

FETCH_BYTES = 1 << 16
"""Few records of each partition are wanted; a batch larger than this is still answered whole."""

_WAIT_MS = 10


def records_from(fetched: Fetched, alias: str, position: int) -> tuple[list[tuple[Record, bool]], int]:
    """Return the records of an answer from `position` on, each with whether its transaction was aborted.

    Markers are left out. The number is the offset behind the answer. Raises FormatError if the log is damaged.
    """
    aborted = AbortedTransactions.of(fetched.aborted)
    found: list[tuple[Record, bool]] = []
    with naming(fetched, alias):
        for header, batch in walk_verified(as_batches(fetched.block)):
            hidden = aborted.hides(header, batch)
            if not header.control and header.last_offset >= position:
                records = read_records(header, batch)
                found += [(record, hidden) for record in records if record.offset >= position]
            position = max(position, header.next_offset)
    return found, position


def read_few(
    brokers: Brokers, starts: Positions, limit: int, *, read_committed: bool
) -> Mapping[TopicPartition, tuple[ReadRecord, ...]]:
    """Read up to `limit` records of each partition, from the given offset to the end of that isolation level.

    A start below the log start reads from the log start.  Raises the cluster's refusal, TransientError if a partition
    is not served, and FormatError if its log is damaged.
    """
    firsts = brokers.offsets(starts, EARLIEST)
    ends = brokers.offsets(starts, LATEST, read_committed=read_committed)
    positions = {at: max(start, firsts[at]) for at, start in starts.items()}
    read: dict[TopicPartition, list[ReadRecord]] = {at: [] for at in starts}
    looked: set[TopicPartition] = set()

    def unfinished(at: TopicPartition) -> bool:
        """Fetch at least once, also where nothing is: only then a user without READ is refused."""
        if positions[at] >= ends[at]:
            return positions[at] == ends[at] and at not in looked
        return len(read[at]) < limit

    def take(fetched: Fetched) -> int:
        at = fetched.topic_partition
        looked.add(at)
        found, next_offset = records_from(fetched, brokers.settings.alias, positions[at])
        read[at] += [
            ReadRecord(it.offset, it.timestamp, *key_and_value(it))
            for it, aborted in found
            if it.offset < ends[at] and not (aborted and read_committed)
        ]
        return next_offset

    size = FETCH_BYTES
    fetcher = Fetcher(
        brokers, max_bytes=size, partition_max_bytes=size, read_committed=read_committed, max_wait_ms=_WAIT_MS
    )
    read_while(brokers, fetcher, positions, unfinished, take, refuse)
    return {at: tuple(records[:limit]) for at, records in read.items()}
