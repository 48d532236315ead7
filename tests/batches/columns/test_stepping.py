"""Stepping through all batches at once finds the records that columns one by one finds."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from twinlog.batches import columns
from twinlog.batches.varint import encode

LENGTHS = st.lists(st.sampled_from([1, 2, 62, 63, 64, 65, 500, 8191, 8192]), min_size=1, max_size=5)
"""Lengths of records on both sides of where their varint takes another byte."""


def block_of(batches: list[list[int]]) -> tuple[bytearray, list[int], list[int]]:
    """Records of these lengths, batches behind one another; where each batch begins and ends."""
    block, starts, ends = bytearray(), [], []
    for lengths in batches:
        block += b"header"
        starts.append(len(block))
        for length in lengths:
            block += encode(length) + bytes(length)
        ends.append(len(block))
    return block, starts, ends


def found(block: bytearray, starts: list[int], ends: list[int], counts: list[int], abreast: int) -> Any:
    arrays = (np.array(it, np.int64) for it in (starts, ends, counts))
    with mock.patch.object(columns, "_ABREAST", abreast):
        try:
            return columns.record_starts(memoryview(block), np.frombuffer(block, np.uint8), *arrays).tolist()
        except (IndexError, OverflowError):
            return "refused"


@given(st.lists(LENGTHS, min_size=1, max_size=8))
def test_both_ways_find_every_record(batches: list[list[int]]) -> None:
    """Whatever their number and their lengths."""
    block, starts, ends = block_of(batches)
    counts = [len(lengths) for lengths in batches]
    expected = [
        start + sum(len(encode(it)) + it for it in lengths[:index])
        for start, lengths in zip(starts, batches, strict=True)
        for index in range(len(lengths))
    ]
    assert expected == found(block, starts, ends, counts, abreast=0)
    assert expected == found(block, starts, ends, counts, abreast=1 << 30)


@given(st.lists(LENGTHS, min_size=2, max_size=4), st.data())
def test_of_damaged_lengths_neither_way_reads_beyond_the_block(
    batches: list[list[int]], data: st.DataObject
) -> None:
    """Where one by one finds records, abreast finds the same; else it refuses, or at most a batch's last leads out.

    One by one asks how long the last record of a batch is, abreast does not: it is the reader of columns that says what
    such a record is worth.
    """
    block, starts, ends = block_of(batches)
    counts = [len(lengths) + data.draw(st.integers(0, 1)) for lengths in batches]
    for _ in range(data.draw(st.integers(1, 3))):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(
            st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])
        )
    one_by_one = found(block, starts, ends, counts, abreast=1 << 30)
    abreast = found(block, starts, ends, counts, abreast=0)
    if one_by_one != "refused":
        assert one_by_one == abreast
        assert [] == [it for it in one_by_one if not 0 <= it < len(block)]
    elif abreast != "refused":
        lasts = {sum(counts[: number + 1]) - 1 for number in range(len(counts))}
        outside = [number for number, it in enumerate(abreast) if not 0 <= it < len(block)]
        assert set(outside) <= lasts
