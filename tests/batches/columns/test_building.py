"""Batches that are built together are the records they are built of."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from test_columns import RECORDS, block_of

from batches import Rec, decode
from twinlog.batches.build import PIECES_AT_ONCE, Arena, build_batches, pieces
from twinlog.batches.columns import read_columns
from twinlog.batches.header import HEADER_BYTES, BatchHeader

GROUPS = st.lists(RECORDS, min_size=1, max_size=6)
CODECS = st.sampled_from([0, 1, 2, 3, 4])


@given(GROUPS, CODECS, st.sampled_from([1, 60, 400, 1 << 20]), st.data())
def test_however_records_are_cut_up_they_decode_to_the_same(
    groups: list[list[Rec]], codec: int, limit: int, data: st.DataObject
) -> None:
    """By kafka-python's decoder; with gaps, which the stretches leave out; no piece is larger than it may be."""
    block, begins = block_of(groups, codec)
    read = read_columns(block, begins)
    kept = data.draw(st.lists(st.booleans(), min_size=len(read), max_size=len(read)).filter(any))
    records = [record for group in groups for record in group]
    decoded: list[Rec] = []
    offsets: list[int] = []
    for group, firsts in pieces(read.where(np.array(kept)), limit):
        assert len(firsts) <= PIECES_AT_ONCE
        built = build_batches(group, firsts, codec, Arena())
        for batch, stretches in zip(built, group.stretches(firsts), strict=True):
            header = BatchHeader.read(batch)
            assert header.record_count == sum(length for _, length in stretches)
            assert codec or header.record_count == 1 or len(batch) <= limit + HEADER_BYTES
            decoded += decode(batch)
            offsets += [offset for first, length in stretches for offset in range(first, first + length)]
    assert [record for record, keep in zip(records, kept, strict=True) if keep] == decoded
    assert [7 + number for number, keep in enumerate(kept) if keep] == offsets


@given(GROUPS, CODECS)
def test_stretches_are_as_long_as_they_can_be(groups: list[list[Rec]], codec: int) -> None:
    """One for a whole piece without gaps, however its batches were cut."""
    read = read_columns(*block_of(groups, codec))
    assert [((7, len(read)),)] == [(*it,) for it in read.stretches(np.zeros(1, np.int64))]
