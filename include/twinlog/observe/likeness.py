"""Say what differs between records, field by field, for many records at once.  Pure."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from twinlog.audit.comparison.record_fields import fields_of
from twinlog.audit.comparison.same_bytes import equal_rests
from twinlog.batches.columns import MAX_VARINT, Columns, Int64s, read_varints

FIELDS: Final = ("key", "value", "headers", "timestamp", "offset")
KEY, VALUE, HEADERS, TIMESTAMP, OFFSET = 1, 2, 4, 8, 16
"""Bits of a set of fields; the offset is compared where an engine keeps offsets."""

WEAKER: Final = (HEADERS, TIMESTAMP, VALUE, HEADERS | TIMESTAMP, HEADERS | VALUE, KEY)
"""What an engine may do to every record; records are then told apart by the other fields, the first that succeeds."""

NULL: Final = b"\x01"
"""Null as it is encoded: the length -1."""

_FIRST_LOOKS: Final = (16, 512)


def names(fields: int) -> tuple[str, ...]:
    """Return the names of a set of fields."""
    return tuple(name for bit, name in enumerate(FIELDS) if fields >> bit & 1)


def leading(ours: Columns, theirs: Columns, ignored: int) -> Any:
    """Return, for each record from the first on that differs at most in `ignored` fields, what differs."""
    most, found = min(len(ours), len(theirs)), [np.empty(0, np.int64)]
    start = 0
    for end in (*(look for look in _FIRST_LOOKS if look < most), most):
        rows = slice(start, end)
        differs = differences(ours.where(rows), theirs.where(rows), in_full=bool(ignored & ~TIMESTAMP))
        wrong = np.flatnonzero(differs & ~ignored)
        found.append(differs[: wrong[0]] if len(wrong) else differs)
        if len(wrong):
            break
        start = end
    return np.concatenate(found)


def differences(ours: Columns, theirs: Columns, *, in_full: bool = True) -> Any:
    """Return what differs between records, row by row; a source's record without a timestamp may get any.

    If not `in_full`, key, value and headers are compared as one, and differ together.
    """
    timed = (ours.timestamps == theirs.timestamps) | (ours.timestamps < 0)
    found = np.where(timed, 0, TIMESTAMP)
    other = np.flatnonzero(~_equal(ours, theirs))
    if not in_full:
        found[other] |= KEY | VALUE | HEADERS
    elif len(other):
        left, right = _parts(ours.where(other)), _parts(theirs.where(other))
        for bit, (one, another) in enumerate(zip(left, right, strict=True)):
            found[other] |= np.where(_equal(one, another), 0, 1 << bit)
    return found


def prints(columns: Columns, ignored: int) -> Int64s:
    """Return a fingerprint of each record without the `ignored` fields, 0 if too little is left to tell it by."""
    data, parts = columns.data, _parts(columns)
    kept = [part for bit, part in enumerate(parts) if not ignored >> bit & 1]
    if not ignored & (KEY | VALUE | HEADERS):
        kept = [columns]
    times = [0] * len(columns) if ignored & TIMESTAMP else columns.timestamps.tolist()
    slices = [zip(part.starts.tolist(), part.ends.tolist(), strict=True) for part in kept]
    rows = zip(times, *slices, strict=True)
    made = np.array([hash((time, *(bytes(data[a:b]) for a, b in row))) for time, *row in rows], np.int64)
    if ignored & VALUE:
        made[parts[0].sizes == 1] = 0  # a null or empty key, and the value does not count
    return made


def keys(columns: Columns) -> list[bytes]:
    """Return the key of each record with the length before it; NULL for null."""
    key, _, _ = _parts(columns)
    return [bytes(columns.data[a:b]) for a, b in zip(key.starts.tolist(), key.ends.tolist(), strict=True)]


def deletions(columns: Columns) -> list[bool]:
    """Say of each record whether its value is null."""
    starts = _parts(columns)[1].starts
    return [columns.data[start] == NULL[0] for start in starts.tolist()]


def traits(raw: tuple[int, bytes]) -> set[tuple[str, object]]:
    """Return what a record may share with its changed copy: key, value and timestamp."""
    fields = fields_of(raw[1])
    found: set[tuple[str, object]] = {("timestamp", raw[0])}
    if fields.key is not None:
        found.add(("key", fields.key))
    if fields.value:
        found.add(("value", fields.value))
    return found


def alike(ours: tuple[int, bytes], theirs: tuple[int, bytes], *, strictly: bool) -> int | None:
    """Return what differs between two records if one may be a changed copy of the other, else None.

    They have to share a trait; `strictly`, key and timestamp.
    """
    shared = {name for name, _ in traits(ours) & traits(theirs)}
    if not shared or (strictly and not shared >= {"key", "timestamp"}):
        return None
    left, right = fields_of(ours[1]), fields_of(theirs[1])
    parts = (left.key, right.key), (left.value, right.value), (left.headers, right.headers)
    differs = sum(1 << bit for bit, (one, another) in enumerate(parts) if one != another)
    return differs | (0 if "timestamp" in shared else TIMESTAMP)


def _equal(ours: Columns, theirs: Columns) -> Any:
    same = ours.sizes == theirs.sizes
    chosen = np.flatnonzero(same)
    same[chosen] = equal_rests(ours.where(chosen), theirs.where(chosen))
    return same


def _parts(columns: Columns) -> tuple[Columns, Columns, Columns]:
    """Return key, value and headers of each record, with the lengths before them."""
    data = np.frombuffer(columns.data, np.uint8)
    edges = [columns.starts]
    for _ in range(2):
        size, at = read_varints(data, edges[-1], MAX_VARINT)
        edges.append(np.minimum(at + np.maximum(size, 0), columns.ends - 1))
    edges.append(columns.ends)
    key, value, headers = (replace(columns, starts=a, ends=b) for a, b in pairwise(edges))
    return key, value, headers
