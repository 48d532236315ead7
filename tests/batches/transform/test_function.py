"""A user's function on encoded records: its batches, its contract, and how it is told from a bad one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batches import Rec, decode, encode
from twinlog.batches.columns import Columns, read_columns
from twinlog.batches.cutter import Cutter
from twinlog.batches.header import BatchHeader
from twinlog.batches.transform import function as module
from twinlog.batches.transform.apply import Transform
from twinlog.batches.transform.arrow import as_arrow
from twinlog.errors import FormatError
from twinlog.kafka_types import TopicPartition
from twinlog.transforms.chain import Chain
from twinlog.transforms.function import Function

SOURCE = TopicPartition("orders", 3)
contents = st.none() | st.binary(max_size=60)
recs = st.builds(
    Rec,
    contents,
    contents,
    st.integers(0, 5000),
    st.lists(st.tuples(st.sampled_from(["a", "ü", ""]), contents), max_size=3).map(tuple),
)


def transform(monkeypatch: pytest.MonkeyPatch, function: Callable[[Any], Any]) -> Transform:
    """Return a chain with this function, which is loaded from nowhere."""
    monkeypatch.setattr(module, "load_function", lambda _: function)
    return Transform(Chain(function=Function("mine.f", "digest")), SOURCE)


def columns(records: list[Rec], base_offset: int = 7) -> Columns:
    """Return records as they are read from one batch."""
    return read_columns(memoryview(bytes(encode(records, base_offset=base_offset))), [0])


def replaced(batch: pa.RecordBatch, name: str, column: Any) -> pa.RecordBatch:
    """Return a batch with another column."""
    return batch.set_column(batch.schema.get_field_index(name), name, column)


@given(st.lists(recs, min_size=1, max_size=12))
def test_a_batch_has_the_columns_of_sparks_kafka_source(records: list[Rec]) -> None:
    """Names, types and contents; offsets and partition are the source's."""
    batch = as_arrow(columns(records), SOURCE)
    batch.validate(full=True)
    rows = batch.to_pylist()
    assert [(it.key, it.value) for it in records] == [(row["key"], row["value"]) for row in rows]
    assert [[*it.headers] for it in records] == [
        [(pair["key"], pair["value"]) for pair in row["headers"]] for row in rows
    ]
    assert {("orders", 3)} == {(row["topic"], row["partition"]) for row in rows}
    assert [*range(7, 7 + len(records))] == [row["offset"] for row in rows]
    assert [it.timestamp for it in records] == pc.cast(batch.column("timestamp"), pa.int64()).to_pylist()


@given(st.lists(recs, min_size=1, max_size=12), st.sampled_from([2, 5]))
def test_what_a_function_returns_is_what_goes_out(records: list[Rec], split: int) -> None:
    """Law: key and value in each other's places, headers turned around, every third record dropped; by any batching."""

    def turn(batch: pa.RecordBatch) -> pa.RecordBatch:
        made = replaced(batch, "key", batch.column("value"))
        made = replaced(made, "value", batch.column("key"))
        turned = pa.array(
            [row[::-1] for row in batch.column("headers").to_pylist()], batch.schema.field("headers").type
        )
        return replaced(made, "headers", turned).filter(
            pc.not_equal(pc.bit_wise_and(batch.column("offset"), 3), 1)
        )

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "MOST", split)
        applied = transform(patched, turn)
        cutter = Cutter(1 << 60, 1 << 20)
        cutter.transform = applied
        block = memoryview(bytes(encode(records, base_offset=7)))
        cut = cutter.cut(block, 7, None)
        audited = transform(patched, turn).batch(BatchHeader.read(block), block)
    expected = [
        (offset, Rec(value=it.key, key=it.value, timestamp=it.timestamp, headers=it.headers[::-1]))
        for offset, it in enumerate(records, 7)
        if offset & 3 != 1
    ]
    sent = [record for out in cut.outgoing for record in decode(out.buffer)]
    offsets = [first + n for out in cut.outgoing for first, length in out.stretches for n in range(length)]
    assert (expected, None) == (list(zip(offsets, sent, strict=True)), cut.poison)
    if audited is None:
        assert expected == list(enumerate(records, 7))
    else:
        assert [it for _, it in expected] == [it for each in audited for it in decode(each)]


