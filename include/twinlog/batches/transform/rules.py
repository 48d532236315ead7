"""Apply record rules (twinlog.transforms.rules) to records by column."""

from __future__ import annotations

import numpy as np

from twinlog.batches.columns import Columns
from twinlog.batches.transform.fields import Fields, with_values
from twinlog.errors import FormatError
from twinlog.transforms.rules import DROPPED, Applied, RefusedValueError

TRANSFORM_FAILED = "transform-failed"
"""Error code of a record that the rules of its topic cannot be applied to."""


def apply_rules(records: Columns, apply: Applied) -> Columns:
    """Return what the rules leave of a partition's records; the same object if all stay.

    Raises FormatError, with the offset, for a record that the rules cannot be applied to (`transform-failed`).
    """
    fields = Fields.of(records)
    data = records.data
    kept = np.ones(len(records), bool)
    rows: list[int] = []
    values: list[bytes] = []
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
        if made is not value and made is not None:
            rows.append(row)
            values.append(made)
    if rows:
        records = with_values(records, fields, rows, values)
    return records if kept.all() else records.where(kept)


def failed(offset: int, why: str) -> FormatError:
    """Return the error for a record that cannot be transformed."""
    return FormatError(f"record at upstream offset {offset}: {why}", code=TRANSFORM_FAILED, offset=offset)
