"""Pass on, in the fewest steps, the large clean batches that a block begins with: most blocks hold no others."""

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
    """Add batches to `done` up to the first that is not plainly to be sent as it is; return where that one begins.

    Plainly: whole, magic 2, dense, CreateTime, within the range and behind the batch before, no larger than the target
    takes, of no transaction while any is aborted, and not so small that reading it is cheaper.  Everything else is for
    `twinlog.batches.cutter` to look at.
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
