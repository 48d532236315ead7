"""Where a routed record goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.transforms.routes import TOPIC_NAME, Partitioner, Route

KEY, SAME = (Route("alerts", it) for it in (Partitioner.KEY, Partitioner.SAME))


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_a_key_goes_where_kafkas_default_partitioner_sends_it(key: bytes, hashed: int) -> None:
    """By Kafka's own vectors (UtilsTest.testMurmur2), made positive (Utils.toPositive)."""
    for partitions in (1, 2, 12, 1000):
        assert (hashed & 0x7FFFFFFF) % partitions == KEY.place(key, 5) % partitions


@given(
    st.none() | st.binary(max_size=40), st.integers(0, 50), st.integers(1, 40), st.sampled_from([KEY, SAME])
)
def test_a_record_gets_one_of_the_places_that_were_told(
    key: bytes | None, source_partition: int, partitions: int, route: Route
) -> None:
    """Law: also if it has no key; the lane has noted the ends of these places before it writes."""
    if route.reaches(source_partition, partitions):
        place = route.place(key, source_partition) % partitions
        assert place in route.places(source_partition, partitions)


@given(st.none() | st.binary(max_size=9), st.integers(0, 50), st.integers(1, 40))
def test_the_same_partition_keeps_its_number_or_is_refused(
    key: bytes | None, source_partition: int, partitions: int
) -> None:
    """Law: it is never folded onto another one."""
    assert SAME.reaches(source_partition, partitions) == (source_partition < partitions)
    assert KEY.reaches(source_partition, partitions)
    if source_partition < partitions:
        assert source_partition == SAME.place(key, source_partition) % partitions


def test_without_a_key_the_source_partition_decides() -> None:
    """An empty key is a key."""
    assert (7, 7) == (KEY.place(None, 7), SAME.place(None, 7))
    assert KEY.place(b"", 7) == KEY.place(b"", 8)


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("alerts", True),
        ("a.b-c_D9", True),
        (".", False),
        ("..", False),
        ("...", True),
        ("", False),
        ("a b", False),
    ],
)
def test_names_that_kafka_takes(name: str, good: bool) -> None:
    """As org.apache.kafka.common.internals.Topic has it; up to 249 characters."""
    assert good == (TOPIC_NAME.fullmatch(name) is not None)
    assert TOPIC_NAME.fullmatch("a" * 249)
    assert not TOPIC_NAME.fullmatch("a" * 250)
