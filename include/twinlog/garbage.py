"""How often Python looks for garbage: rarely, in processes that make values of ten thousand partitions."""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """Look after 10,000 new objects instead of 700, in this whole process: for those that begin one, not for libraries.

    Most of what a step makes lives as long as the step, and each look goes through it again: a third of the time of a
    cycle over 10,000 idle partitions.  It costs 30 MB there.
    """
    gc.set_threshold(10_000, 20, 20)
