"""Turn records into an Arrow batch with the columns of Spark's Kafka source, and what a function made of it back.

Arrays are made from buffers: pyarrow imports pandas before it converts any Python list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from twinlog.batches import varint
from twinlog.batches.columns import Columns, Int64s, copy_pieces
from twinlog.batches.record import Headers, record_rest
from twinlog.batches.transform.fields import Fields, Pieces, put_together
from twinlog.batches.transform.header_columns import bad_record
from twinlog.errors import FormatError
from twinlog.kafka_types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


def schema() -> pa.Schema:
    """Return the columns that a function gets, and has to return."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema([
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("headers", pa.list_(header)),
    ])


def as_arrow(records: Columns, source: TopicPartition) -> pa.RecordBatch:
    """Return records as a batch.  Raises FormatError for a record that cannot be read."""
    import pyarrow as pa

    fields = Fields.of(records)
    count = len(records)
    topic = source.topic.encode()
    return pa.RecordBatch.from_arrays(
        [
            _binary(records, fields.keys, fields.key_sizes),
            _binary(records, fields.values, fields.value_sizes),
            pa.Array.from_buffers(
                pa.string(),
                count,
                [None, _ints(np.arange(count + 1) * len(topic)), pa.py_buffer(topic * count)],
            ),
            pa.Array.from_buffers(pa.int32(), count, [None, _ints(np.full(count, source.partition))]),
            _longs(pa.int64(), records.offsets),
            _longs(pa.timestamp("ms", tz="UTC"), records.timestamps),
            _headers(records, fields),
        ],
        schema=schema(),
    )


def with_contents(records: Columns, made: pa.RecordBatch, headers_stay: bool) -> Columns:
    """Return the records with keys, values and headers of a batch of as many rows, in schema()'s types."""
    if not len(records):
        return records
    if headers_stay:
        at = Fields.of(records).headers
        headers = Pieces(records.data, at, records.ends - at)
    else:
        headers = Pieces.joined([_encoded(it) for it in made.column("headers").to_pylist()])
    return put_together(records, _pieces(made.column("key")), _pieces(made.column("value")), headers)


def chosen(column: Any, rows: Int64s) -> Any:
    """Return the values of an Arrow array in these rows."""
    import pyarrow as pa

    return column.take(_longs(pa.int64(), rows))


def _longs(kind: Any, values: Int64s) -> Any:
    import pyarrow as pa

    whole = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(kind, len(whole), [None, pa.py_buffer(whole.tobytes())])


def _ints(values: Int64s) -> Any:
    import pyarrow as pa

    return pa.py_buffer(np.asarray(values, np.int32).tobytes())


def _binary(records: Columns, starts: Int64s, sizes: Int64s) -> Any:
    import pyarrow as pa

    null = sizes < 0
    lengths = np.maximum(sizes, 0)
    ends = np.cumsum(lengths)
    content = memoryview(bytearray(int(ends[-1])))
    copy_pieces(records.data, starts, starts + lengths, content, ends - lengths)
    valid = pa.py_buffer(np.packbits(~null, bitorder="little").tobytes()) if null.any() else None
    offsets = _ints(np.concatenate(([0], ends)))
    return pa.Array.from_buffers(pa.binary(), len(sizes), [valid, offsets, pa.py_buffer(bytes(content))])


def _headers(records: Columns, fields: Fields) -> Any:
    import pyarrow as pa

    counts: list[int] = []
    names: list[bytes] = []
    contents: list[bytes | None] = []
    for offset, start, end in zip(
        records.offsets.tolist(), fields.headers.tolist(), records.ends.tolist(), strict=True
    ):
        before = len(names)
        try:
            for name, content in _decoded(records.data[start:end]):
                names.append(name)
                contents.append(content)
        except (IndexError, UnicodeDecodeError, FormatError):
            raise bad_record(offset) from None
        counts.append(len(names) - before)
    kind = schema().field("headers").type
    keys = pa.Array.from_buffers(pa.string(), len(names), [None, *_joined(names)])
    valid = np.packbits([it is not None for it in contents], bitorder="little").tobytes() if names else b""
    values = pa.Array.from_buffers(
        pa.binary(), len(names), [pa.py_buffer(valid), *_joined([it or b"" for it in contents])]
    )
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(kind.value_type))
    offsets = _ints(np.concatenate(([0], np.cumsum(np.array(counts, np.int64)))))
    return pa.Array.from_buffers(kind, len(counts), [None, offsets], children=[pairs])


def _joined(parts: list[bytes]) -> tuple[Any, Any]:
    import pyarrow as pa

    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    return _ints(np.concatenate(([0], np.cumsum(sizes)))), pa.py_buffer(b"".join(parts))


def _decoded(block: memoryview) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the headers of a record.  Raises IndexError or FormatError for a block that holds something else.

    Raises UnicodeDecodeError for a name that is not UTF-8.
    """
    count, at = varint.decode(block, 0)
    for _ in range(count):
        size, at = varint.decode(block, at)
        name = bytes(block[at : at + size])
        name.decode()
        size, at = varint.decode(block, at + size)
        yield name, None if size < 0 else bytes(block[at : at + size])
        at += max(size, 0)
    if at != len(block):
        raise IndexError


def _encoded(headers: list[dict[str, Any]] | None) -> bytes:
    pairs: Headers = tuple((it["key"], it["value"]) for it in headers or ())
    return bytes(record_rest(None, None, pairs)[2:])  # behind a null key and a null value


def _pieces(column: Any) -> Pieces:
    """Return where the contents of a binary array lie."""
    valid, offsets, data = column.buffers()
    first, count = column.offset, len(column)
    ends = np.frombuffer(offsets, np.int32)[first : first + count + 1].astype(np.int64)
    null = None
    if column.null_count:
        bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")
        null = bits[first : first + count] == 0
    sizes = np.diff(ends)
    if null is not None:
        sizes = np.where(null, 0, sizes)
    return Pieces(memoryview(data) if data is not None else memoryview(b""), ends[:-1], sizes, null)
