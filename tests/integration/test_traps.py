"""The traps of Kafka's protocol, each sprung on a real broker, and what twinlog does instead (docs/chaos.md).

Costs about half a minute, brokers included.
"""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from confluent_kafka import Producer
from crc32c import crc32c

from batches import Rec, encode
from lab import (
    Seen,
    create_topic,
    cycle,
    flow_of,
    produce,
    produce_transaction,
    read,
)
from twinlog.batches.header import BatchHeader
from twinlog.batches.outgoing import Outgoing, Stretches
from twinlog.batches.relabel import relabel
from twinlog.cluster.api import open_clusters
from twinlog.config.security.connection import ConnectionSettings
from twinlog.copying.ownership import state_topics
from twinlog.errors import FencedError, TerminalError, TransientError
from twinlog.formats.mm2.connect_offset import offset_value, partition_for, source_offset_key
from twinlog.lane.fence.fence import Grant, fence, init_writer
from twinlog.lane.producer import Lane
from twinlog.lane.transaction import Writer
from twinlog.lifecycle import sync_topics
from twinlog.protocol import wire
from twinlog.protocol.brokers import LATEST, Brokers
from twinlog.protocol.errors import Code
from twinlog.protocol.socket.connection import fresh_buffer
from twinlog.state.progress import read_progress

NOW = int(time.time() * 1000)


@pytest.fixture
def brokers(cluster_b: Any) -> Iterator[Brokers]:
    """The relay's own view of the target."""
    host, port = cluster_b.bootstrap_servers.split(",")[0].rsplit(":", 1)
    with Brokers(ConnectionSettings("B", ((host, int(port)),))) as opened:
        yield opened


def writer(brokers: Brokers) -> Writer:
    """A transactional producer of its own."""
    return init_writer(brokers, f"trap-{uuid.uuid4().hex}", 10_000)


def outgoing(*values: bytes) -> Outgoing:
    """A batch ready to be sent."""
    buffer = memoryview(encode([Rec(value, timestamp=NOW) for value in values]))
    return Outgoing(buffer, BatchHeader.read(buffer), Stretches(0, [0, 0, len(values)]))


def raw_produce(
    brokers: Brokers, topic: str, batches: list[memoryview], transactional_id: str | None
) -> list[wire.Produced]:
    """Send batches of partition 0 as they are, as no lane would."""
    connection = brokers.node(brokers.leader(topic, 0), "produce")
    body = wire.produce_request(
        {topic: [(0, batch) for batch in batches]}, transactional_id=transactional_id, timeout_ms=10_000
    )
    connection.send(wire.PRODUCE, wire.PRODUCE_VERSION, body)
    return wire.produce_response(connection.receive(fresh_buffer))


def values(cluster: Any, topic: str) -> list[bytes | None]:
    """What a read_committed consumer sees."""
    return [seen.value for seen in read(cluster, topic)]


def test_sequences_that_begin_again_are_dropped_without_a_word(
    cluster_b: Any, brokers: Brokers, unique_topic: Callable[[str], str]
) -> None:
    """The broker says "done" and writes nothing; a lane sees the old offset in the answer and stops."""
    topic = create_topic(cluster_b, unique_topic("trap"))
    same = writer(brokers)
    first = Lane(brokers, same)
    first.add([(topic, 0)])
    first.send({(topic, 0): [outgoing(b"a", b"b")]})
    first.drain()
    first.commit()
    batch = relabel(*_parts(outgoing(b"c", b"d")), same.producer_id, same.producer_epoch, 0)
    first.add([(topic, 0)])
    (answer,) = raw_produce(brokers, topic, [batch], same.transactional_id)
    assert (answer.error, answer.base_offset) == (0, 0)
    second = Lane(brokers, same)
    second.begin([(topic, 0)])
    second.add([(topic, 0)])
    second.send({(topic, 0): [outgoing(b"e", b"f")]})
    with pytest.raises(TransientError, match="duplicate of offset 0"):
        second.drain()
    first.commit()
    assert values(cluster_b, topic) == [b"a", b"b"]


