"""Committed records of some producers behind the places where logs are known to have ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from twinlog.batches.aborted import is_abort_marker
from twinlog.errors import FormatError
from twinlog.logs.reading import read_while
from twinlog.protocol.brokers import Brokers, TopicPartition
from twinlog.protocol.error_codes import Code, error_for
from twinlog.protocol.fetcher import Fetcher
from twinlog.protocol.list_offsets import EARLIEST
from twinlog.protocol.remedies import Request, repeats
from twinlog.protocol.verified import walk_verified
from twinlog.protocol.wire import Fetched

LOOK_BYTES = 1 << 20
"""So much of a log is looked at, and what it takes to see how the transactions end that begin there."""

_FETCH_BYTES = 8 << 20


@dataclass(slots=True)
class _Look:
    """One log: how far it was looked at, of how many bytes, and what of ours waits for its marker there.

    `waiting` is the downstream offset of a producer's first batch since its last marker, `found` that of the first one
    that turned out to be committed.
    """

    position: int
    end: int
    looked_at: int = 0
    waiting: dict[int, int] = field(default_factory=dict)
    found: int | None = None

    @property
    def over(self) -> bool:
        """Whether enough was seen."""
        enough = self.looked_at >= LOOK_BYTES and not self.waiting
        return self.found is not None or self.position >= self.end or enough

    def take(self, block: memoryview, writers: Collection[int]) -> None:
        """Look at one fetched block.  Raises FormatError for damage."""
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
    """Return the first downstream offset of what `writers` committed between `places` and `ends`, of logs with such.

    All are asked together.  Not as a read_committed consumer: that stops at the last stable offset, and a stranger's
    open transaction would hide what is ours behind it.  Call while none of `writers` has a transaction open.  Nothing
    is said of what is damaged, or has gone.  Raises TransientError when a leader does not serve its log, and
    ClusterRefused.
    """
    looks = {place: _Look(at, ends[place]) for place, at in places.items()}
    fetcher = Fetcher(target, max_bytes=_FETCH_BYTES, partition_max_bytes=LOOK_BYTES, read_committed=False)

    def wanted() -> Mapping[TopicPartition, int]:
        return {place: it.position for place, it in looks.items() if not it.over}

    def take(fetched: Fetched) -> bool:
        look = looks.get((fetched.topic, fetched.partition))
        return look is not None and _take(target, fetched, look, writers)

    read_while(target, fetcher, wanted, take, gone=looks.__delitem__)
    return {place: it.found for place, it in looks.items() if it.found is not None}


def _take(target: Brokers, fetched: Fetched, look: _Look, writers: Collection[int]) -> bool:
    before = look.position
    if repeats(Request.FETCH, fetched.error):
        target.forget_leaders()
        return False
    if fetched.error == Code.OFFSET_OUT_OF_RANGE:
        place = fetched.topic, fetched.partition
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
