"""A part of the offset map that was lost is found; what it leaves out on purpose is not."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from twinlog.audit.map_holes import CopyBounds, LostStretch, bounds_of, lost_in
from twinlog.formats.ledger.records import parse_ledger
from twinlog.formats.ledger.topics import Beginning, Incarnation
from twinlog.formats.ledger.writers import MapHole
from twinlog.formats.map.offset_map import encode_segment
from twinlog.formats.map.packed_map import PackedMap
from twinlog.kafka_types import SourceIncarnation
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.state.ledger import Ledger, ledger_from

LIFE = SourceIncarnation("t", "id", 0)
PIECES = (
    MapSegment(0, 10, (Extent(0, 0, 10),)),
    MapSegment(10, 25, (Extent(12, 11, 13),)),
    MapSegment(25, 40, (Extent(25, 25, 15),)),
)
"""Three transactions, a marker behind each on the target, one on the source at 10 and 11."""
BOUNDS = CopyBounds(begins=0, copied_to=40, log_start=0, log_end=41)


def packed(*pieces: MapSegment) -> PackedMap:
    return PackedMap.of({it.first_upstream: encode_segment(it) for it in pieces})


@pytest.mark.parametrize(
    ("expected", "kept"),
    [
        ((), (0, 1, 2)),
        ((LostStretch(10, 25, 15, 10, 25),), (0, 2)),
        ((LostStretch(0, 10, 10, 0, 11),), (1, 2)),
        ((LostStretch(25, 40, 15, 24, 41),), (0, 1)),
        ((LostStretch(0, 10, 10, 0, 11), LostStretch(25, 40, 15, 24, 41)), (1,)),
    ],
)
def test_a_lost_piece_is_found(expected, kept):
    """In the middle, in front, and at the end."""
    assert expected == lost_in(packed(*(PIECES[n] for n in kept)), BOUNDS)


@pytest.mark.parametrize(
    ("kept", "changes"),
    [
        ((1, 2), {"log_start": 11}),
        ((2,), {"log_start": 25}),
        ((1, 2), {"begins": 10}),
        ((1, 2), {"begins": None}),
        ((0, 1), {"copied_to": None}),
        ((0, 1), {"copied_to": 25}),
        ((0, 2), {"known": ((5, 30),)}),
        ((1, 2), {"known": ((0, 10),)}),
        ((0,), {"log_start": 41}),
    ],
)
def test_what_the_map_leaves_out_on_purpose_is_not(kept, changes):
    """Below the log start, in front of the beginning, where a take-over noted it, and where no copy is left."""
    assert () == lost_in(packed(*(PIECES[n] for n in kept)), dataclasses.replace(BOUNDS, **changes))


def test_of_a_hole_that_is_known_in_part_the_rest_is_lost():
    """On either side of it."""
    found = lost_in(packed(PIECES[0], PIECES[2]), dataclasses.replace(BOUNDS, known=((12, 20),)))
    assert [(10, 12), (20, 25)] == [(it.start, it.end) for it in found]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=8), st.data())
def test_whatever_is_lost_is_found_and_nothing_else(parts, data):
    """Of transactions with records and without, any of which may be lost; but for what has expired."""
    pieces, at, place = [], 0, 0
    for length, marked in parts:
        pieces.append(MapSegment(at, at + length + marked, (Extent(at, place, length),)))
        at, place = at + length + marked, place + length + 1
    lost = data.draw(st.sets(st.sampled_from(range(len(pieces)))))
    log_start = data.draw(st.integers(0, place - 1))
    kept = [piece for n, piece in enumerate(pieces) if n not in lost]
    assume(kept)
    found = lost_in(packed(*kept), CopyBounds(0, at, log_start, place))
    expected = set()
    for n in lost:
        # Lost together with its neighbours up to the next piece that is left, it has expired when that one's front has.
        behind = next(
            (it.runs[0].downstream for m, it in enumerate(pieces) if m > n and m not in lost), place
        )
        if behind > log_start:
            expected |= set(range(pieces[n].first_upstream, pieces[n].end_upstream))
    assert expected == {offset for it in found for offset in range(it.start, it.end)}


def ledger(**changes) -> Ledger:
    begins = Beginning("t", "id", {"0": 7}, {"0": 0}, 1, into_empty=True)
    life = Incarnation("t", "id", 1, "A.t", number=changes.pop("number", 1))
    return ledger_from([life, dataclasses.replace(begins, **changes)])


@pytest.mark.parametrize(
    ("expected", "known"),
    [
        (7, ledger()),
        (None, ledger(into_empty=False)),
        (7, ledger(into_empty=False, number=2)),
        (0, ledger(offsets={})),
        (None, Ledger()),
    ],
)
def test_where_a_copy_begins(expected, known):
    """Not known of a first life whose copy held records then: MirrorMaker 2's, or others'."""
    assert expected == bounds_of(known, LIFE, 40, 0, 41).begins


def test_progress_is_of_the_life_that_is_copied_now():
    """An earlier one ended where its map does."""
    old = SourceIncarnation("t", "old", 0)
    assert [40, None] == [bounds_of(ledger(), life, 40, 0, 41).copied_to for life in (LIFE, old)]


def test_a_deliberate_hole_is_written_and_read():
    """As a ledger record, of its own partition."""
    hole = MapHole("t", "id", 0, 5, 30, 9)
    assert hole == parse_ledger(hole.key(), hole.value())
    known = ledger_from([hole, dataclasses.replace(hole, partition=1)])
    assert ((5, 30),) == bounds_of(known, LIFE, 40, 0, 41).known
