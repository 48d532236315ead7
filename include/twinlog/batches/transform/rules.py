"""Apply record rules (twinlog.transforms.rules) to records by column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinlog.batches import varint
from twinlog.batches.columns import Columns
from twinlog.batches.record import with_headers
from twinlog.batches.routed import RoutedRecord
from twinlog.batches.transform.fields import Fields, with_rests, with_values
from twinlog.batches.transform.header_columns import bad_record
from twinlog.errors import FormatError
from twinlog.kafka_types import TopicPartition
from twinlog.transforms.commitments import HEADER, Commitment, commitments
from twinlog.transforms.rules import DROPPED, Applied, Hidden, RefusedValueError, Routed

TRANSFORM_FAILED = "transform-failed"
"""Error code of a record that the rules or the function of its topic cannot be applied to."""

_NAME = HEADER.decode()


def apply_rules(
    records: Columns, apply: Applied, place: TopicPartition
) -> tuple[Columns, list[RoutedRecord]]:
    """Return what the rules leave of a partition's records, and those that they route; the same object if all stay.

    The last headers of a record are commitments to what rules hide of it.  Raises FormatError, with the offset, for a
    record that the rules cannot be applied to (`transform-failed`), or whose headers cannot be counted.
    """
    fields = Fields.of(records)
    data = records.data
    kept = np.ones(len(records), bool)
    rows: list[int] = []
    values: list[bytes] = []
    committed: list[tuple[int, list[Commitment]]] = []
    routed: list[RoutedRecord] = []
    bounds = zip(
        *(it.tolist() for it in (fields.keys, fields.key_sizes, fields.values, fields.value_sizes)),
        strict=True,
    )
    for row, (key_at, key_size, at, size) in enumerate(bounds):
        key = None if key_size < 0 else bytes(data[key_at : key_at + key_size])
        value = None if size < 0 else bytes(data[at : at + size])
        hidden: Hidden = []
        try:
            made = apply(key, value, hidden)
        except RefusedValueError as error:
            raise failed(int(records.offsets[row]), str(error)) from None
        if made is DROPPED:
            kept[row] = False
            continue
        told = commitments(hidden, place, int(records.offsets[row]), value) if hidden and value else []
        if isinstance(made, Routed):
            kept[row] = False
            routed.append(_routed(records, fields, row, key, made, told))
            continue
        if told:
            committed.append((row, told))
        if made is not value and made is not None:
            rows.append(row)
            values.append(made)
    if rows:
        records = with_values(records, fields, rows, values)
    if committed:
        records = _with_commitments(records, committed)
    return records if kept.all() else records.where(kept), routed


def _routed(
    records: Columns,
    fields: Fields,
    row: int,
    key: bytes | None,
    made: Routed,
    told: Sequence[Commitment],
) -> RoutedRecord:
    """Return a record as it is routed, with the value that the rules made and their commitments."""
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
    offset = int(records.offsets[row])
    rest = _committed(rest, told, offset) if told else rest
    return RoutedRecord(offset, int(records.timestamps[row]), key, rest, made.route)


def _with_commitments(records: Columns, committed: Sequence[tuple[int, list[Commitment]]]) -> Columns:
    changed = []
    for row, told in committed:
        rest = records.data[int(records.starts[row]) : int(records.ends[row])]
        changed.append((row, _committed(rest, told, int(records.offsets[row]))))
    return with_rests(records, changed)


def _committed(rest: memoryview | bytes, told: Sequence[Commitment], offset: int) -> bytes:
    try:
        return with_headers(rest, tuple((_NAME, str(it).encode()) for it in told))
    except FormatError:
        raise bad_record(offset) from None


def failed(offset: int, why: str) -> FormatError:
    """Return the error for a record that cannot be transformed."""
    return FormatError(f"record at upstream offset {offset}: {why}", code=TRANSFORM_FAILED, offset=offset)
