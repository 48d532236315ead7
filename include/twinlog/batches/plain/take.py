"""Take from the beginning of a block what is plain: pass large clean batches on, and merge small ones by kernel.c.

Most blocks hold nothing else.  What follows is left to `twinlog.batches.cutter`, which can do everything.
"""

from __future__ import annotations

from twinlog.batches.build import Arena
from twinlog.batches.header import (
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_2,
    TRANSACTIONAL,
    BatchHeader,
)
from twinlog.batches.markers import EVER, AbortedTransactions
from twinlog.batches.merge import merge_cost
from twinlog.batches.outgoing import Cut, Outgoing, Stretches
from twinlog.batches.plain.call import Limits, Merged, merge_plain
from twinlog.batches.plain.library import LIBRARY

_CHUNK: int = 4 << 20
"""The most memory that is taken at once for what cannot be merged in place."""

_GROWTH: int = 3
"""By how many bytes a record grows at most, as a rule, where batches are merged: deltas of offsets and of times."""


def take_plain(
    block: memoryview,
    limits: Limits,
    aborted: AbortedTransactions | None,
    done: Cut,
    arena: Arena,
    next_offset: int = 0,
    *,
    keep: bool,
) -> tuple[int, int]:
    """Add what is plain at the beginning of `block` to `done`.

    Returns where the rest begins, and the least upstream offset at which its first batch can begin; `next_offset` is
    that of the block.  Small batches are merged where they lie in the block, unless it has to be kept.
    """
    at, stop = 0, EVER if aborted is None else aborted.clear_until
    while True:
        passed = pass_on(block[at:], limits, stop, done)
        if passed:
            at, next_offset = at + passed, done.next_upstream
        if LIBRARY is None or stop <= done.next_upstream or len(block) - at < HEADER_BYTES:
            return at, next_offset
        first = BatchHeader.read(block, at)
        if first.codec or at + first.size > len(block):
            return at, next_offset
        begun = at
        in_place = not keep and not block.readonly and _shrinks(first)
        while True:
            merged = _merge(block[at:], limits, stop, done, arena, next_offset, in_place=in_place)
            at, next_offset = at + merged.read, merged.next_offset
            if not merged.no_room or not (merged.read or in_place):
                break
            in_place = False
        if at == begun:
            return at, next_offset


def is_hiding(aborted: AbortedTransactions | None) -> bool:
    """Say whether any transaction's batches are to be left out."""
    return aborted is not None and bool(aborted.pending or aborted.active)


def _shrinks(header: BatchHeader) -> bool:
    """Say whether batches such as this one become smaller by being merged: each gives up its header."""
    return header.record_count * _GROWTH <= HEADER_BYTES


def _merge(
    block: memoryview,
    limits: Limits,
    stop: int,
    done: Cut,
    arena: Arena,
    next_offset: int,
    *,
    in_place: bool,
) -> Merged:
    """Merge the small batches at the beginning of `block`."""
    into = block if in_place else arena.allocate(min(len(block) + HEADER_BYTES, _CHUNK))
    merged = merge_plain(LIBRARY, block, into, done.next_upstream, next_offset, limits, stop)
    if not in_place:
        arena.give_back(len(into) - merged.written)
    if merged.read:
        done.next_upstream, done.leader_epoch = merged.position, merged.epoch
    if merged.single >= 0:
        done.outgoing.append(as_it_is(block, merged.single, BatchHeader.read(block, merged.single)))
    done.outgoing += merged.outgoing
    return merged


def as_it_is(block: memoryview, start: int, header: BatchHeader) -> Outgoing:
    """Return the clean batch at `start` as one to be sent unchanged."""
    stretch = Stretches(header.base_offset, [0, 0, header.record_count])
    return Outgoing(block[start : start + header.size], header, stretch)


def pass_on(block: memoryview, limits: Limits, stop: int, done: Cut) -> int:
    """Add batches to `done`, up to the first that cannot plainly be sent unchanged; return where that batch begins.

    A batch is plain if it is whole, magic 2, dense and CreateTime, lies within the range and behind the batch before
    it, is no larger than the target takes, and is not so small that merging is cheaper.  One that belongs to a
    transaction must also lie below `stop`, from where on some are aborted.  All other batches are left to
    `twinlog.batches.cutter`.
    """
    at, last, position = 0, len(block) - HEADER_BYTES, done.next_upstream
    send, unpack = done.outgoing.append, HEADER.unpack_from
    while at <= last:
        header = BatchHeader._make(unpack(block, at))
        base, size, count = header.base_offset, header.batch_length + LOG_OVERHEAD, header.record_count
        whole = HEADER_BYTES <= size <= limits.most_bytes and at + size <= len(block)
        foreign = ~(CODEC_MASK | TRANSACTIONAL) if base + count <= stop else ~CODEC_MASK
        plain = header.magic == MAGIC_2 and not header.attributes & foreign
        dense = 0 < count == header.last_offset_delta + 1
        within = base >= position and base + count <= limits.end
        if not (whole and plain and dense and within):
            break
        if merge_cost(header.codec, count, size) < limits.batch_cost:
            break
        send(Outgoing(block[at : at + size], header, Stretches(base, [0, 0, count])))
        at, position = at + size, base + count
        done.next_upstream, done.leader_epoch = position, header.leader_epoch
    return at
