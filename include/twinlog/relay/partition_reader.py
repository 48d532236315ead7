"""Read one partition as it is: its committed batches in order, and what of it can no longer be read."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import NamedTuple

from crc32c import crc32c

from twinlog.errors import FormatError, TransientError
from twinlog.formats.ledger_audit import Unproved
from twinlog.relay.batch import CHECKED_FROM, BatchHeader, walk
from twinlog.relay.brokers import EARLIEST, LATEST, Brokers, TopicPartition
from twinlog.relay.error_codes import LEADER_MOVED, UNKNOWN_TOPIC, Code, error_for
from twinlog.relay.fetcher import Fetcher
from twinlog.relay.transform import AbortedTransactions
from twinlog.relay.wire import Fetched

_MOST_STALLS = 40
_STALL_SECONDS = 0.05


class Batch(NamedTuple):
    """A batch of records; `data` is valid until the next item of its reader is asked for."""

    header: BatchHeader
    data: memoryview


class Lost(NamedTuple):
    """Offsets [start, end) that can no longer be read, or not be understood, and why."""

    start: int
    end: int
    reason: Unproved


Item = Batch | Lost


class PartitionReader:
    """Reads partitions of one cluster, one after the other, with the next fetch on its way while one is used.

    `expired` is what is said of offsets below a partition's log start.  Single-threaded, as `brokers` is.
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
        """Yield the batches that overlap offsets [start, end), markers and aborted records left out.

        Every checksum is verified: a batch whose bytes are not what was written is lost as unreadable.  So is all
        behind a batch that has no length to step over.  Raises errors of a cluster that cannot be reached or refuses.
        """
        item = topic, partition
        position, stalls = start, 0
        self._fetcher.discard()
        while position < end:
            fetched = self._fetch(item, position)
            if isinstance(fetched, Lost):
                yield Lost(position, end, fetched.reason)
                return
            if fetched.error == Code.OFFSET_OUT_OF_RANGE:
                begin = self._brokers.offsets([item], EARLIEST)[item]
                behind = (
                    begin if begin > position else end
                )  # else the log ends before: it was cut or made anew
                yield Lost(
                    position,
                    min(behind, end),
                    self._expired if begin > position else Unproved.RECREATED,
                )
                position = behind
                continue
            moved = yield from self._batches(item, fetched, position, end)
            # An answer may be empty while a leader moves, or at an end that was cleaned away.
            stalls = 0 if moved > position else stalls + 1
            # Not before what is stable reaches so far: a commit is known before its marker is in every partition.
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
        """Yield the batches from `start` on up to the stable end, as far as that is by the time it is reached.

        What compaction removes while an audit runs, it removes for records that were not there when it began.
        """
        item, position = (topic, partition), start
        while True:
            end = self._brokers.offsets([item], LATEST, read_committed=True)[item]
            if end <= position:
                return
            yield from self.read(topic, partition, position, end)
            position = end

    def _fetch(self, item: TopicPartition, position: int) -> Fetched | Lost:
        """Ask for the partition at `position`, unless that is on its way, and read the answer."""
        while True:
            refused = self._fetcher.request({item: position})
            for answer in self._fetcher.answers():
                for fetched in answer:
                    if (fetched.topic, fetched.partition, fetched.asked_offset) == (*item, position):
                        return self._looked_at(item, fetched)
            if refused:
                if refused[item].code == UNKNOWN_TOPIC:
                    return Lost(position, position, Unproved.RECREATED)
                raise refused[item]

    def _looked_at(self, item: TopicPartition, fetched: Fetched) -> Fetched | Lost:
        if fetched.error in LEADER_MOVED:
            self._brokers.forget_leaders()
            time.sleep(_STALL_SECONDS)
        elif fetched.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            return Lost(fetched.asked_offset, fetched.asked_offset, Unproved.RECREATED)
        elif fetched.error and fetched.error != Code.OFFSET_OUT_OF_RANGE:
            raise error_for(fetched.error, f"a fetch of {item[0]}-{item[1]}", self._brokers.settings.alias)
        return fetched

    def _batches(
        self, item: TopicPartition, fetched: Fetched, position: int, end: int
    ) -> Generator[Item, None, int]:
        """Yield what an answer holds; return the position behind it."""
        aborted = AbortedTransactions.of(fetched.aborted) if self._read_committed else None
        batches: list[Batch] = []
        readable = True
        try:
            batches.extend(Batch(*it) for it in walk(fetched.block))
        except FormatError:
            readable = False
        behind = max(position, batches[-1].header.next_offset) if batches else position
        if readable and behind < end and batches:
            self._fetcher.request({item: behind})
        for batch in batches:
            header = batch.header
            if header.base_offset >= end:
                break
            hidden = aborted.hides(header, batch.data) if aborted is not None else header.control
            if hidden or header.last_offset < position or not header.record_count:
                continue
            if crc32c(batch.data[CHECKED_FROM:]) == header.crc:
                yield batch
            else:
                yield Lost(max(position, header.base_offset), header.next_offset, Unproved.UNREADABLE)
        if not readable:
            yield Lost(behind, end, Unproved.UNREADABLE)
            return end
        return behind
