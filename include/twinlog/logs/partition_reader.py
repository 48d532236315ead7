"""Read one partition from the log: its committed batches in order, and the parts that can no longer be read."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from twinlog.batches.columns import HEADERS, Int64s, damaged, headers
from twinlog.batches.header import CONTROL, LOG_OVERHEAD, BatchHeader, starts, walk_headers
from twinlog.batches.markers import AbortedTransactions
from twinlog.errors import FormatError, TransientError
from twinlog.formats.ledger.audit import Unproved
from twinlog.kafka_types import TopicPartition
from twinlog.protocol.brokers import EARLIEST, LATEST, Brokers
from twinlog.protocol.errors import LEADER_MOVED, UNKNOWN_TOPIC, Code, error_for
from twinlog.protocol.fetcher import Fetcher
from twinlog.protocol.legacy import as_batches, is_old
from twinlog.protocol.wire import Fetched

_MOST_STALLS = 40
_STALL_SECONDS = 0.05


class Batch(NamedTuple):
    """A batch of records; `data` is valid as long as the block that holds it."""

    header: BatchHeader
    data: memoryview


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Consecutive batches of records with verified checksums; `data` is valid until the next item is asked for.

    `heads` are their headers (`twinlog.batches.columns.HEADERS`); `begins` are their positions in `data`.
    """

    data: memoryview
    heads: Any
    begins: tuple[int, ...]

    @classmethod
    def of(cls, data: memoryview) -> Block:
        """Take the whole batches of `data`; the caller verifies their checksums."""
        return cls(data, *_found(data)[:2])

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def bases(self) -> Int64s:
        """Return the first offset of each batch."""
        return self.heads["base_offset"].astype(np.int64)

    @property
    def nexts(self) -> Int64s:
        """Return the offset behind each batch."""
        return self.bases + self.heads["last_offset_delta"] + 1

    def batch(self, index: int) -> Batch:
        """Return one batch."""
        at = self.begins[index]
        header = BatchHeader.read(self.data, at)
        return Batch(header, self.data[at : at + header.size])

    def batches(self) -> Iterator[Batch]:
        """Yield all batches, in order."""
        return map(self.batch, range(len(self)))

    def where(self, chosen: Any) -> Block:
        """Return the block with only the batches that a mask selects."""
        if chosen.all():
            return self
        begins = tuple(self.begins[index] for index in np.flatnonzero(chosen).tolist())
        return Block(self.data, self.heads[chosen], begins)


class Lost(NamedTuple):
    """Offsets [start, end) that can no longer be read or decoded, and the reason."""

    start: int
    end: int
    reason: Unproved


Item = Block | Lost


