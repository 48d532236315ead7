"""Find records that some producers committed after the offsets at which logs are known to have ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from twinlog.batches.markers import is_abort_marker
from twinlog.errors import FormatError
from twinlog.kafka_types import TopicPartition
from twinlog.logs.log_reader import read_while
from twinlog.protocol.brokers import EARLIEST, Brokers
from twinlog.protocol.errors import Code, Request, error_for, repeats
from twinlog.protocol.fetcher import Fetcher
from twinlog.protocol.legacy import walk_verified
from twinlog.protocol.wire import Fetched

LOOK_BYTES = 1 << 20
"""The bytes of a log that are read, plus the bytes needed to see how the transactions that begin in them end."""

_FETCH_BYTES = 8 << 20


@dataclass(slots=True)
class _Look:
    """The reading of one log: how far, how many bytes, and which of our batches wait for their marker.

    `waiting` maps a producer to the downstream offset of its first batch since its last marker.  `found` is the offset
    of the first such batch that proved to be committed.
    """

    position: int
    end: int
    looked_at: int = 0
    waiting: dict[int, int] = field(default_factory=dict)
    found: int | None = None

    @property
    def over(self) -> bool:
        """Say whether enough of the log was read."""
        enough = self.looked_at >= LOOK_BYTES and not self.waiting
        return self.found is not None or self.position >= self.end or enough

    def take(self, block: memoryview, writers: Collection[int]) -> None:
        """Take one fetched block.  Raises FormatError if it is damaged."""
        self.looked_at += len(block)
        for header, batch in walk_verified(block):
            if header.last_offset < self.position:
                continue
            self.position = header.next_offset
            if header.producer_id not in writers:
                continue
            if not header.control:
                self.waiting.setdefault(header.producer_id, header.base_offset)
                continue
            first = self.waiting.pop(header.producer_id, None)
            if self.found is None and not is_abort_marker(header, batch):
                self.found = first


def committed_behind(
    target: Brokers,
    places: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    writers: Collection[int],
) -> dict[TopicPartition, int]:
    """Return, by log, the first downstream offset that `writers` committed between `places` and `ends`.

    Logs without such a commit are left out.  All logs are read together, and not as a read_committed consumer: that
    stops at the last stable offset, and a foreign open transaction would hide our records behind it.  Call it while
    none of `writers` has a transaction open.  Logs that are damaged or gone yield no answer.  Raises TransientError if
    a leader does not serve its log, and ClusterRefused.
    """
    looks = {place: _Look(at, ends[place]) for place, at in places.items()}
    fetcher = Fetcher(target, max_bytes=_FETCH_BYTES, partition_max_bytes=LOOK_BYTES, read_committed=False)

    def wanted() -> Mapping[TopicPartition, int]:
        return {place: it.position for place, it in looks.items() if not it.over}

    def take(fetched: Fetched) -> bool:
        look = looks.get(fetched.topic_partition)
        return look is not None and _take(target, fetched, look, writers)

    read_while(target, fetcher, wanted, take, gone=looks.__delitem__)
    return {place: it.found for place, it in looks.items() if it.found is not None}


def _take(target: Brokers, fetched: Fetched, look: _Look, writers: Collection[int]) -> bool:
    before = look.position
    if repeats(Request.FETCH, fetched.error):
        target.forget_leaders()
        return False
    if fetched.error == Code.OFFSET_OUT_OF_RANGE:
        place = fetched.topic_partition
        look.position = max(look.position, target.offsets([place], EARLIEST)[place])
    elif fetched.error:
        raise error_for(
            fetched.error, f"a fetch of {fetched.topic}-{fetched.partition}", target.settings.alias
        )
    else:
        try:
            look.take(fetched.block, writers)
        except FormatError:
            look.position = look.end
    return look.position > before
