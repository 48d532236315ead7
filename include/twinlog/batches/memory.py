"""Reserve large memory, which costs something only as far as it is written."""

from __future__ import annotations

import mmap


def reserve(size: int) -> memoryview:
    """Return `size` writable bytes, given back with the last view of them.

    The system provides each page when it is first written to, and clears it before: that costs more than to copy an
    answer into it.  So large memory is reserved once, and neither cleared here nor made to grow.
    """
    return memoryview(mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))[:size]
