"""A few batches merged record by record are what columns would have made of them."""

from __future__ import annotations

from random import Random

import numpy as np
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from test_columns import RECORDS, block_of

from batches import Rec
from twinlog.batches.build import Arena, build_batches
from twinlog.batches.columns import read_columns
from twinlog.batches.header import BatchHeader
from twinlog.batches.merge import MOST_RECORDS, merge_small
from twinlog.batches.outgoing import Outgoing
from twinlog.errors import FormatError

GROUPS = st.lists(RECORDS, min_size=1, max_size=4)
ROOM = 1 << 20
WHOLE = np.zeros(1, np.int64)


def by_columns(block: memoryview, begins: list[int], first: int, end: int, codec: int) -> Outgoing | None:
    """The same by the other way; None where that finds nothing to send, or refuses."""
    try:
        records = read_columns(block, begins)
    except FormatError:
        return None
    records = records.where((records.offsets >= first) & (records.offsets < end))
    if not len(records):
        return None
    (buffer,) = build_batches(records, WHOLE, codec, Arena())
    (stretches,) = records.stretches(WHOLE)
    return Outgoing(buffer, BatchHeader.read(buffer), stretches, rewritten=True)


@given(
    GROUPS,
    st.sampled_from([0, 1, 2, 3, 4]),
    st.integers(0, 40),
    st.integers(1, 60),
    st.randoms(use_true_random=False),
)
def test_both_ways_make_the_same_bytes(
    groups: list[list[Rec]], codec: int, skip: int, length: int, chance: Random
) -> None:
    """For every codec, with gaps in and between batches, from and to anywhere; many records go the other way."""
    block, begins = block_of(groups, codec, lambda: chance.choice((0, 0, 0, 1, 7)))
    few = merge_small(block, begins, 7 + skip, 7 + skip + length, ROOM)
    many = sum(len(group) for group in groups) > MOST_RECORDS
    assert (None if many else by_columns(block, begins, 7 + skip, 7 + skip + length, codec)) == few


@given(GROUPS, st.data())
def test_both_ways_take_the_same_damage(groups: list[list[Rec]], data: st.DataObject) -> None:
    """Any bytes under a right checksum: what one refuses the other does not copy."""
    block, begins = block_of(groups[:2], 0)
    for _ in range(data.draw(st.integers(1, 4))):
        block[data.draw(st.integers(23, len(block) - 1))] = data.draw(st.integers(0, 255))
    for begin, end in zip(begins, [*begins[1:], len(block)], strict=True):
        if data.draw(st.integers(0, 9)):
            block[begin + 17 : begin + 21] = crc32c(block[begin + 21 : end]).to_bytes(4, "big")
    headers = [BatchHeader.read(block, begin) for begin in begins]
    sizes = [end - begin for begin, end in zip(begins, [*begins[1:], len(block)], strict=True)]
    if sizes != [header.size for header in headers] or len({header.codec for header in headers}) > 1:
        return  # other batches than these are in the block, or not of one codec: never asked for
    few = merge_small(block, begins, 0, 1 << 40, ROOM)
    if few is not None:
        assert by_columns(block, begins, 0, 1 << 40, 0) == few


def test_what_does_not_fit_is_left_to_the_other_way() -> None:
    """Room is for keys, values and headers."""
    block, begins = block_of([[Rec(b"x" * 100)], [Rec(b"y" * 100)]], 0)
    assert merge_small(block, begins, 0, 99, 150) is None
    assert merge_small(block, begins, 0, 99, 300) is not None
