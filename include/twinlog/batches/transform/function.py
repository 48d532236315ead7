"""Apply a user's function (twinlog.transforms.function) to records as Arrow batches, and hold it to its contract.

The function may drop records and change keys, values and headers.  What it returns is checked in full: the columns,
that topic, partition, offset and timestamp stay with their records, and the order.  With the first records it is also
tried whether it makes the same of a record each time, and whatever records lie beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from twinlog.batches.columns import Columns
from twinlog.batches.transform.arrow import as_arrow, chosen, schema, with_contents
from twinlog.batches.transform.rules import failed
from twinlog.kafka_types import TopicPartition
from twinlog.transforms.function import Function, NoFunctionError, load_function

if TYPE_CHECKING:
    import pyarrow as pa

TRIED: Final = 32
"""The most records of the first batch that are given to the function again."""

MOST: Final = 16_384
"""The most records that the function gets at once."""

_STAY: Final = ("topic", "partition", "offset", "timestamp")
_MADE: Final = ("key", "value", "headers")


class _BrokenError(Exception):
    """Report that the function breaks its contract; the text says how."""


@dataclass(slots=True)
class FunctionOnRecords:
    """A function as it is applied to the records of one partition.  Single-threaded."""

    function: Function
    source: TopicPartition
    _call: Callable[[Any], Any] | None = field(default=None)

    def columns(self, records: Columns) -> Columns:
        """Return what the function makes of records; the same object if it changes nothing.

        Raises FormatError (`transform-failed`), with the offset of the first record at fault, if it cannot be loaded,
        raises an exception or breaks its contract.
        """
        if not len(records):
            return records
        if self._call is None:
            self._call = self._tried(records)
        parts = [records.where(slice(at, at + MOST)) for at in range(0, len(records), MOST)]
        made = [self._made(part) for part in parts]
        if all(new is old for new, old in zip(made, parts, strict=True)):
            return records
        return made[0] if len(made) == 1 else _joined(made, records.batches)

    def _made(self, records: Columns) -> Columns:
        batch = as_arrow(records, self.source)
        try:
            made = self._applied(batch)
        except _BrokenError as error:
            raise failed(self._first_at_fault(batch), f"{self.function.name} {error}") from None
        if made is batch:
            return records
        rows = _rows(batch, made)
        kept = records if len(rows) == len(records) else records.where(rows)
        headers = batch.column("headers")
        same = made.column("headers").equals(headers if kept is records else chosen(headers, rows))
        return with_contents(kept, made, same)

    def _applied(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return what the function makes of a batch, checked; the same object if it is equal."""
        assert self._call is not None
        return checked(batch, _called(self._call, batch))

    def _first_at_fault(self, batch: pa.RecordBatch) -> int:
        """Return the offset of the first record on which the function fails, by halves; of the first one if on none."""
        while len(batch) > 1:
            half = len(batch) // 2
            parts = batch.slice(0, half), batch.slice(half)
            broken = [part for part in parts if self._breaks(part)]
            if not broken:
                break
            batch = broken[0]
        return int(batch.column("offset")[0].as_py())

    def _breaks(self, batch: pa.RecordBatch) -> bool:
        try:
            self._applied(batch)
        except _BrokenError:
            return True
        return False

    def _tried(self, records: Columns) -> Callable[[Any], Any]:
        """Load the function and apply it twice to the first records, then to each half of them."""
        first = int(records.offsets[0])
        try:
            call = load_function(self.function)
        except NoFunctionError as error:
            raise failed(first, f"{error}; {error.hint}" if error.hint else str(error)) from None
        sample = as_arrow(records.where(slice(0, TRIED)), self.source)
        half = len(sample) // 2
        try:
            once, again = (_contents([checked(sample, _called(call, sample))]) for _ in range(2))
            apart = [part for part in (sample.slice(0, half), sample.slice(half)) if len(part)]
            in_halves = _contents([checked(part, _called(call, part)) for part in apart])
        except _BrokenError:
            return call  # who applies it to all of them finds the record at fault
        for other, why in (
            (again, "is not deterministic: applied twice, it makes two things of this record"),
            (in_halves, "makes two things of this record, by the records beside it"),
        ):
            if once != other:
                raise failed(_first_other(once, other), f"{self.function.name} {why}")
        return call


