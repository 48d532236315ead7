"""Find records that some producers committed after the offsets at which logs are known to have ended."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from twinlog.batches.markers import is_abort_marker
from twinlog.errors import FormatError
from twinlog.kafka_types import Positions, TopicPartition
from twinlog.logs.log_reader import read_while
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.fetcher import Fetcher
from twinlog.protocol.legacy import walk_verified
from twinlog.protocol.wire import Fetched

READ_BYTES = 1 << 20
"""The bytes of a log that are read, plus the bytes needed to see how the transactions that begin in them end."""

_FETCH_BYTES = 8 << 20


@dataclass(slots=True)
class _Reading:
    """The reading of one log: how many bytes, and which of our batches wait for their marker.

    `waiting` maps a producer to the downstream offset of its first batch since its last marker.  `found` is the offset
    of the first such batch that proved to be committed.
    """

    end: int
    read_bytes: int = 0
    waiting: dict[int, int] = field(default_factory=dict)
    found: int | None = None

    def over(self, position: int) -> bool:
        """Say whether enough of the log was read."""
        enough = self.read_bytes >= READ_BYTES and not self.waiting
        return self.found is not None or position >= self.end or enough

    def take(self, position: int, block: memoryview, writers: Collection[int]) -> int:
        """Take one fetched block; return the position behind it.  Raises FormatError if it is damaged."""
        self.read_bytes += len(block)
        for header, batch in walk_verified(block):
            if header.last_offset < position:
                continue
            position = header.next_offset
            if header.producer_id not in writers:
                continue
            if not header.control:
                self.waiting.setdefault(header.producer_id, header.base_offset)
                continue
            first = self.waiting.pop(header.producer_id, None)
            if self.found is None and not is_abort_marker(header, batch):
                self.found = first
        return position


def first_committed_after(
    target: Brokers,
    places: Positions,
    ends: Positions,
    writers: Collection[int],
) -> dict[TopicPartition, int]:
    """Return, by log, the first downstream offset that `writers` committed between `places` and `ends`.

    Logs without such a commit are left out.  All logs are read together, and not as a read_committed consumer: that
    stops at the last stable offset, and a foreign open transaction would hide our records behind it.  Call it while
    none of `writers` has a transaction open.  Logs that are damaged or gone yield no answer.  Raises TransientError if
    a leader does not serve its log, and ClusterRefused.
    """
    positions = dict(places)
    readings = {place: _Reading(ends[place]) for place in places}
    fetcher = Fetcher(target, max_bytes=_FETCH_BYTES, partition_max_bytes=READ_BYTES, read_committed=False)

    def take(fetched: Fetched) -> int:
        place = fetched.topic_partition
        try:
            return readings[place].take(positions[place], fetched.block, writers)
        except FormatError:
            return ends[place]

    read_while(
        target,
        fetcher,
        positions,
        lambda place: not readings[place].over(positions[place]),
        take,
        gone=lambda place, _: positions.pop(place),
    )
    return {place: it.found for place, it in readings.items() if it.found is not None}
