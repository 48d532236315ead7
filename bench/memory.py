"""Bring memory in before a measurement, so that the measurement does not include it.

A virtual machine gets its memory from the host page by page, at the first write, and gives free memory back: 10
microseconds a page here, while a page at hand costs a third of one.  A log in the page cache is written to such pages.
So a copy of gigabytes would measure the host, and most of all for the contender with the most to copy.
"""

from __future__ import annotations

import mmap
import time
from pathlib import Path

import numpy as np
import psutil

_PAGE = mmap.PAGESIZE


def touch(size: int) -> float:
    """Write to `size` bytes of free memory and free them again; return seconds per page.

    The kernel first hands out the memory that was freed last.  Never touches more than half of the available memory.
    """
    pages = min(size, psutil.virtual_memory().available // 2) // _PAGE + 1
    began = time.perf_counter()
    with mmap.mmap(-1, pages * _PAGE) as memory:
        bytes_of = np.frombuffer(memory, np.uint8)
        bytes_of[::_PAGE] = 1
        del bytes_of
    return (time.perf_counter() - began) / pages


def forget_peak() -> None:
    """Reset this process's peak: the touched memory is not what it needs (proc(5), clear_refs)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_mib() -> float:
    """Return the most memory this process has held since, in MiB (proc(5), VmHWM)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