def _called(call: Callable[[Any], Any], batch: pa.RecordBatch) -> Any:
    try:
        return call(batch)
    except Exception as error:  # noqa: BLE001  a user's code; its text may hold contents of records, so it is not shown
        raise _BrokenError(f"raises {type(error).__name__}{_line(error)}") from None


def _line(error: Exception) -> str:
    """Return the line of the user's module that raised, or called what raised."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_globals.get("__name__", "").partition(".")[0] not in {
            "pyarrow",
            "pandas",
            "numpy",
            "twinlog",
        }:
            line = f" (line {trace.tb_lineno} of {frame.f_globals.get('__name__')})"
        trace = trace.tb_next
    return line


def checked(batch: pa.RecordBatch, made: Any) -> pa.RecordBatch:
    """Return what a function made of a batch in schema()'s types; the batch itself if it is equal.

    Raises _BrokenError if it is no such batch, or if records are not those of `batch` in their order.
    """
    import pyarrow as pa

    if isinstance(made, pa.Table):
        whole = made.combine_chunks().to_batches()
        made = whole[0] if whole else pa.RecordBatch.from_pylist([], schema=made.schema)
    if not isinstance(made, pa.RecordBatch):
        raise _BrokenError(f"returns {type(made).__name__}, not a pyarrow.RecordBatch")
    names = made.schema.names
    missing, more = (
        [it for it in schema().names if it not in names],
        [it for it in names if it not in schema().names],
    )
    if missing or more or len(names) != len(set(names)):
        wrong = [*(f"no column {it}" for it in missing), *(f"a column {it}" for it in more)] or [
            "a column twice"
        ]
        raise _BrokenError(f"returns {', '.join(wrong)}")
    made = pa.RecordBatch.from_arrays([_cast(made, it) for it in schema()], schema=schema())
    if len(made) > len(batch):
        raise _BrokenError(f"makes {len(made)} records of {len(batch)}")
    if made.equals(batch):
        return batch
    rows = _rows(batch, made)
    for name in _STAY:
        column = made.column(name)
        before = batch.column(name) if len(rows) == len(batch) else chosen(batch.column(name), rows)
        if column.null_count or not column.equals(before):
            raise _BrokenError(f"changes the column {name}")
    _check_headers(made.column("headers"))
    return made


def _cast(made: pa.RecordBatch, wanted: pa.Field) -> Any:
    import pyarrow as pa

    column = made.column(wanted.name)
    if column.type == wanted.type:
        return column
    try:
        return column.cast(wanted.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise _BrokenError(f"returns the column {wanted.name} as {column.type}, not {wanted.type}") from None


def _rows(batch: pa.RecordBatch, made: pa.RecordBatch) -> Any:
    """Return the rows of `batch` that the rows of `made` stand for, by their offsets.

    Raises _BrokenError if an offset is not in the batch, occurs twice, or is out of order.
    """
    before, after = _numbers(batch.column("offset")), _numbers(made.column("offset"))
    rows = np.minimum(np.searchsorted(before, after), len(before) - 1)
    if len(after) and ((before[rows] != after).any() or (np.diff(rows) <= 0).any()):
        raise _BrokenError(
            "changes the column offset: records may be dropped, but not added, doubled or moved"
        )
    return rows


def _numbers(column: Any) -> Any:
    if column.null_count:
        raise _BrokenError("changes the column offset: one is null")
    if not len(column):
        return np.empty(0, np.int64)
    return np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column)]


def _check_headers(column: Any) -> None:
    pairs = column.flatten()
    if pairs.null_count or (len(pairs) and pairs.field("key").null_count):
        raise _BrokenError("returns a header without a key")


def _contents(batches: Iterable[pa.RecordBatch]) -> dict[int, tuple[Any, ...]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return {row["offset"]: tuple(row[name] for name in _MADE) for row in rows}


def _first_other(left: dict[int, Any], right: dict[int, Any]) -> int:
    absent = object()
    return min(it for it in left.keys() | right.keys() if left.get(it, absent) != right.get(it, absent))


def _joined(parts: list[Columns], batches: int) -> Columns:
    """Join records that lie in buffers of their own."""
    shifts = np.cumsum([0, *(len(part.data) for part in parts[:-1])])
    return Columns(
        memoryview(b"".join(part.data for part in parts)),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.timestamps for part in parts]),
        np.concatenate([part.starts + shift for part, shift in zip(parts, shifts, strict=True)]),
        np.concatenate([part.ends + shift for part, shift in zip(parts, shifts, strict=True)]),
        batches,
    )