def test_a_function_that_changes_nothing_leaves_records_as_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """The very same object, also if it was made anew: through pandas types come back as they can."""
    records = columns([Rec(b"k", None), Rec(None, b"v")])
    assert records is transform(monkeypatch, lambda batch: batch).columns(records)
    assert records is transform(monkeypatch, lambda batch: pa.Table.from_batches([batch])).columns(records)

    def by_pandas(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pandas(batch.to_pandas(), preserve_index=False)

    assert records is transform(monkeypatch, by_pandas).columns(records)


def constant(name: str, value: Any) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return a function that puts one value into a column."""
    return lambda batch: replaced(batch, name, pa.array([value] * len(batch)))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda _: None, "returns NoneType, not a pyarrow.RecordBatch"),
        (lambda batch: batch.drop_columns(["headers"]), "returns no column headers"),
        (lambda batch: batch.append_column("x", batch.column("key")), "returns a column x"),
        (constant("value", 1), "returns the column value as int64, not binary"),
        (constant("partition", 4), "changes the column partition"),
        (constant("topic", "x"), "changes the column topic"),
        (constant("topic", None), "changes the column topic"),
        (constant("timestamp", 1), "changes the column timestamp"),
        (constant("offset", 7), "changes the column offset"),
        (constant("offset", None), "changes the column offset"),
        (lambda batch: batch.take(pa.array([1, 0])), "changes the column offset"),
        (lambda batch: batch.take(pa.array([0, 0, 1])), "makes 3 records of 2"),
        (constant("headers", [{"key": None, "value": b""}]), "returns a header without a key"),
        (lambda batch: batch.column("nothing"), "raises KeyError"),
    ],
)
def test_a_function_that_breaks_its_contract_stops_the_partition(
    function: Callable[[Any], Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One clear line, and nothing goes out."""
    cutter = Cutter(1 << 60, 1 << 20)
    cutter.transform = transform(monkeypatch, function)
    cut = cutter.cut(memoryview(bytes(encode([Rec(b"1"), Rec(b"2")], base_offset=7))), 7, None)
    assert ([], 7) == (cut.outgoing, cut.next_upstream)
    assert cut.poison is not None
    assert ("transform-failed", True) == (cut.poison.code, says in cut.poison.reason), cut.poison.reason


def test_the_record_at_fault_is_named_and_its_contents_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by halves; the text of the exception may hold what the record holds."""

    def picky(batch: pa.RecordBatch) -> pa.RecordBatch:
        [int(value) for value in batch.column("value").to_pylist()]
        return batch

    records = columns(
        [Rec(value=b"%d" % n) for n in range(40)] + [Rec(value=b"secret")] + [Rec(value=b"1")] * 9
    )
    with pytest.raises(FormatError) as raised:
        transform(monkeypatch, picky).columns(records)
    line = picky.__code__.co_firstlineno + 1
    expected = f"record at upstream offset 47: mine.f raises ValueError (line {line} of {__name__})"
    assert (expected, 47) == (raised.value.message, raised.value.data["offset"])


def test_a_function_that_is_not_deterministic_is_found_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any of its records goes out."""
    function = lambda batch: replaced(batch, "value", pa.array([random.randbytes(8)] * len(batch)))  # noqa: E731
    with pytest.raises(FormatError, match=r"offset 7: mine\.f is not deterministic"):
        transform(monkeypatch, function).columns(columns([Rec(), Rec()]))


def test_a_function_that_looks_at_the_records_beside_is_found_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Copy and audit see records in other batches."""
    function = lambda batch: replaced(batch, "value", pa.array([b"%d" % len(batch)] * len(batch)))  # noqa: E731
    with pytest.raises(FormatError, match="makes two things of this record, by the records beside it"):
        transform(monkeypatch, function).columns(columns([Rec(), Rec()]))


def test_records_outside_of_the_range_are_not_given_to_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not copied, so they cannot stop what is."""
    seen: list[int] = []

    def note(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.extend(batch.column("offset").to_pylist())
        return replaced(batch, "value", batch.column("key"))

    block = memoryview(bytes(encode([Rec(b"%d" % n) for n in range(4)], base_offset=7)))
    cutter = Cutter(10, 1 << 20)
    cutter.transform = transform(monkeypatch, note)
    cutter.cut(block, 8, None)
    transform(monkeypatch, note).batch(BatchHeader.read(block), block, 8, 10)
    assert {8, 9} == set(seen)
