"""Leaders of the source that cannot be reached: asked again after growing pauses, and given up by partition.

A lost fetch has changed nothing, so it is simply repeated.  Its partitions wait, those of other leaders go on; a
cluster needs about ten seconds to see that a broker is dead and to elect others (broker.session.timeout.ms).
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import Final

from twinlog.errors import TransientError
from twinlog.relay.brokers import TopicPartition

LOST_SECONDS: Final = 20.0
"""How long a partition may be without a leader that answers before it is left to the next cycle."""

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0

NOBODY: Final = -1
"""Metadata's leader of a partition that has none."""


class Patience:
    """Remembers which leaders were lost, and since when partitions wait for one."""

    def __init__(self) -> None:
        self._lost: dict[int, tuple[int, float]] = {}
        self._waiting: dict[TopicPartition, float] = {}
        self._why = "no leader"

    def rests(self, node: int) -> bool:
        """Whether a leader was lost so lately that it is not asked yet."""
        return bool(self._lost) and time.monotonic() < self._lost.get(node, (0, 0.0))[1]

    def lost(self, node: int, why: str) -> None:
        """Let a leader rest: at random up to 0.05 s, then twice as long each time, at most a second."""
        losses = self._lost.get(node, (0, 0.0))[0] + 1
        longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(losses, 10))
        self._lost[node] = losses, time.monotonic() + random.uniform(0, longest)
        self._why = why

    def answered(self, node: int, partitions: Iterable[TopicPartition]) -> None:
        """A leader has answered what it was asked of these partitions."""
        self._lost.pop(node, None)
        if self._waiting:
            for partition in partitions:
                self._waiting.pop(partition, None)

    def given_up(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, TransientError]:
        """Note that nobody can be asked of these partitions now; return those that have waited for too long."""
        now = time.monotonic()
        return {
            it: TransientError(f"no leader for {LOST_SECONDS:.0f} s: {self._why}", code="unsettled")
            for it in partitions
            if now - self._waiting.setdefault(it, now) > LOST_SECONDS
        }
