"""Add the headers that commit to what rules hide (twinlog.transforms.commitments) to records by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twinlog.batches.columns import Columns
from twinlog.batches.record import with_headers
from twinlog.batches.routed import RoutedRecord
from twinlog.batches.transform.fields import Fields, with_rests
from twinlog.batches.transform.header_columns import bad_record
from twinlog.errors import FormatError
from twinlog.transforms.commitments import HEADER, Commitment, Committing

_NAME = HEADER.decode()


def with_commitments(
    left: Columns, routed: Sequence[RoutedRecord], before: Columns, committing: Committing
) -> tuple[Columns, list[RoutedRecord]]:
    """Return what the rules left and routed, with commitments to what the records held before, as their last headers.

    Of a routed record only rules up to the one that routes it commit.  Raises FormatError for a record whose headers
    cannot be counted.
    """
    earlier = Fields.of(before)

    def rows(offsets: Any) -> list[int]:
        return list(np.asarray(np.searchsorted(before.offsets, offsets)).tolist())

    def of(row: int, offset: int, up_to: str | None = None) -> list[Commitment]:
        at, size = int(earlier.values[row]), int(earlier.value_sizes[row])
        return committing.of(offset, bytes(before.data[at : at + size]), up_to) if size >= 0 else []

    changed: list[tuple[int, bytes]] = []
    for index, (row, offset) in enumerate(zip(rows(left.offsets), left.offsets.tolist(), strict=True)):
        if made := of(row, offset):
            rest = left.data[int(left.starts[index]) : int(left.ends[index])]
            changed.append((index, _committed(rest, made, offset)))
    with_more = [
        it._replace(rest=_committed(it.rest, made, it.offset))
        if (made := of(row, it.offset, it.rule))
        else it
        for row, it in zip(rows([it.offset for it in routed]), routed, strict=True)
    ]
    return with_rests(left, changed) if changed else left, with_more


def _committed(rest: memoryview | bytes, made: Sequence[Commitment], offset: int) -> bytes:
    try:
        return with_headers(rest, tuple((_NAME, str(it).encode()) for it in made))
    except FormatError:
        raise bad_record(offset) from None
