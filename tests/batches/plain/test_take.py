"""What is plain at the beginning of a block is taken; where it lies afterwards."""

from __future__ import annotations

import pytest
from test_cutter import control, patch

from batches import Rec, decode, encode
from twinlog.batches.build import Arena
from twinlog.batches.codec import ZSTD
from twinlog.batches.cutter import Cutter
from twinlog.batches.header import LOG_APPEND_TIME, TRANSACTIONAL
from twinlog.batches.markers import AbortedTransactions
from twinlog.batches.merge import BATCH_COST
from twinlog.batches.outgoing import Cut
from twinlog.batches.plain.call import Limits
from twinlog.batches.plain.take import take_plain

LIMITS = Limits(1 << 40, 512 * 1024, 1 << 20, 1 << 20, BATCH_COST)


def block_of(*batches: list[Rec]) -> memoryview:
    block, offset = bytearray(), 0
    for records in batches:
        block += encode(records, base_offset=offset)
        offset += len(records)
    return memoryview(block)


def take(block: memoryview, *, keep: bool = False) -> Cut:
    done = Cut([], 0)
    found = take_plain(block, LIMITS, None, done, Arena(), keep=keep)
    assert (len(block), done.next_upstream) == found
    return done


SMALL = [Rec(b"s" * 900, timestamp=1_000 + n) for n in range(3)]
TINY = [Rec(timestamp=1_000_000 * n) for n in range(50)]
LARGE = [Rec(b"l" * 1_000)] * 60


def test_small_batches_between_large_ones_are_merged_among_themselves() -> None:
    """In order; the large ones are sent as they are, and so is a small one without a neighbour."""
    parts = (SMALL, LARGE, SMALL, SMALL, SMALL, LARGE, LARGE, TINY, TINY)
    done = take(block_of(*parts))
    assert [(3, False), (60, False), (9, True), (60, False), (60, False), (100, True)] == [
        (it.header.record_count, it.rewritten) for it in done.outgoing
    ]
    assert [record for part in parts for record in part] == [
        record for it in done.outgoing for record in decode(it.buffer)
    ]


def test_a_merged_batch_lies_where_the_small_ones_lay() -> None:
    """So it takes no other memory; if the block is to be kept, or is read-only, it does."""
    block = block_of(SMALL, SMALL)
    assert take(block).outgoing[0].buffer.obj is block.obj
    for block, keep in ((block_of(SMALL, SMALL), True), (block_of(SMALL, SMALL).toreadonly(), False)):
        before = bytes(block)
        assert take(block, keep=keep).outgoing[0].buffer.obj is not block.obj
        assert before == bytes(block)


def test_records_that_grow_are_merged_in_other_memory() -> None:
    """Deltas of offsets and of times need more bytes than the headers give back: nothing is split for that."""
    block = block_of(*[TINY] * 9)
    done = take(block)
    assert [((0, 450),)] == [(*it.stretches,) for it in done.outgoing]
    assert done.outgoing[0].buffer.obj is not block.obj


@pytest.mark.parametrize("overwrites", [True, False])
@pytest.mark.parametrize("codec", [None, ZSTD])
def test_the_epoch_before_a_bad_batch_is_known(codec: int | None, overwrites: bool) -> None:
    """Although the block before it was merged in place, or is compressed anew."""
    good = [patch(encode(SMALL, base_offset=3 * n), 12, ">i", 7 + n) for n in range(2)]
    bad = patch(encode(SMALL, base_offset=6), 21, ">h", LOG_APPEND_TIME)
    bad[200] ^= 1
    cutter = Cutter(1 << 40, 1 << 20, codec=codec, overwrites=overwrites)
    cut = cutter.cut(memoryview(bytearray(b"".join([*good, bad]))), 0, None)
    assert cut.poison is not None
    assert (6, 6, 8) == (cut.poison.offset, cut.next_upstream, cut.leader_epoch)


def test_small_batches_are_merged_around_an_aborted_transaction() -> None:
    """Before it and, as soon as its marker was read, behind it: by the kernel, where there is one."""
    block, offset = bytearray(), 0
    for producer in (1, 1, 2, 1, 1):
        batch = encode(SMALL, base_offset=offset)
        block += patch(patch(batch, 43, ">q", producer), 21, ">h", TRANSACTIONAL)
        offset += 3
        if producer == 2:
            block += control(offset, 2, commit=False)
            offset += 1
    aborted = AbortedTransactions.of([(2, 6)])
    cut = Cutter(1 << 40, 1 << 20, overwrites=True).cut(memoryview(block), 0, aborted)
    assert [[(0, 6)], [(10, 6)]] == [[*it.stretches] for it in cut.outgoing]
    assert (16, None) == (cut.next_upstream, cut.poison)
