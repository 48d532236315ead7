"""What the relay does with each batch of a fetched block: pass it on, rewrite it, or leave it out.

| batch from the source                           | outcome                                                   |
|-------------------------------------------------|-----------------------------------------------------------|
| dense, CreateTime, whole, fits                  | passed on as it is; only its header will be relabelled    |
| cheaper to read than to send by itself          | merged with its neighbours                                |
| the range begins or ends inside it              | rewritten from or up to there                             |
| with offset gaps (compacted topics)             | rewritten densely; the map gets one run per stretch       |
| LogAppendTime, or with a delete horizon         | rewritten with the timestamps a consumer sees             |
| larger than the target's max.message.bytes      | split; one record that does not fit is poison             |
| control batch, aborted, or emptied              | not copied: a hole in the map, not a gap                  |

Pure: blocks in, outgoing batches out; `twinlog.relay.cutter` does it.  Invariant: the stretches of all outgoing
batches, in order, are exactly the upstream offsets below `Cut.next_upstream` that hold a copyable record, each once,
ascending.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from twinlog.relay.batch import BatchHeader
from twinlog.relay.rewrite import read_records


@dataclass(slots=True)
class Outgoing:
    """One batch ready to be relabelled and sent.

    `stretches` are (first upstream offset, length) of the records in it; together they hold `header.record_count`.
    `buffer` is writable.
    """

    buffer: memoryview
    header: BatchHeader
    stretches: tuple[tuple[int, int], ...]
    rewritten: bool = False

    @classmethod
    def built(
        cls, buffer: memoryview, stretches: tuple[tuple[int, int], ...], *, rewritten: bool = False
    ) -> Outgoing:
        """Take a batch we made: its header is read from it."""
        return cls(buffer, BatchHeader.read(buffer), stretches, rewritten)


@dataclass(slots=True)
class Poison:
    """Where a partition cannot go on: upstream offset, why, and a stable code.

    A record the target cannot hold, or a batch that cannot be read.
    """

    offset: int
    reason: str
    code: str = "poison-record"


@dataclass(slots=True)
class Cut:
    """What became of one fetched block: batches to send, the position behind it, and poison met on the way.

    With `poison` set, `next_upstream` is the poisonous record's offset: nothing behind it was looked at.
    `leader_epoch` is the source's, of the last batch looked at; -1 when there was none.
    """

    outgoing: list[Outgoing]
    next_upstream: int
    poison: Poison | None = None
    leader_epoch: int = -1


@dataclass(slots=True)
class AbortedTransactions:
    """The aborted transactions a fetch reported: (producer id, first upstream offset), applied in offset order.

    Built anew for each fetched block, as brokers repeat the list with every fetch that overlaps it; state kept
    over fetches would be wrong after a seek.  Source: KIP-98, "Fetching only committed data".
    """

    pending: list[tuple[int, int]]
    active: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, reported: Collection[tuple[int, int]]) -> AbortedTransactions:
        """Take (producer id, first offset) pairs in any order."""
        return cls(sorted(reported, key=lambda item: item[1], reverse=True))

    def hides(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether `header`'s batch belongs to an aborted transaction.  Call once per batch, in offset order."""
        while self.pending and self.pending[-1][1] <= header.last_offset:
            self.active.add(self.pending.pop()[0])
        if header.control:
            if header.producer_id in self.active and is_abort_marker(header, batch):
                self.active.discard(header.producer_id)
            return True
        return header.transactional and header.producer_id in self.active


def is_abort_marker(header: BatchHeader, batch: memoryview) -> bool:
    """Whether a control batch is an ABORT marker: its key is int16 version, int16 type (0 abort, 1 commit)."""
    for record in read_records(header, batch):
        # key length varint (one byte: 8), version, type
        return bytes(record.rest[3:5]) == b"\x00\x00"
    return False
