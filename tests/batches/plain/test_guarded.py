"""The kernel stays within its memory, whatever a block holds: the system itself watches.

The number of blocks is TWINLOG_FUZZ_EXAMPLES times fifty.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BLOCKS = 50 * int(os.environ.get("TWINLOG_FUZZ_EXAMPLES", "60"))
SCRIPT = Path(__file__).with_name("guarded.py")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("seed", range(3))
def test_no_block_makes_it_touch_a_guarded_page(seed: int) -> None:
    """In place or not, at the beginning of the memory or at its end, with room or without."""
    done = run(str(SCRIPT), str(seed), str(BLOCKS))
    assert (0, "") == (done.returncode, done.stderr)
    blocks, taken = map(int, done.stdout.split())
    assert blocks == BLOCKS
    assert taken > 1_000 * blocks  # most of them are merged, at least in part


@pytest.mark.parametrize("code", ["buffer = guard.last(8)", "buffer = guard.first(8); at = -1"])
def test_a_byte_beyond_ends_the_process(code: str) -> None:
    """So that the test above can fail."""
    lines = (
        "import ctypes, sys",
        f"sys.path.insert(0, {str(SCRIPT.parent)!r})",
        "from guarded import Guarded",
        "guard, at = Guarded(), 8",
        code,
        "place = ctypes.addressof(ctypes.c_char.from_buffer(buffer))",
        "ctypes.memset(place, 1, 8)",
        "ctypes.string_at(place + at, 1)",
    )
    assert run("-c", "\n".join(lines)).returncode in {-signal.SIGSEGV, -signal.SIGBUS}
