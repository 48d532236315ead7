"""The kernel makes of a block what numpy makes of it, and takes nothing else."""

from __future__ import annotations

import itertools
import struct

import pytest
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st
from test_cutter import control, patch, with_gaps

from batches import Rec, encode
from twinlog.batches.build import Arena, build_batches, pieces
from twinlog.batches.columns import read_columns
from twinlog.batches.header import HEADER_BYTES, walk_headers
from twinlog.batches.outgoing import Outgoing
from twinlog.batches.plain.call import Limits, Merged, merge_plain
from twinlog.batches.plain.library import LIBRARY

EVER = 1 << 60
Made = list[tuple[bytes, tuple[tuple[int, int], ...]]]

RECORDS = st.lists(
    st.builds(
        Rec,
        value=st.none() | st.binary(max_size=40) | st.integers(0, 4_000).map(bytes),
        key=st.none() | st.binary(max_size=3),
        timestamp=st.integers(-1, 2**60) | st.integers(1_000, 1_100),
    ),
    min_size=1,
    max_size=12,
)


@st.composite
def blocks(draw: st.DrawFn) -> list[bytearray]:
    """Uncompressed batches behind one another: with gaps, append times, horizons, markers, emptied ones."""
    batches, offset = [], draw(st.integers(0, 3))
    for records in draw(st.lists(RECORDS, min_size=1, max_size=8)):
        kind = draw(st.sampled_from(["plain", "plain", "gaps", "time", "horizon", "marker", "empty"]))
        steps = st.integers(1, 3) if kind == "gaps" else st.just(1)
        deltas = list(itertools.accumulate((draw(steps) for _ in records[1:]), initial=0))
        batch = encode(records, base_offset=offset, deltas=deltas)
        if kind == "time":
            patch(patch(batch, 35, ">q", draw(st.integers(0, 2**41))), 21, ">h", 0x08)
        elif kind == "horizon":
            patch(batch, 21, ">h", 0x40)
        elif kind == "marker":
            batch, deltas = control(offset, 5, commit=True), [0]
        elif kind == "empty":
            batch, deltas = with_gaps([], offset, 4), [4]
        batches.append(batch)
        offset += deltas[-1] + 1 + draw(st.integers(0, 2))
    return batches


def merge(block: bytearray, into: bytearray | None = None, *, position: int = 0, end: int = EVER) -> Merged:
    """By the kernel, in place without `into`, into batches of 8 KB at most; every batch counts as a small one."""
    limits = Limits(end, 8_000, 1 << 20, 1 << 20, batch_cost=1e9)
    view = memoryview(block)
    return merge_plain(LIBRARY, view, view if into is None else memoryview(into), position, 0, limits)


def made(outgoing: list[Outgoing]) -> Made:
    return [(bytes(it.buffer), (*it.stretches,)) for it in outgoing]


def by_numpy(block: bytes, position: int, end: int) -> Made:
    """All records of these whole batches that lie in the range, read and built by columns."""
    walked = list(walk_headers(memoryview(block)))
    begins = [at for header, at in walked if not header.control and header.record_count]
    if not begins:
        return []
    records = read_columns(memoryview(block), begins)
    records = records.where((records.offsets >= position) & (records.offsets < end))
    found: Made = []
    for group, firsts in pieces(records, 8_000):
        built = build_batches(group, firsts, 0, Arena())
        found += [(bytes(it), (*runs,)) for it, runs in zip(built, group.stretches(firsts), strict=True)]
    return found


def agree(merged: Merged, block: bytes, position: int, end: int) -> None:
    """What the kernel has read of a block is what numpy reads and builds."""
    expected = by_numpy(block[: merged.read], position, end)
    if merged.single < 0:
        assert expected == made(merged.outgoing)
    else:  # left as it is: all that there is in it
        assert [] == merged.outgoing
        assert expected == by_numpy(block[merged.single : merged.read], 0, EVER)


@given(blocks(), st.data())
def test_it_makes_what_numpy_makes_to_the_byte(batches: list[bytearray], data: st.DataObject) -> None:
    """Of all that is not damaged, wherever the range begins and ends; and the block stays as it was."""
    block = b"".join(batches)
    position, end = data.draw(st.integers(0, 30)), data.draw(st.integers(20, 60) | st.just(EVER))
    raw, into = bytearray(block), bytearray(2 * len(block) + 1_000)
    merged = merge(raw, into, position=position, end=end)
    agree(merged, block, position, end)
    assert block == bytes(raw)
    behind = [it for it, at in walk_headers(memoryview(block)) if at >= merged.read]
    assert all(header.base_offset >= end for header in behind)
    assert not merged.no_room


