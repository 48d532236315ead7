"""Memory for the batches that one answer is made into, used again for the next answer but one.

Fresh memory costs more than what is written to it: the system hands it out page by page, and clears each page first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_BYTES = 16 << 20
"""An arena grows no further; what does not fit gets memory of its own."""


@dataclass(slots=True)
class Arena:
    """Buffers that are valid until `reset` has been called twice.

    What one answer was made into may still be under way to the target while the next one is cut.
    Both halves begin with nothing, and grow to what was asked for between two resets.
    """

    _memory: memoryview = field(default_factory=lambda: memoryview(bytearray()))
    _other: memoryview = field(default_factory=lambda: memoryview(bytearray()))
    _used: int = 0

    def allocate(self, size: int) -> memoryview:
        """Return a writable buffer of `size` bytes, with anything in it."""
        start = self._used
        self._used += size
        if self._used > len(self._memory):
            return memoryview(bytearray(size))
        return self._memory[start : self._used]

    def reset(self) -> None:
        """Take those buffers back that were handed out before the last reset."""
        self._memory, self._other = self._other, self._memory
        wanted = min(self._used, MOST_BYTES)
        if wanted > len(self._memory):
            self._memory = memoryview(bytearray(wanted))
        self._used = 0
