"""Read few records of others and of our own small topics, by twinlog's own fetcher."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.batches.markers import AbortedTransactions
from twinlog.batches.record import key_and_value, read_records
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.logs.log_reader import read_while, refuse
from twinlog.protocol.brokers import EARLIEST, LATEST, Brokers
from twinlog.protocol.fetcher import Fetcher
from twinlog.protocol.legacy import as_batches, is_old, naming, walk_verified
from twinlog.protocol.wire import Fetched

FETCH_BYTES = 1 << 16
"""Few records of each partition are wanted; a batch larger than this is still answered whole."""

_WAIT_MS = 10


def read_few(
    brokers: Brokers, starts: Mapping[TopicPartition, int], limit: int, *, read_committed: bool
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
        position = positions[at]
        looked.add(at)
        aborted = AbortedTransactions.of(fetched.aborted if read_committed else ())
        with naming(fetched, brokers.settings.alias):
            block = as_batches(fetched.block) if is_old(fetched.block) else fetched.block
            for header, batch in walk_verified(block):
                if not aborted.hides(header, batch):
                    found = (
                        record
                        for record in read_records(header, batch)
                        if position <= record.offset < ends[at]
                    )
                    read[at] += [ReadRecord(it.offset, it.timestamp, *key_and_value(it)) for it in found]
                position = max(position, header.next_offset)
        return position

    size = FETCH_BYTES
    fetcher = Fetcher(
        brokers, max_bytes=size, partition_max_bytes=size, read_committed=read_committed, max_wait_ms=_WAIT_MS
    )
    read_while(brokers, fetcher, positions, unfinished, take, refuse)
    return {at: tuple(records[:limit]) for at, records in read.items()}