@given(blocks(), st.integers(0, 30))
def test_in_place_it_makes_the_same_as_far_as_it_comes(batches: list[bytearray], position: int) -> None:
    """It may lack room, but then it has not begun the batch for which it lacks it."""
    block = b"".join(batches)
    raw = bytearray(block)
    merged = merge(raw, position=position)
    agree(merged, block, position, EVER)
    assert block[merged.read :] == bytes(raw[merged.read :])
    assert merged.no_room == (merged.read < len(block))


def test_in_place_one_record_a_batch_always_has_room() -> None:
    """What the kernel is for: many of them become one."""
    block = bytearray(b"".join(encode([Rec(b"v" * 100)], base_offset=n) for n in range(15)))
    merged = merge(block)
    assert ([((0, 15),)], False) == ([(*it.stretches,) for it in merged.outgoing], merged.no_room)


@given(blocks(), st.data())
@example([encode([Rec(timestamp=2**62)]), encode([Rec(timestamp=-(2**62))], base_offset=1)], None)
def test_it_takes_no_damage(batches: list[bytearray], data: st.DataObject | None) -> None:
    """Whatever bytes are changed, with checksums that fit or not: numpy reads the same from all that it took."""
    for _ in range(0 if data is None else data.draw(st.integers(1, 4))):
        batch = data.draw(st.sampled_from(batches))
        at = data.draw(st.integers(0, 66) | st.integers(0, len(batch) - 1))
        batch[at % len(batch)] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
        if data.draw(st.booleans()):
            batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    block = b"".join(batches)
    into = bytearray(2 * len(block) + 1_000)
    merged = merge(bytearray(block), into)
    agree(merged, block, 0, EVER)
    in_place = bytearray(block)
    agree(merge(in_place), block, 0, EVER)


LONG_VARINT = b"\xff" * 9 + b"\x02"


@pytest.mark.parametrize(
    "body",
    [
        b"\x0c\0" + LONG_VARINT[:4],
        b"\x1a\0" + LONG_VARINT + b"\0\1",
        b"\x06\0\0\x02",
        b"\x00\0\0\0",
        b"\x01\0\0\0",
        b"\xfe\xff\xff\xff\x0f\0\0\0",
        b"\x08\0\0\0\1\0",
    ],
    ids=["cut off", "65 bits", "an offset beyond", "no length", "negative", "huge", "more behind"],
)
def test_it_leaves_a_record_that_is_not_plain_to_python(body: bytes) -> None:
    """With a checksum that fits; the batch before it is taken."""
    bad = with_gaps([], 1, 0)
    bad += body
    struct.pack_into(">i", bad, 8, len(bad) - 12)
    patch(bad, 57, ">i", 1)
    first = bytes(encode([Rec()]))
    merged = merge(bytearray(first + bad))
    assert (len(first), 0, []) == (merged.read, merged.single, merged.outgoing)


@pytest.mark.parametrize(
    ("size", "taken"),
    [(1 << 20, False), ((1 << 20) - HEADER_BYTES - 21 - 10, True)],
    ids=["too large", "fits"],
)
def test_a_record_that_may_not_fit_is_left_to_python(size: int, taken: bool) -> None:
    """A batch of it alone has to be built in several ways (merge.py)."""
    first = encode([Rec()])
    block = bytearray(first + encode([Rec(bytes(size))], base_offset=1))
    merged = merge(block, bytearray(2 << 20))
    assert merged.read == (len(block) if taken else len(first))


@given(blocks(), st.integers(0, 30))
def test_no_batch_that_reaches_beyond_the_stop_is_read(batches: list[bytearray], stop: int) -> None:
    """And all below it are, as if nothing followed."""
    block = b"".join(batches)
    below = [it for it, _ in walk_headers(memoryview(block)) if it.next_offset <= stop]
    raw, into = bytearray(block), bytearray(2 * len(block) + 1_000)
    limits = Limits(EVER, 8_000, 1 << 20, 1 << 20, batch_cost=1e9)
    stopped = merge_plain(LIBRARY, memoryview(raw), memoryview(into), 0, 0, limits, stop)
    assert stopped.read == sum(it.size for it in below)
    agree(stopped, block, 0, EVER)
