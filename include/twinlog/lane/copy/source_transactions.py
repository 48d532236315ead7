"""Note where the source's transactions begin and end in one partition, as its batches are read.  Pure."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from twinlog.batches.header import walk_headers
from twinlog.batches.loopback import LaneWriters
from twinlog.batches.markers import is_abort_marker
from twinlog.errors import FormatError
from twinlog.formats.transactions import Event, EventKind


@dataclass(slots=True)
class SourceTransactions:
    """The transactions of one partition, of `recording`; `events` are those since the lane's last commit.

    `open_now` are producers whose transaction has a batch here and no marker yet.  Whose transaction began before this
    lane did is not known here; its first batch is noted again, or only its marker.  Those of `reverse`, the lanes of a
    flow that writes to the source, do not count: what they wrote is not copied back.
    """

    recording: str
    reverse: LaneWriters | None = None
    events: list[Event] = field(default_factory=list)
    open_now: set[int] = field(default_factory=set)
    _open_before: frozenset[int] = frozenset()

    def read(self, block: memoryview, start: int, end: int) -> None:
        """Note the batches of a block that lie in upstream offsets [start, end), in order.

        A marker carries an epoch of its own: since KIP-890 that is the next transaction's.
        """
        with suppress(FormatError):  # what cannot be read lies behind `end`
            for header, at in walk_headers(block):
                if header.base_offset >= end:
                    return
                if header.next_offset <= start or not header.transactional:
                    continue
                if self.reverse is not None and self.reverse.wrote(header):
                    continue
                producer = header.producer_id
                if header.control:
                    aborted = is_abort_marker(header, block[at : at + header.size])
                    kind = EventKind.ABORTED if aborted else EventKind.COMMITTED
                    self.events.append(Event(header.base_offset, producer, header.producer_epoch, kind))
                    self.open_now.discard(producer)
                elif producer not in self.open_now:
                    self.events.append(
                        Event(header.base_offset, producer, header.producer_epoch, EventKind.BEGAN)
                    )
                    self.open_now.add(producer)

    def committed(self) -> None:
        """Note that the lane has committed what was read."""
        self.events.clear()
        self._open_before = frozenset(self.open_now)

    def taken_back(self) -> None:
        """Forget what was read since the lane's last commit."""
        self.events.clear()
        self.open_now = set(self._open_before)
