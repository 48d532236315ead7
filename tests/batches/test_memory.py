"""What compressed batches hold, not how large they are, bounds the memory that cutting them takes."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest
from test_cutter import patch, with_gaps

from batches import Rec, decode
from twinlog.batches.codec import ZSTD
from twinlog.batches.cutter import Cutter

LIMIT = 1_048_588
MIB = 1 << 20
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak() -> int:
    """Most bytes that this process had in memory since `forget_peak`."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def forget_peak() -> None:
    gc.collect()
    _CLEAR.write_text("5")


def repeated(records: list[Rec], times: int, *, append_time: bool) -> memoryview:
    """The same batch again and again, at offsets behind one another."""
    batch = with_gaps(list(enumerate(records)), 0, len(records) - 1, ZSTD)
    if append_time:
        patch(patch(batch, 35, ">q", 1_000), 21, ">h", ZSTD | 0x08)
    out = bytearray()
    for number in range(times):
        batch[:8] = (number * len(records)).to_bytes(8, "big")
        out += batch
    return memoryview(out)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel says how much memory was in use")
@pytest.mark.parametrize(
    ("records", "times", "append_time", "most"),
    [
        ([Rec(b"x" * 900_000)], 600, False, 96 * MIB),
        ([Rec(b"%d" % n + b"x" * 1_000_000) for n in range(60)], 12, True, 192 * MIB),
        ([Rec(b"%d" % n + b"x" * 4_000_000) for n in range(4)], 12, True, 96 * MIB),
    ],
    ids=["many batches of a record", "twelve of 60 MB", "few records"],
)
def test_memory_follows_what_is_read_at_once(
    records: list[Rec], times: int, append_time: bool, most: int
) -> None:
    """Half a gigabyte in a few kilobytes: never more than some batches of it, and every record goes out."""
    block = repeated(records, times, append_time=append_time)
    forget_peak()
    before = peak()
    cut = Cutter(1 << 40, LIMIT).cut(block, 0, None)
    assert peak() - before < most
    offsets = [first + step for item in cut.outgoing for first, n in item.stretches for step in range(n)]
    assert (None, list(range(len(records) * times))) == (cut.poison, offsets)
    sent = (record for item in cut.outgoing for record in decode(item.buffer))
    assert all(record == records[at % len(records)] for at, record in enumerate(sent))