class PartitionReader:
    """Read partitions of one cluster, one after the other; the next fetch is in flight while an answer is processed.

    `expired` is the reason reported for offsets below a partition's log start.  Single-threaded, as `brokers` is.
    """

    def __init__(
        self, brokers: Brokers, expired: Unproved, *, fetch_bytes: int, read_committed: bool = True
    ) -> None:
        self._brokers = brokers
        self._expired = expired
        self._read_committed = read_committed
        self._fetcher = Fetcher(
            brokers, max_bytes=fetch_bytes, partition_max_bytes=fetch_bytes, read_committed=read_committed
        )

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Item]:
        """Yield the batches that overlap offsets [start, end), without markers and aborted records.

        Messages of format v0 and v1 come as the batches that twinlog makes of them.  Every checksum is verified: a
        batch that does not fit its checksum is yielded as `Lost`, unreadable.  If a batch's length is damaged so that
        it cannot be stepped over, everything behind it is lost, too.  Raises the errors of a cluster that cannot be
        reached or refuses.
        """
        place = TopicPartition(topic, partition)
        position, stalls = start, 0
        self._fetcher.discard()
        while position < end:
            fetched = self._fetch(place, position)
            if isinstance(fetched, Lost):
                yield Lost(position, end, fetched.reason)
                return
            if fetched.error == Code.OFFSET_OUT_OF_RANGE:
                begin = self._brokers.offsets([place], EARLIEST)[place]
                resume = (
                    begin if begin > position else end
                )  # else the log ends before: it was truncated or recreated
                yield Lost(
                    position, min(resume, end), self._expired if begin > position else Unproved.RECREATED
                )
                position = resume
                continue
            moved = yield from self._batches(place, fetched, position, end)
            # An answer may be empty while the leader moves, or if compaction has emptied the end of the log.
            stalls = 0 if moved > position else stalls + 1
            # Only once the stable offset reaches the end: a commit is known before its marker is in every partition.
            reached = fetched.last_stable_offset if self._read_committed else fetched.high_watermark
            if stalls > 1 and not fetched.error and reached >= end:
                return
            if stalls > _MOST_STALLS:
                raise TransientError(
                    f"cluster {self._brokers.settings.alias} does not serve {topic}-{partition} from {position}",
                    code="unsettled",
                )
            position = moved

    def read_on(self, topic: str, partition: int, start: int) -> Iterator[Item]:
        """Yield the batches from `start` up to the stable end, including the part that arrives while reading.

        Compaction removes records during an audit only in favour of records that were written after the audit began.
        """
        item, position = TopicPartition(topic, partition), start
        while True:
            end = self._brokers.offsets([item], LATEST, read_committed=True)[item]
            if end <= position:
                return
            yield from self.read(topic, partition, position, end)
            position = end

    def _fetch(self, place: TopicPartition, position: int) -> Fetched | Lost:
        """Ask for the partition at `position`, unless that request is in flight, and read the answer."""
        while True:
            refused = self._fetcher.request({place: position})
            for answer in self._fetcher.answers():
                for fetched in answer:
                    if (fetched.topic, fetched.partition, fetched.asked_offset) == (*place, position):
                        return self._looked_at(place, fetched)
            if refused:
                if refused[place].code == UNKNOWN_TOPIC:
                    return Lost(position, position, Unproved.RECREATED)
                raise refused[place]

    def _looked_at(self, place: TopicPartition, fetched: Fetched) -> Fetched | Lost:
        if fetched.error in LEADER_MOVED:
            self._brokers.forget_leaders()
            time.sleep(_STALL_SECONDS)
        elif fetched.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            return Lost(fetched.asked_offset, fetched.asked_offset, Unproved.RECREATED)
        elif fetched.error and fetched.error != Code.OFFSET_OUT_OF_RANGE:
            raise error_for(fetched.error, f"a fetch of {place[0]}-{place[1]}", self._brokers.settings.alias)
        return fetched

    def _batches(
        self, place: TopicPartition, fetched: Fetched, position: int, end: int
    ) -> Generator[Item, None, int]:
        """Yield the batches of an answer; return the position behind it."""
        try:
            data, readable = (
                as_batches(fetched.block),
                True,
            )  # batches behind old messages begin the next answer
        except FormatError:
            data, readable = memoryview(b""), False
        heads, begins, sound = _found(data)
        block, readable = Block(data, heads, begins), readable and sound
        next_offset = max(position, int(block.nexts[-1])) if begins else position
        if readable and next_offset < end and begins:
            self._fetcher.request({place: next_offset})
        yield from _verified(block.where(self._shown(block, fetched, position, end)), position)
        if not readable:
            yield Lost(next_offset, end, Unproved.UNREADABLE)
            return end
        return next_offset

    def _shown(self, block: Block, fetched: Fetched, position: int, end: int) -> Any:
        """Return a mask of the batches that were asked for and hold records that a consumer sees."""
        if self._read_committed and fetched.aborted:
            aborted = AbortedTransactions.of(fetched.aborted)
            hidden = np.array([aborted.hides(*batch) for batch in block.batches()], bool)
        else:
            hidden = block.heads["attributes"] & CONTROL != 0
        inside = (block.nexts > position) & (block.bases < end)
        return inside & ~hidden & (block.heads["record_count"] > 0)


def _found(data: memoryview) -> tuple[Any, tuple[int, ...], bool]:
    """Return headers and positions of the whole batches in `data`, and whether the bytes behind them can be read."""
    begins, whole = starts(data)
    rest, readable = data[whole:], True
    if not is_old(rest):
        try:
            next(walk_headers(rest), None)
        except FormatError:
            readable = False
    return headers(data, begins) if begins else np.empty(0, HEADERS), tuple(begins), readable


def _verified(block: Block, position: int) -> Iterator[Item]:
    """Yield the batches whose checksums fit, and a `Lost` for each batch whose checksum does not."""
    begins = np.array(block.begins, np.int64)
    ends = begins + block.heads["batch_length"] + LOG_OVERHEAD
    first = 0
    for bad in damaged(block.data, begins, ends, block.heads["crc"]).tolist():
        yield from _some(block, first, bad)
        yield Lost(max(position, int(block.bases[bad])), int(block.nexts[bad]), Unproved.UNREADABLE)
        first = bad + 1
    yield from _some(block, first, len(block))


def _some(block: Block, first: int, end: int) -> Iterator[Block]:
    if first < end:
        whole = (first, end) == (0, len(block))
        yield block if whole else Block(block.data, block.heads[first:end], block.begins[first:end])
