"""What was fetched stays where it is for as long as a lane needs it."""

from __future__ import annotations

import time
from typing import cast

import pytest
from fakes import TOPIC_ID, FakeSource
from kafka.protocol.consumer import FetchRequest

from batches import Rec, encode
from twinlog.errors import ClusterUnreachable
from twinlog.formats.ledger.audit import Unproved
from twinlog.kafka_types import TopicPartition
from twinlog.logs.partition_reader import Block, PartitionReader
from twinlog.protocol import fetch_backoff, fetch_by_id
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.fetch_backoff import FetchBackoff
from twinlog.protocol.fetcher import Fetcher, _Buffers


def test_an_answer_lost_half_way_takes_no_turn() -> None:
    """Else the next one would be read over the answer before it, which may still be under way to the target."""
    buffers = _Buffers(2, 1000)
    taken = buffers.allocate(100_000)
    taken[:] = b"x" * len(taken)
    buffers.turn()
    buffers.allocate(100_000)  # and its connection was lost
    buffers.allocate(100_000)[:] = b"y" * len(taken)
    assert b"x" * len(taken) == taken


def test_buffers_have_their_turns() -> None:
    """An answer is kept while the next is read, and its memory used again by the one after that."""
    buffers = _Buffers(2, 1000)
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


class Noting(FakeSource):
    """Notes the partitions and bytes of each fetch, and what each fetch session forgets."""

    noted: list[tuple[list[tuple[int, int]], list[int]]]

    def _fetch_by_id(self, api: int, body: memoryview) -> bytes:
        asked = FetchRequest.decode(bytes(body[1:]), version=fetch_by_id.VERSION)
        wanted = [(it.partition, it.partition_max_bytes) for topic in asked.topics for it in topic.partitions]
        forgotten = [it for topic in asked.forgotten_topics_data for it in topic.partitions]
        self.noted.append((wanted, forgotten))
        return super()._fetch_by_id(api, body)


def test_a_choice_leaves_partitions_to_later_requests_and_says_the_bytes() -> None:
    """What is left out leaves the fetch session, and comes back when it is chosen again."""
    log = [bytes(encode([Rec(b"x")] * 5))]
    places = [TopicPartition("t", n) for n in range(3)]
    source = Noting({it: list(log) for it in places}, fetch_version=fetch_by_id.VERSION)
    source.noted = []
    source.found_leader = 1
    choices = [None, {places[0]: 7}, {places[2]: 8, places[1]: 9}, None]
    fetcher = Fetcher(
        cast(Brokers, source),
        max_bytes=100,
        partition_max_bytes=50,
        read_committed=True,
        topic_ids={"t": TOPIC_ID},
        backoff=FetchBackoff(),
        choice=lambda node, wanted: choices.pop(0),
    )
    answered = []
    for offset in (0, 5, 5, 5):
        fetcher.request(dict.fromkeys(places, offset))
        answered.append([it.partition for answer in fetcher.answers() for it in answer])
    assert [
        ([(0, 50), (1, 50), (2, 50)], []),
        ([(0, 7)], [1, 2]),
        ([(1, 9), (2, 8)], [0]),
        ([(0, 50)], []),
    ] == source.noted
    assert [[0, 1, 2], [], [], []] == answered


def test_a_source_is_as_far_as_its_quickest_answer() -> None:
    """One that waits for a record to come says nothing of the distance."""
    source = FakeSource({("t", 0): [bytes(encode([Rec(b"x")] * 5))]})
    source.found_leader = 1
    fetcher = Fetcher(
        cast(Brokers, source),
        max_bytes=100,
        partition_max_bytes=50,
        read_committed=True,
        backoff=FetchBackoff(),
    )
    found = []
    for seconds in (5.0, 0.0, 5.0):  # of which a fiftieth passes
        fetcher.request({TopicPartition("t", 0): 0})
        time.sleep(seconds)
        list(fetcher.answers())
        found.append(fetcher.quickest_seconds)
    assert found[0] >= 0.09 > found[1] == found[2]


def test_a_partition_left_to_a_later_request_does_not_count_as_one_without_a_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its leader was lost, and has answered since: that it is lost again long after is not the same loss."""
    now = [1000.0]
    monkeypatch.setattr(fetch_backoff.time, "monotonic", lambda: now[0])
    log = [bytes(encode([Rec(b"x")] * 5))]
    asked, left = TopicPartition("t", 0), TopicPartition("t", 1)
    source = FakeSource({asked: list(log), left: list(log)}, fetch_version=fetch_by_id.VERSION)
    source.cut_at = {0, 2}
    fetcher = Fetcher(
        cast(Brokers, source),
        max_bytes=100,
        partition_max_bytes=50,
        read_committed=True,
        topic_ids={"t": TOPIC_ID},
        backoff=FetchBackoff(),
        choice=lambda node, wanted: {asked: 50},
    )

    def refused() -> list[TopicPartition]:
        them = fetcher.request({asked: 0, left: 0})
        list(fetcher.answers())
        return list(them)

    assert ([], []) == (refused(), refused())  # cut off; it is not asked again at once
    now[0] += 2
    assert [] == refused()  # served
    now[0] += 100
    assert ([], [], 3) == (refused(), refused(), source.fetches)
