"""Memory that is there before it is measured who fills it.

A virtual machine gets its memory from the host page by page, when it is first written, and gives back what lies free:
10 microseconds a page here, where a page at hand costs a third of one.  A log in the page cache is written to such
pages, so a copy of gigabytes would measure the host, and the contender with the most to copy most of all.
"""

from __future__ import annotations

import mmap
import time

import numpy as np
import psutil

_PAGE = mmap.PAGESIZE


def touch(size: int) -> float:
    """Write to `size` bytes of free memory and leave them free again; return seconds a page.

    The kernel hands out first what was freed last.  Never touches more than half of what is available.
    """
    pages = min(size, psutil.virtual_memory().available // 2) // _PAGE + 1
    began = time.perf_counter()
    with mmap.mmap(-1, pages * _PAGE) as memory:
        bytes_of = np.frombuffer(memory, np.uint8)
        bytes_of[::_PAGE] = 1
        del bytes_of
    return (time.perf_counter() - began) / pages
