"""Comparing columns of records says what comparing them one by one would."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batches import Rec, encode
from twinlog.audit.comparison.same_bytes import common_count, equal_prefix
from twinlog.batches.columns import Columns, read_columns
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment


def columns(records: list[Rec]) -> Columns:
    data = encode(records, base_offset=0)
    return read_columns(memoryview(data), [0])


@given(
    st.lists(st.integers(0, 3000), min_size=1, max_size=30), st.randoms(use_true_random=False), st.booleans()
)
def test_any_byte_that_differs_is_seen(sizes, chance, changed):
    """Whatever the sizes and the place; the records before it are equal."""
    ours = [Rec(chance.randbytes(size), b"k", 5) for size in sizes]
    theirs = list(ours)
    at = len(ours)
    if changed:
        at = chance.randrange(len(ours))
        value = bytearray(ours[at].value or b"")
        if value:
            value[chance.randrange(len(value))] ^= 1 << chance.randrange(8)
            theirs[at] = Rec(bytes(value), b"k", 5)
        else:
            theirs[at] = Rec(None, b"k", 5)
    whole = OffsetMap.of([MapSegment(0, len(ours), (Extent(0, 0, len(ours)),))])
    assert at == equal_prefix(columns(ours), columns(theirs), whole)


def test_a_record_must_stand_where_the_map_puts_it():
    """Equal ones elsewhere are not the copy; of offsets the map does not know nothing is."""
    some = columns([Rec(b"%d" % n) for n in range(6)])
    assert 4 == equal_prefix(some, some, OffsetMap.of([MapSegment(0, 6, (Extent(0, 0, 4), Extent(4, 7, 2)))]))
    assert 0 == equal_prefix(some, some, OffsetMap.of([]))


@given(st.randoms(use_true_random=False))
def test_batches_end_together_again(chance: random.Random):
    """As many records as possible, up to a place where both sides' batches end; else all that one side has."""
    ours, theirs = (np.cumsum([chance.randrange(1, 4) for _ in range(9)]) for _ in range(2))
    both = set(ours.tolist()) & set(theirs.tolist())
    assert common_count(ours, theirs) == (max(both) if both else min(ours[-1], theirs[-1]))
