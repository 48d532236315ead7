"""Apply record rules (twinlog.transforms.rules) to records by column."""

from __future__ import annotations

import numpy as np

from twinlog.batches import varint
from twinlog.batches.columns import Columns
from twinlog.batches.routed import RoutedRecord
from twinlog.batches.transform.fields import Fields, with_values
from twinlog.errors import FormatError
from twinlog.transforms.rules import DROPPED, Applied, RefusedValueError, Routed

TRANSFORM_FAILED = "transform-failed"
"""Error code of a record that the rules or the function of its topic cannot be applied to."""


def apply_rules(records: Columns, apply: Applied) -> tuple[Columns, list[RoutedRecord]]:
    """Return what the rules leave of a partition's records, and those that they route; the same object if all stay.

    Raises FormatError, with the offset, for a record that the rules cannot be applied to (`transform-failed`).
    """
    fields = Fields.of(records)
    data = records.data
    kept = np.ones(len(records), bool)
    rows: list[int] = []
    values: list[bytes] = []
    routed: list[RoutedRecord] = []
    bounds = zip(
        *(it.tolist() for it in (fields.keys, fields.key_sizes, fields.values, fields.value_sizes)),
        strict=True,
    )
    for row, (key_at, key_size, at, size) in enumerate(bounds):
        key = None if key_size < 0 else bytes(data[key_at : key_at + key_size])
        value = None if size < 0 else bytes(data[at : at + size])
        try:
            made = apply(key, value)
        except RefusedValueError as error:
            raise failed(int(records.offsets[row]), str(error)) from None
        if made is DROPPED:
            kept[row] = False
            continue
        if isinstance(made, Routed):
            kept[row] = False
            routed.append(_routed(records, fields, row, key, made))
            continue
        if made is not value and made is not None:
            rows.append(row)
            values.append(made)
    if rows:
        records = with_values(records, fields, rows, values)
    return records if kept.all() else records.where(kept), routed


def _routed(records: Columns, fields: Fields, row: int, key: bytes | None, made: Routed) -> RoutedRecord:
    """Return a record as it is routed, with the value that the rules made."""
    start, end, length_at, value_at, size, headers_at = (
        int(it[row])
        for it in (
            records.starts,
            records.ends,
            fields.value_lengths,
            fields.values,
            fields.value_sizes,
            fields.headers,
        )
    )
    rest = bytes(records.data[start:end])
    if made.value is not None and made.value != rest[value_at - start : value_at - start + max(size, 0)]:
        before, behind = rest[: length_at - start], rest[headers_at - start :]
        rest = b"".join((before, varint.encode(len(made.value)), made.value, behind))
    return RoutedRecord(int(records.offsets[row]), int(records.timestamps[row]), key, rest, made.route)


def failed(offset: int, why: str) -> FormatError:
    """Return the error for a record that cannot be transformed."""
    return FormatError(f"record at upstream offset {offset}: {why}", code=TRANSFORM_FAILED, offset=offset)
