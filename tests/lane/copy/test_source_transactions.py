"""Where transactions begin and end is noted from the batches, once, and is taken back with what was read."""

from __future__ import annotations

import struct

from batches import Rec, encode
from twinlog.batches.loopback import LaneWriters
from twinlog.formats.transactions import Event, EventKind
from twinlog.lane.copy.source_transactions import SourceTransactions


def data(base: int, producer: int, count: int = 2) -> bytes:
    """A batch of a transaction."""
    return bytes(encode([Rec()] * count, base_offset=base, transactional=True, producer_id=producer))


def marker(base: int, producer: int, *, commit: bool) -> bytes:
    """An end-of-transaction marker."""
    key = struct.pack(">hh", 0, int(commit))
    batch = encode([Rec(key=key)], base_offset=base, transactional=True, producer_id=producer)
    batch[22] |= 0x20
    return bytes(batch)


def plain(base: int) -> bytes:
    """A batch of no transaction."""
    return bytes(encode([Rec()], base_offset=base))


BLOCK = b"".join([
    data(0, 5),
    plain(2),
    data(3, 6),
    data(5, 5),
    marker(7, 5, commit=True),
    marker(8, 6, commit=False),
    data(9, 5),
])


def read(noted: SourceTransactions, start: int, end: int) -> list[Event]:
    """Read a part of the block."""
    noted.read(memoryview(BLOCK), start, end)
    return noted.events


def test_a_transaction_is_noted_where_it_begins_and_where_it_ends() -> None:
    """Its further batches are not, nor are those of none."""
    assert [
        Event(0, 5, 0, EventKind.BEGAN),
        Event(3, 6, 0, EventKind.BEGAN),
        Event(7, 5, 0, EventKind.COMMITTED),
        Event(8, 6, 0, EventKind.ABORTED),
        Event(9, 5, 0, EventKind.BEGAN),
    ] == read(SourceTransactions("r"), 0, 11)


def test_what_a_reverse_flow_wrote_does_not_count() -> None:
    """It is not copied back, so nothing of it can be split."""
    reverse = LaneWriters(lambda: {}, lane_ids={5})
    assert [Event(3, 6, 0, EventKind.BEGAN), Event(8, 6, 0, EventKind.ABORTED)] == read(
        SourceTransactions("r", reverse), 0, 11
    )


def test_only_what_was_cut_counts() -> None:
    """A batch that begins before the start belongs to it; one at the end does not."""
    assert [Event(0, 5, 0, EventKind.BEGAN)] == read(SourceTransactions("r"), 1, 3)


def test_what_was_not_committed_is_read_again() -> None:
    """A transaction that was open at the commit is not noted again, one that began behind it is."""
    noted = SourceTransactions("r")
    read(noted, 0, 3)
    noted.committed()
    read(noted, 3, 11)
    noted.taken_back()
    assert ([], {5}) == (noted.events, noted.open_now)
    assert [
        Event(3, 6, 0, EventKind.BEGAN),
        Event(7, 5, 0, EventKind.COMMITTED),
        Event(8, 6, 0, EventKind.ABORTED),
        Event(9, 5, 0, EventKind.BEGAN),
    ] == read(noted, 3, 11)


def test_what_cannot_be_read_lies_behind() -> None:
    """It is reported by whoever cuts the batches."""
    noted = SourceTransactions("r")
    noted.read(memoryview(data(0, 5) + b"\0" * 100), 0, 2)
    assert [Event(0, 5, 0, EventKind.BEGAN)] == noted.events
