"""What was fetched stays where it is for as long as a lane needs it."""

from __future__ import annotations

from typing import cast

import pytest
from fakes import FakeSource

from batches import Rec, encode
from twinlog.errors import ClusterUnreachable
from twinlog.formats.ledger.audit import Unproved
from twinlog.logs.partition_reader import Block, PartitionReader
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.fetcher import _Buffers


def test_an_answer_lost_half_way_takes_no_turn() -> None:
    """Else the next one would be read over the answer before it, which may still be under way to the target."""
    buffers = _Buffers(2)
    taken = buffers.allocate(100_000)
    taken[:] = b"x" * len(taken)
    buffers.turn()
    buffers.allocate(100_000)  # and its connection was lost
    buffers.allocate(100_000)[:] = b"y" * len(taken)
    assert b"x" * len(taken) == taken


def test_buffers_have_their_turns() -> None:
    """An answer is kept while the next is read, and its memory used again by the one after that."""
    buffers = _Buffers(2)
    places = []
    for _ in range(4):
        places.append(id(buffers.allocate(1000).obj))
        buffers.turn()
    assert places[:2] == places[2:]
    assert places[0] != places[1]


class LosesFirst(FakeSource):
    """Loses the first answer, and with it the connection."""

    def leader(self, topic: str, partition: int) -> int:
        self.found_leader = 1
        return 1

    def _fetch(self, api: int, body: memoryview) -> bytes | None:  # type: ignore[override]
        answer = super()._fetch(api, body)
        return None if self.fetches == 1 else answer


def test_a_lost_connection_costs_one_reading_and_not_all_that_follow() -> None:
    """Whoever reads partitions one after the other asks for the next over a new connection, of whoever leads now."""
    log = [bytes(encode([Rec(b"x")] * 5))]
    source = LosesFirst({("t", 0): log, ("t", 1): log})
    reader = PartitionReader(cast(Brokers, source), Unproved.SOURCE_RETENTION, fetch_bytes=1 << 20)
    with pytest.raises(ClusterUnreachable):
        list(reader.read("t", 0, 0, 5))
    assert -1 == source.found_leader
    (found,) = reader.read("t", 1, 0, 5)
    assert isinstance(found, Block)
    assert log == [bytes(batch.data) for batch in found.batches()]
