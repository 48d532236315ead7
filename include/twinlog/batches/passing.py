"""Pass on the large clean batches at the beginning of a block, in the fewest steps: most blocks hold nothing else."""

from __future__ import annotations

from twinlog.batches.aborted import AbortedTransactions
from twinlog.batches.header import (
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_2,
    TRANSACTIONAL,
    BatchHeader,
)
from twinlog.batches.merging import BATCH_COST, merge_cost
from twinlog.batches.outgoing import Cut, Outgoing


def pass_on(
    block: memoryview,
    position: int,
    range_end: int,
    max_message_bytes: int,
    aborted: AbortedTransactions | None,
    done: Cut,
) -> int:
    """Add batches to `done`, up to the first that cannot plainly be sent unchanged; return where that batch begins.

    A batch is plain if it is whole, magic 2, dense and CreateTime, lies within the range and behind the batch before
    it, is no larger than the target takes, and is not so small that merging is cheaper.  As long as any transaction is
    aborted, it must also belong to no transaction.  All other batches are left to `twinlog.batches.cutter`.
    """
    at, last = 0, len(block) - HEADER_BYTES
    hiding = aborted is not None and bool(aborted.pending or aborted.active)
    foreign = ~(CODEC_MASK | (0 if hiding else TRANSACTIONAL))
    send, unpack = done.outgoing.append, HEADER.unpack_from
    while at <= last:
        header = BatchHeader._make(unpack(block, at))
        base, size, count = header.base_offset, header.batch_length + LOG_OVERHEAD, header.record_count
        whole = HEADER_BYTES <= size <= max_message_bytes and at + size <= len(block)
        plain = header.magic == MAGIC_2 and not header.attributes & foreign
        dense = 0 < count == header.last_offset_delta + 1
        within = base >= position and base + count <= range_end
        if not (whole and plain and dense and within):
            break
        if merge_cost(header.codec, count, size) < BATCH_COST:
            break
        send(Outgoing(block[at : at + size], header, ((base, count),)))
        at, position = at + size, base + count
        done.next_upstream, done.leader_epoch = position, header.leader_epoch
    return at
