"""Produce and Fetch by hand, against kafka-python's schemas as the witness."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from batches import Rec, encode
from twinlog.protocol import wire


def test_a_produce_request_is_kafkas() -> None:
    """Topics, partitions and batches stand where the schema puts them; the batches are the same objects."""
    batch = memoryview(encode([Rec(b"a")]))
    parts = wire.produce_request({"t": [(0, batch), (2, batch)]}, transactional_id="x", timeout_ms=30)
    read = ProduceRequest.decode(b"".join(bytes(part) for part in parts), version=wire.PRODUCE_VERSION)
    assert (read.transactional_id, read.acks, read.timeout_ms) == ("x", -1, 30)
    (topic,) = read.topic_data
    assert [(item.index, bytes(item.records)) for item in topic.partition_data] == [
        (0, bytes(batch)),
        (2, bytes(batch)),
    ]
    assert any(part is batch for part in parts)


def test_an_idempotent_produce_request_has_no_transactional_id() -> None:
    """Null, not the empty string."""
    parts = wire.produce_request({"t": [(0, memoryview(b"x"))]}, transactional_id=None, timeout_ms=1)
    assert b"".join(bytes(part) for part in parts)[:2] == b"\xff\xff"


def test_a_produce_answer_is_read_as_kafka_writes_it() -> None:
    """Errors of single records come with their index."""
    topic, partition = ProduceResponse.TopicProduceResponse, None
    partition = topic.PartitionProduceResponse
    failed = partition(
        index=3,
        error_code=87,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
        record_errors=[
            partition.BatchIndexAndErrorMessage(batch_index=2, batch_index_error_message="no key"),
        ],
        error_message="one is bad",
    )
    fine = partition(
        index=0, error_code=0, base_offset=41, log_append_time_ms=-1, log_start_offset=0, record_errors=[],
        error_message=None,
    )  # fmt: skip
    raw = ProduceResponse(
        version=wire.PRODUCE_VERSION,
        responses=[topic(name="t", partition_responses=[failed, fine])],
        throttle_time_ms=0,
    ).encode()
    assert wire.produce_response(memoryview(raw)) == [
        wire.Produced("t", 3, 87, -1, ((2, "no key"),), "one is bad"),
        wire.Produced("t", 0, 0, 41),
    ]


VERSIONS = range(wire.OLDEST_FETCH_VERSION, wire.FETCH_VERSION + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fetch_request_is_kafkas(version: int) -> None:
    """A full fetch, session-less, of two topics, in each version that brokers from 1.1 on speak."""
    positions = [
        wire.FetchPosition("a", 0, 5, 100),
        wire.FetchPosition("a", 1, 6, 100),
        wire.FetchPosition("b", 0, 7, 100),
    ]
    raw = wire.fetch_request(positions, max_bytes=1000, max_wait_ms=50, read_committed=True, version=version)
    read = FetchRequest.decode(raw, version=version)
    assert (read.replica_id, read.max_wait_ms, read.min_bytes, read.max_bytes) == (-1, 50, 1, 1000)
    assert (read.isolation_level, read.session_id, read.session_epoch) == (1, 0, -1)
    found = [
        (topic.topic, item.partition, item.fetch_offset, item.partition_max_bytes)
        for topic in read.topics
        for item in topic.partitions
    ]
    assert found == [("a", 0, 5, 100), ("a", 1, 6, 100), ("b", 0, 7, 100)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fetch_answer_is_cut_without_copying(version: int) -> None:
    """Blocks are views into the answer; aborted transactions are read; nulls are empty."""
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData
    data = partition(
        partition_index=1,
        error_code=0,
        high_watermark=9,
        last_stable_offset=8,
        log_start_offset=2,
        aborted_transactions=[partition.AbortedTransaction(producer_id=5, first_offset=3)],
        preferred_read_replica=-1,
        records=b"the block",
    )
    empty = partition(
        partition_index=2, error_code=6, high_watermark=-1, last_stable_offset=-1, log_start_offset=-1,
        aborted_transactions=None, preferred_read_replica=-1, records=None,
    )  # fmt: skip
    raw = bytearray(
        FetchResponse(
            version=version,
            throttle_time_ms=0,
            error_code=0,
            session_id=0,
            responses=[topic(topic="t", partitions=[data, empty])],
        ).encode()
    )
    _, error, session, fetched = wire.fetch_response(memoryview(raw), version)
    first, second = fetched
    assert (error, session) == (0, 0)
    assert (first.topic, first.partition, first.high_watermark, first.last_stable_offset) == ("t", 1, 9, 8)
    assert (first.aborted, bytes(first.block)) == ([(5, 3)], b"the block")
    assert first.block.obj is raw
    assert (second.error, second.aborted, len(second.block)) == (6, [], 0)
