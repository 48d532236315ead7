"""Call kernel.c: merge the small uncompressed batches at the beginning of a block, in one pass.

The kernel takes what is plain, each batch whole or not at all, and stops at everything else: damage, compressed
batches, large ones that are passed on as they are. So refusals have one place and one wording, in Python. What it
makes is, byte for byte, what `twinlog.batches.columns` and `twinlog.batches.build` make of the same batches.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinlog.batches.codec import NONE
from twinlog.batches.markers import EVER
from twinlog.batches.merge import COST
from twinlog.batches.outgoing import Outgoing, Stretches

_MOST_BATCHES = 256
_MOST_STRETCHES = 4096
"""Room for the results of one call; a call that fills it says so, and is followed by another."""


class Call(ctypes.Structure):
    """The arguments and results of one call: the fields of kernel.c's `Call`, in its order."""

    _fields_ = (
        ("block", ctypes.c_void_p),
        *(
            (name, ctypes.c_int64)
            for name in ("block_size", "position", "next_offset", "end", "stop", "limit")
        ),
        *((name, ctypes.c_int64) for name in ("most_bytes", "max_message_bytes")),
        *((name, ctypes.c_double) for name in ("batch_cost", "record_cost", "byte_cost")),
        ("out", ctypes.c_void_p),
        ("out_size", ctypes.c_int64),
        ("batches", ctypes.c_void_p),
        ("batches_room", ctypes.c_int64),
        ("stretches", ctypes.c_void_p),
        ("stretches_room", ctypes.c_int64),
        *((name, ctypes.c_int64) for name in ("read", "merged", "written", "source", "single", "epoch")),
        ("no_room", ctypes.c_int64),
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a copy ends (upstream), and how large its batches may be: see `twinlog.batches.cutter.Cutter`.

    A batch is merged if that is cheaper than `batch_cost` (`twinlog.batches.merge`).
    """

    end: int
    rewritten_bytes: int
    most_bytes: int
    max_message_bytes: int
    batch_cost: float


@dataclass(frozen=True, slots=True)
class Merged:
    """Tell what one call of the kernel has done.

    `read` are the bytes of the block that it dealt with, up to `position` (upstream offset); no batch behind them may
    begin below `next_offset`.  `written` are the bytes of the batches that it made.  `single` is the place of a batch
    that has no neighbour to be merged with, and is best sent as it is; -1: none.  With `no_room` it could have gone on
    in a larger `into`.
    """

    outgoing: list[Outgoing]
    read: int
    written: int
    position: int
    next_offset: int
    epoch: int
    single: int
    no_room: bool


def merge_plain(
    library: Any,
    block: memoryview,
    into: memoryview,
    position: int,
    next_offset: int,
    limits: Limits,
    stop: int = EVER,
) -> Merged:
    """Merge small batches from the beginning of `block` into `into`, which may be `block` itself.

    `position` is the upstream offset that the copy has reached; no batch may begin below `next_offset`, and none is
    taken that reaches beyond `stop`.
    """
    batches = np.empty((_MOST_BATCHES, 2), np.int64)
    stretches = np.empty((_MOST_STRETCHES, 2), np.int64)
    record_cost, byte_cost = COST[NONE]
    call = Call(
        block=_address(block),
        block_size=len(block),
        position=position,
        next_offset=next_offset,
        end=limits.end,
        stop=stop,
        limit=limits.rewritten_bytes,
        most_bytes=limits.most_bytes,
        max_message_bytes=limits.max_message_bytes,
        batch_cost=limits.batch_cost,
        record_cost=record_cost,
        byte_cost=byte_cost,
        out=_address(into),
        out_size=len(into),
        batches=batches.ctypes.data,
        batches_room=len(batches),
        stretches=stretches.ctypes.data,
        stretches_room=len(stretches),
    )
    library.twinlog_merge(ctypes.byref(call))
    return Merged(
        list(_outgoing(into, batches[: call.merged], stretches)),
        call.read,
        call.written,
        call.position,
        call.next_offset,
        call.epoch,
        call.single,
        bool(call.no_room),
    )


def _address(buffer: memoryview) -> int:
    return int(np.frombuffer(buffer, np.uint8).ctypes.data)


def _outgoing(into: memoryview, batches: Any, stretches: Any) -> Iterator[Outgoing]:
    if not len(batches):
        return
    edges = [0, *batches[:, 1].cumsum().tolist()]
    offsets, lengths = stretches[: edges[-1]].T
    at = 0
    for size, its in zip(batches[:, 0].tolist(), Stretches.cut(offsets, lengths, edges), strict=True):
        yield Outgoing.built(into[at : at + size], its, rewritten=True)
        at += size