def test_nothing_joins_the_transaction_before(
    cluster_b: Any, brokers: Brokers, unique_topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """AddPartitions right after EndTxn says CONCURRENT_TRANSACTIONS; a produce then would be in the old transaction."""
    topic = create_topic(cluster_b, unique_topic("trap"))
    lane = Lane(brokers, writer(brokers))
    codes: list[int] = []
    ask = type(lane.transaction)._ask_to_add

    def spied(transaction: Any, partitions: Any) -> Any:
        answer = ask(transaction, partitions)
        codes.extend(answer.values())
        return answer

    monkeypatch.setattr(type(lane.transaction), "_ask_to_add", spied)
    expected = []
    for number in range(5000):  # a loaded machine may be too slow to be early for long
        if number >= 60 and Code.CONCURRENT_TRANSACTIONS in codes:
            break
        lane.add([(topic, 0)])
        lane.send({(topic, 0): [outgoing(b"%d" % number)]})
        lane.drain()
        assert [] == lane.take_refused()
        if number % 2:
            lane.abort()
        else:
            lane.commit()
            expected.append(b"%d" % number)
    lane.await_markers()
    assert Code.CONCURRENT_TRANSACTIONS in codes
    assert values(cluster_b, topic) == expected


def test_an_end_that_meets_a_fence_has_happened_or_not(
    cluster_b: Any, brokers: Brokers, unique_topic: Callable[[str], str]
) -> None:
    """Between the two a coordinator answers UNKNOWN_SERVER_ERROR; asked again it knows, and the log agrees."""
    topic = create_topic(cluster_b, unique_topic("trap"))
    same = writer(brokers)
    committed = []
    with Brokers(brokers.settings) as elsewhere, ThreadPoolExecutor(1) as pool:
        for number in range(100):
            lane = Lane(brokers, same)
            assert [] == lane.write_state({(topic, 0): [outgoing(b"%d" % number)]})
            fencing = pool.submit(init_writer, elsewhere, same.transactional_id, 10_000)
            time.sleep(number % 20 / 10_000)
            with suppress(FencedError):
                lane.commit()
                committed.append(b"%d" % number)
            same = fencing.result()
    assert committed == values(cluster_b, topic)


def test_a_partition_twice_in_a_request_is_answered_once(
    cluster_b: Any, brokers: Brokers, unique_topic: Callable[[str], str]
) -> None:
    """One of the two is neither written nor reported; a lane's requests hold one batch a partition by their type."""
    topic = create_topic(cluster_b, unique_topic("trap"))
    batches = [encode([Rec(value, timestamp=NOW)]) for value in (b"a", b"b")]
    answers = raw_produce(brokers, topic, [memoryview(it) for it in batches], None)
    assert len(answers) == 1
    assert len(values(cluster_b, topic)) < 2
    lane = Lane(brokers, writer(brokers))
    lane.add([(topic, 0)])
    for value in (b"c", b"d"):
        lane.send({(topic, 0): [outgoing(value)]})
    lane.drain()
    lane.commit()
    lane.await_markers()
    assert values(cluster_b, topic)[-2:] == [b"c", b"d"]


def test_a_producer_id_of_minus_one_writes_outside_any_transaction(
    cluster_b: Any, brokers: Brokers, unique_topic: Callable[[str], str]
) -> None:
    """Brokers accept it, and readers see it at once; nobody can be a writer with it here."""
    topic = create_topic(cluster_b, unique_topic("trap"))
    batch = relabel(*_parts(outgoing(b"loose")), -1, -1, -1)
    (answer,) = raw_produce(brokers, topic, [batch], "nobody")
    assert (answer.error, values(cluster_b, topic)) == (0, [b"loose"])
    with pytest.raises(ValueError, match="producer id -1"):
        Writer("lane", -1, -1)


def test_a_header_that_hides_gaps_is_accepted_and_corrupts_the_log(
    cluster_b: Any, brokers: Brokers, unique_topic: Callable[[str], str]
) -> None:
    """The broker looks at the header only; so gaps are rewritten record by record (test_compacted.py)."""
    from test_cutter import with_gaps

    topic = create_topic(cluster_b, unique_topic("trap"))
    kept = [(0, Rec(b"a", timestamp=NOW)), (4, Rec(b"b", timestamp=NOW))]
    batch = with_gaps(kept, 0, 4)
    (refused,) = raw_produce(brokers, topic, [memoryview(bytearray(batch))], None)
    assert refused.error == Code.INVALID_RECORD
    struct.pack_into(">i", batch, 23, 1)
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    (accepted,) = raw_produce(brokers, topic, [memoryview(batch)], None)
    ((_, end),) = brokers.offsets([(topic, 0)], LATEST).items()
    assert (accepted.error, end) == (0, 2)  # and offset 4, which the second record says it has, is beyond it


def test_a_strangers_open_transaction_hides_no_progress(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Somebody else's transaction stays open in the progress topic: nothing is copied twice because of it."""
    topic = create_topic(cluster_a, unique_topic("trap"))
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    produce(cluster_a, topic, [Seen(None, b"%d" % n, NOW) for n in range(10)])
    assert cycle(flow).records == 10
    number = partition_for(source_offset_key("MirrorSourceConnector", "A", 0, topic), 25)
    stranger = Producer({
        "bootstrap.servers": cluster_b.bootstrap_servers,
        "transactional.id": uuid.uuid4().hex,
    })
    stranger.init_transactions(30)
    stranger.begin_transaction()
    stranger.produce(flow.offsets_topic, b"{}", b"[]", partition=number)
    stranger.flush(30)
    try:
        produce(cluster_a, topic, [Seen(None, b"%d" % n, NOW) for n in range(10, 15)])
        assert [cycle(flow).records for _ in range(3)] == [5, 0, 0]
        assert values(cluster_b, f"A.{topic}") == [b"%d" % n for n in range(15)]
    finally:
        stranger.abort_transaction(30)


def test_an_aborted_progress_record_is_written_again(
    cluster_a: Any, cluster_b: Any, brokers: Brokers, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """MM2 reads that topic uncommitted, and would skip records: the fence puts the truth above the aborted one."""
    topic = create_topic(cluster_a, unique_topic("trap"))
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    produce(cluster_a, topic, [Seen(None, b"%d" % n, NOW) for n in range(10)])
    assert cycle(flow).records == 10
    key = source_offset_key("MirrorSourceConnector", "A", 0, topic)
    number = partition_for(key, 25)
    lie = Seen(key, offset_value(99), NOW)
    produce_transaction(cluster_b, flow.offsets_topic, [lie], number, commit=False)

    def newest() -> bytes | None:
        raw = read(cluster_b, flow.offsets_topic, number, isolation="read_uncommitted")
        return [seen.value for seen in raw if seen.key == key][-1]

    assert newest() == offset_value(99)
    with open_clusters(flow) as clusters:

        def fenced() -> Grant:
            return fence(
                brokers,
                flow.name,
                state_topics(flow, clusters),
                run_id=uuid.uuid4().hex,
                lanes=1,
                transaction_timeout_ms=10_000,
            )

        before = fenced()
        assert newest() == offset_value(9)
        assert [10, 10] == [it.copy_ends[topic, 0] for it in (before, fenced())]
        assert read_progress(flow, clusters.target)[topic, 0] == 9


def test_a_markers_time_is_not_a_records_time(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Old records committed today end in a marker of today: a copy up to an hour ago has all of them and no more."""
    topic = create_topic(cluster_a, unique_topic("trap"))
    day, hour = 86_400_000, 3_600_000
    old = [Seen(None, b"%d" % n, NOW - day + n) for n in range(5)]
    produce_transaction(cluster_a, topic, old)
    produce(cluster_a, topic, [Seen(None, b"new", NOW)])
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    assert cycle(flow, until_ms=NOW - hour).records == 5
    assert read(cluster_b, f"A.{topic}") == old
    assert cycle(flow).records == 1


def test_a_clock_hours_ahead_is_refused_by_name(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """The target takes no record from the future: nothing is copied, the line says what to set right; then it is."""
    topic = create_topic(cluster_a, unique_topic("trap"))
    produce(cluster_a, topic, [Seen(None, b"a", NOW)])
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
    real = time.time
    with mock.patch("time.time", lambda: real() + 3 * 3600), pytest.raises(TerminalError) as caught:
        cycle(flow)
    assert "set the clock" in caught.value.hint
    assert values(cluster_b, f"A.{topic}") == []
    assert cycle(flow).records == 1


def test_a_delete_horizon_is_not_a_base_timestamp(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Batches that the cleaner has stamped carry deltas from another time; the copy shows each record's own."""
    topic = create_topic(cluster_a, unique_topic("trap"))
    batch = encode([Rec(b"%d" % n, b"k%d" % n, NOW - 1000 * n) for n in range(6)])
    batch[22] |= 0x40
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    host, port = cluster_a.bootstrap_servers.split(",")[0].rsplit(":", 1)
    with Brokers(ConnectionSettings("A", ((host, int(port)),))) as source:
        (answer,) = raw_produce(source, topic, [memoryview(batch)], None)
    assert answer.error == 0
    assert cycle(flow_of(tmp_path, cluster_a, cluster_b, [topic])).records == 6
    assert read(cluster_b, f"A.{topic}") == read(cluster_a, topic)


def _parts(item: Outgoing) -> tuple[memoryview, BatchHeader]:
    return item.buffer, item.header
