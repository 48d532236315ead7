"""Merge damaged blocks between pages of memory that may not be touched: a byte read or written beyond ends the process.

    python guarded.py SEED BLOCKS

Run by test_guarded.py; says how many blocks were merged, and how many bytes of them were taken.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import sys

from twinlog.batches.header import HEADER_BYTES, LOG_OVERHEAD, rewrite, write_crc
from twinlog.batches.plain import call
from twinlog.batches.plain.library import LIBRARY
from twinlog.batches.record import Record, build_batch, record_rest

PAGE = mmap.PAGESIZE
ROOM = 64 * PAGE
NONE, READ_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE


class Guarded:
    """Memory with a page before and a page behind that the system guards."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, ROOM + 2 * PAGE)
        self._view = memoryview(self._map)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for place in (begin, begin + PAGE + ROOM):
            assert protect(place, PAGE, NONE) == 0, ctypes.get_errno()

    def last(self, size: int) -> memoryview:
        """Return the last `size` bytes before the guard."""
        return self._view[PAGE + ROOM - size : PAGE + ROOM]

    def first(self, size: int) -> memoryview:
        """Return the first `size` bytes behind the other guard."""
        return self._view[PAGE : PAGE + size]


def batches(chance: random.Random) -> list[bytearray]:
    """Some small batches behind one another."""
    made, offset = [], 0
    for _ in range(chance.randrange(1, 7)):
        count = chance.choice([1, 1, 2, 16])
        records = [
            Record(n, chance.randrange(2**41), record_rest(b"k", bytes(chance.choice([0, 5, 60, 130, 900]))))
            for n in range(count)
        ]
        batch = bytearray(build_batch(records, 0))
        rewrite(memoryview(batch), base_offset=offset, last_offset_delta=count - 1)
        made.append(batch)
        offset += count
    return made


def damage(made: list[bytearray], chance: random.Random) -> bytes:
    """Change bytes, often under a checksum that fits, and cut the end off, of a batch or of the block."""
    if chance.random() < 0.3:
        batch = made[-1]
        del batch[HEADER_BYTES + chance.randrange(12) :]
        batch[8:12] = (len(batch) - LOG_OVERHEAD).to_bytes(4, "big")
        write_crc(memoryview(batch))
    for _ in range(chance.choice([0, 1, 1, 2, 4])):
        batch = chance.choice(made)
        at = chance.choice([chance.randrange(len(batch)), chance.randrange(8, 12), chance.randrange(57, 67)])
        batch[at % len(batch)] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        if chance.random() < 0.8:
            write_crc(memoryview(batch))
    block = b"".join(made)
    return block if chance.random() < 0.6 else block[: chance.randrange(len(block) + 1)]


def main(seed: int, blocks: int) -> None:
    """Merge so many blocks, each in place and into too little, just enough, or ample other memory."""
    chance = random.Random(seed)
    source, target = Guarded(), Guarded()
    taken = 0
    for _ in range(blocks):
        block = damage(batches(chance), chance)
        limits = call.Limits(1 << 60, chance.choice([300, 2_000, 1 << 19]), 1 << 20, 1 << 20, 1e9)
        call._MOST_BATCHES, call._MOST_STRETCHES = chance.choice([(1, 1), (2, 3), (256, 4096)])
        for place in (source.last, source.first):
            raw = place(len(block))
            raw[:] = block
            room = chance.choice([0, 61, chance.randrange(len(block) + 1), len(block) + 300])
            into = chance.choice([target.last, target.first])(room)
            taken += call.merge_plain(LIBRARY, raw, into, 0, 0, limits).read
            assert raw == block
            stop = chance.choice([call.EVER, call.EVER, 1, 9])
            taken += call.merge_plain(LIBRARY, raw, raw, 0, 0, limits, stop).read
    sys.stdout.write(f"{blocks} {taken}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
