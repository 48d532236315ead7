"""Routed records as they are written: their own bytes, their origin behind them, in batches that fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_cutter import RECORD

from batches import Rec, decode
from twinlog.batches.record import key_value_headers, record_rest
from twinlog.batches.routed import ORIGIN, Origin, RoutedRecord, batches, origin_of, with_origin
from twinlog.errors import FormatError
from twinlog.transforms.routes import Partitioner, Route

ROUTE = Route("alerts", Partitioner.KEY)
ORIGINS = st.builds(
    Origin,
    st.text(max_size=5),
    st.text(max_size=5),
    st.text(max_size=5),
    st.integers(0, 99),
    st.integers(0, 1 << 62),
)


def routed(record: Rec, offset: int) -> tuple[RoutedRecord, Origin]:
    """Return a record as a rule routes it, with its origin."""
    rest = bytes(record_rest(record.key, record.value, record.headers))
    return RoutedRecord(offset, record.timestamp, record.key, rest, ROUTE), Origin("A", "t", "id", 1, offset)


@given(RECORD, ORIGINS)
def test_an_origin_is_read_as_it_was_written(record: Rec, origin: Origin) -> None:
    """Law: behind the record's own headers, whatever these are; key, value and headers stay."""
    rest = with_origin(bytes(record_rest(record.key, record.value, record.headers)), origin)
    key, value, headers = key_value_headers(memoryview(rest))
    assert (record.key, record.value, record.headers) == (key, value, headers[: -len(ORIGIN)])
    assert origin == origin_of([(name.encode(), content) for name, content in headers])


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ((b"twinlog.offset", b"1"),),
        tuple((name.encode(), b"x") for name in ORIGIN),
        tuple((name.encode(), b"1") for name in reversed(ORIGIN)),
        (*((name.encode(), b"1") for name in ORIGIN), (b"more", b"")),
    ],
)
def test_other_headers_tell_no_origin(headers: tuple[tuple[bytes, bytes | None], ...]) -> None:
    """Not all of them, others behind them, another order, no numbers."""
    assert origin_of(headers) is None


@given(st.lists(RECORD, max_size=40), st.integers(200, 3000), st.sampled_from([0, 1, 3, 4]))
def test_batches_hold_all_records_in_order_and_fit(records: list[Rec], limit: int, codec: int) -> None:
    """Law: each once, with its timestamp; a batch names the upstream offsets of its records."""
    pairs = [routed(record, 5 * n) for n, record in enumerate(records)]
    made = [*batches(pairs, limit, codec)]
    found = [record for it in made for record in decode(it.buffer)]
    assert [(it.key, it.value, it.timestamp) for it in records] == [
        (it.key, it.value, it.timestamp) for it in found
    ]
    assert [it.offset for it, _ in pairs] == [first for it in made for first, _ in it.stretches]
    assert all(len(it.buffer) <= limit for it in made)


def test_a_record_that_does_not_fit_is_named() -> None:
    """With its upstream offset; those before it were built."""
    making = batches([routed(Rec(b"a"), 3), routed(Rec(bytes(500)), 8), routed(Rec(b"b"), 9)], 400, 0)
    assert [(3, 1)] == [*next(making).stretches]
    with pytest.raises(FormatError, match=r"more than max\.message\.bytes=400 there") as refused:
        next(making)
    assert ("poison-record", 8) == (refused.value.code, refused.value.data["offset"])
