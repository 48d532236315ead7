"""Ctrl-C: the first one lets a command clean up, the second one ends it at once; both are one line and exit code 130.

It also hits what nobody can wait for, such as imports and a Spark that starts, and is no error of what it hits.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
"""128 + SIGINT, as shells report a command ended by Ctrl-C."""

pressed = threading.Event()
"""Is set by the first Ctrl-C: whatever is raised afterwards comes of it."""


def take_ctrl_c() -> None:
    """Let SIGINT do so in this process, from its main thread."""
    signal.signal(signal.SIGINT, _first)


def _first(number: int, frame: FrameType | None) -> NoReturn:
    """Raise KeyboardInterrupt; threads that lose their Spark or broker by it print no traceback."""
    pressed.set()
    signal.signal(signal.SIGINT, end_at_once)
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(
        lambda _: False
    )  # py4j logs the interrupt by the root logger, which nobody else does
    threading.excepthook = lambda _: None
    raise KeyboardInterrupt


def end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """End this process without cleaning up; what is committed counts, as after a kill."""
    os.write(2, b"error: interrupted\n")
    os._exit(INTERRUPTED)
