"""Compare the records of many batches at once, column by column: what was merged, split or rewritten.  Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinlog.errors import FormatError
from twinlog.offsets.offset_map import OffsetMap
from twinlog.relay.columns import Columns, read_columns
from twinlog.relay.partition_reader import Batch


def equal_records(ours: Sequence[Batch], theirs: Sequence[Batch], offset_map: OffsetMap) -> bool:
    """Whether both sides hold equal records, one by one, each copy where the map puts it.

    False says nothing more than that they must be looked at one by one.
    """
    try:
        left, right = _columns(ours), _columns(theirs)
    except FormatError:
        return False
    return (
        len(left) == len(right)
        and bool((left.timestamps == right.timestamps).all())
        and bool((left.sizes == right.sizes).all())
        and _in_place(left, right, offset_map)
        and _rests(left) == _rests(right)
    )


def _columns(batches: Sequence[Batch]) -> Columns:
    """Read batches of one codec."""
    block, begins = bytearray(), []
    for batch in batches:
        begins.append(len(block))
        block += batch.data
    return read_columns(memoryview(block), begins)


def _in_place(ours: Columns, theirs: Columns, offset_map: OffsetMap) -> bool:
    run = np.searchsorted(offset_map.upstream, ours.offsets, side="right") - 1
    if (run < 0).any():
        return False
    into = ours.offsets - offset_map.upstream[run]
    inside = into < offset_map.length[run]
    return bool((inside & (offset_map.downstream[run] + into == theirs.offsets)).all())


def _rests(records: Columns) -> bytes:
    bounds = zip(records.starts.tolist(), records.ends.tolist(), strict=True)
    return b"".join([records.data[start:end] for start, end in bounds])
