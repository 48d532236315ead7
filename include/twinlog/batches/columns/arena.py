"""Reuse memory for the batches built from fetch answers: the memory of one answer serves the next but one.

Fresh memory costs more than writing to it: the system provides it page by page, and clears each page first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_BYTES = 16 << 20
"""The largest size of each half of an arena; a batch that does not fit gets memory of its own."""


@dataclass(slots=True)
class Arena:
    """Hand out buffers that stay valid until `reset` has been called twice.

    The batches of one answer may still be on their way to the target while the next answer is cut.
    Both halves begin empty, and grow to what was asked for between two resets.
    """

    _memory: memoryview = field(default_factory=lambda: memoryview(bytearray()))
    _other: memoryview = field(default_factory=lambda: memoryview(bytearray()))
    _used: int = 0

    def allocate(self, size: int) -> memoryview:
        """Return a writable buffer of `size` bytes with undefined content."""
        start = self._used
        self._used += size
        if self._used > len(self._memory):
            return memoryview(bytearray(size))
        return self._memory[start : self._used]

    def reset(self) -> None:
        """Take back the buffers that were handed out before the previous reset."""
        self._memory, self._other = self._other, self._memory
        wanted = min(self._used, MOST_BYTES)
        if wanted > len(self._memory):
            self._memory = memoryview(bytearray(wanted))
        self._used = 0
