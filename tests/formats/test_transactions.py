"""What lanes and drivers note of the source's transactions, byte by byte and there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.errors import FormatError
from twinlog.formats import transactions
from twinlog.formats.transactions import Event, EventKind, Look, Seen, parse
from twinlog.kafka_types import TopicPartition

EVENTS = (Event(7, 4001, 3, EventKind.BEGAN), Event(9, 4001, 4, EventKind.COMMITTED))
SEEN = Seen("orders", "id", 1, "run-1/5", 7, 12, EVENTS)
LOOK = Look(
    "run-1/5",
    9,
    {"orders": "id", "empty": "other"},
    {TopicPartition("orders", 1): 12},
    {TopicPartition("orders", 0): 3, TopicPartition("orders", 1): 13},
)
BYTES = [
    (
        SEEN,
        b'["seen","orders","id",1]',
        b'{"version":1,"recording":"run-1/5","start":7,"end":12,"events":[[7,4001,3,0],[9,4001,4,1]]}',
    ),
    (
        LOOK,
        b'["look"]',
        b'{"version":1,"recording":"run-1/5","at_ms":9,'
        b'"topics":{"orders":["id",[-1,12],[3,13]],"empty":["other",[],[]]}}',
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), BYTES)
def test_these_are_the_bytes(record: Seen | Look, key: bytes, value: bytes) -> None:
    """Another release reads them."""
    assert (key, value) == (record.key(), record.value())
    assert record == parse(key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b'["seen"]', b'{"version":1}'),
        (b'["seen","t","i",0]', b'{"version":2,"recording":"","start":0,"end":1,"events":[]}'),
        (b'["seen","t","i",0]', b'{"version":1,"recording":"","start":0,"end":1,"events":[[1,2,3,9]]}'),
        (b'["look"]', b"[]"),
        (b'["other"]', b'{"version":1}'),
        (b"no json", b"no json"),
    ],
)
def test_anything_else_is_refused(key: bytes | None, value: bytes) -> None:
    """A cut rests on every record."""
    with pytest.raises(FormatError, match="transactions"):
        parse(key, value)


@given(
    st.lists(st.integers(0, 1 << 40), max_size=30, unique=True).map(sorted),
    st.integers(1, 7),
    st.integers(1, 50),
)
def test_a_record_is_split_into_its_events(offsets: list[int], most: int, more: int) -> None:
    """The parts follow one another, hold every event once, and are no larger than they may be."""
    events = tuple(Event(it, 1, 0, EventKind.BEGAN) for it in offsets)
    start, end = (offsets[0], offsets[-1] + more) if offsets else (0, more)
    whole = Seen("t", "i", 0, "r", start, end, events)
    before = transactions.MOST_EVENTS
    transactions.MOST_EVENTS = most
    try:
        parts = list(whole.split())
    finally:
        transactions.MOST_EVENTS = before
    assert events == tuple(it for part in parts for it in part.events)
    assert all(len(part.events) <= most for part in parts)
    if parts:
        assert [start, *(it.end for it in parts)] == [*(it.start for it in parts), end]
        assert all(part.start <= it.offset < part.end for part in parts for it in part.events)
