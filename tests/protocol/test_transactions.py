"""AddPartitionsToTxn and EndTxn, by hand and by kafka-python."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python, transactions

PLACES = st.lists(
    st.builds(TopicPartition, st.text(min_size=1, max_size=8), st.integers(0, 1 << 30)), unique=True
)
WRITER = st.tuples(st.text(max_size=9), st.integers(0, 1 << 62), st.integers(0, 32_767))


@given(WRITER, PLACES, st.booleans())
def test_requests_are_read_as_they_were_meant(
    writer: tuple[str, int, int], places: list[TopicPartition], commit: bool
) -> None:
    """Any names, any partitions."""
    added = kafka_python.ADD_PARTITIONS.request.decode(transactions.add_request(*writer, places), version=2)
    named = (
        added.v3_and_below_transactional_id,
        added.v3_and_below_producer_id,
        added.v3_and_below_producer_epoch,
    )
    found = [TopicPartition(it.name, n) for it in added.v3_and_below_topics for n in it.partitions]
    assert (writer, sorted(places)) == (named, sorted(found))
    ended = kafka_python.END_TXN.request.decode(transactions.end_request(*writer, commit=commit), version=2)
    assert (*writer, commit) == (
        ended.transactional_id,
        ended.producer_id,
        ended.producer_epoch,
        ended.committed,
    )


@given(
    st.dictionaries(st.builds(TopicPartition, st.text(min_size=1), st.integers(0, 99)), st.integers(-1, 120))
)
def test_answers_are_read_as_they_were_meant(codes: dict[TopicPartition, int]) -> None:
    """Any codes, by topic in any order."""
    response = kafka_python.ADD_PARTITIONS.response
    topic, entry = (
        response.AddPartitionsToTxnTopicResult,
        response.AddPartitionsToTxnTopicResult.AddPartitionsToTxnPartitionResult,
    )
    results = [
        topic(
            name=name,
            results_by_partition=[
                entry(partition_index=place.partition, partition_error_code=code)
                for place, code in codes.items()
                if place.topic == name
            ],
        )
        for name in {place.topic for place in codes}
    ]
    answer = response(version=2, throttle_time_ms=7, results_by_topic_v3_and_below=results).encode()
    assert codes == transactions.add_response(memoryview(answer))
    for code in codes.values():
        ended = kafka_python.END_TXN.response(version=2, throttle_time_ms=7, error_code=code).encode()
        assert code == transactions.end_response(memoryview(ended))
