"""Back off from source leaders that cannot be reached and partitions that they do not serve (fetch backoff).

A fetch that was lost, or answered with a temporary error, has changed nothing, so it is simply repeated after growing
pauses.  Its partitions wait while the others go on.  A cluster needs about ten seconds to see that a broker is dead
and to elect other leaders (broker.session.timeout.ms).  A partition that waits too long is left to the next cycle.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from dataclasses import dataclass

from twinlog.errors import TransientError
from twinlog.kafka_types import TopicPartition

LOST_SECONDS = 20.0
"""Seconds that a partition may lack a leader that serves it, before it is left to the next cycle."""

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0

NOBODY = -1
"""Leader id in Metadata for a partition without a leader."""


@dataclass(slots=True)
class _Rest:
    """Count failures in a row, and hold the time of the next try."""

    failures: int = 0
    until: float = 0.0

    def again(self) -> None:
        """Schedule the next try after a random pause of up to 0.1 s, doubled with each failure, at most 1 s."""
        self.failures += 1
        longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(self.failures, 10))
        self.until = time.monotonic() + random.uniform(0, longest)


class FetchBackoff:
    """Remember which leaders were lost, which partitions were refused, and since when partitions wait."""

    def __init__(self) -> None:
        self._lost: dict[int, _Rest] = {}
        self._refused: dict[TopicPartition, tuple[_Rest, str]] = {}
        self._waiting: dict[TopicPartition, float] = {}
        self._why = "no leader"

    def rests(self, node: int) -> bool:
        """Say whether a leader was lost so recently that it is not asked yet."""
        return node in self._lost and time.monotonic() < self._lost[node].until

    def lost(self, node: int, why: str) -> None:
        """Let a lost leader rest."""
        self._lost.setdefault(node, _Rest()).again()
        self._why = why

    def resting(self) -> set[TopicPartition]:
        """Return the partitions that were refused so recently that they are not asked for yet."""
        if not self._refused:
            return set()
        now = time.monotonic()
        return {it for it, (rest, _) in self._refused.items() if now < rest.until}

    def refused(self, partition: TopicPartition, why: str) -> None:
        """Let a partition rest after its leader answered with an error."""
        rest, _ = self._refused.get(partition, (_Rest(), ""))
        rest.again()
        self._refused[partition] = rest, why
        self._waiting.setdefault(partition, time.monotonic())

    def answered(self, node: int, partitions: Iterable[TopicPartition]) -> None:
        """Note that a leader has answered for these partitions without an error."""
        self._lost.pop(node, None)
        if self._waiting:
            for partition in partitions:
                self._waiting.pop(partition, None)
                self._refused.pop(partition, None)

    def given_up(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, TransientError]:
        """Note that these partitions cannot be asked for now; return errors for those that have waited too long."""
        now = time.monotonic()
        return {
            partition: TransientError(self._reason(partition), code="unsettled")
            for partition in partitions
            if now - self._waiting.setdefault(partition, now) > LOST_SECONDS
        }

    def _reason(self, partition: TopicPartition) -> str:
        if partition in self._refused:
            return f"nothing but errors for {LOST_SECONDS:.0f} s: {self._refused[partition][1]}"
        return f"no leader for {LOST_SECONDS:.0f} s: {self._why}"
