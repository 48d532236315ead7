"""Fit what a lane asks of its source to what its target takes in time: brokers have quotas, and lines are thin.

A broker takes a whole produce request, and then nothing for as long as the quota demands.  What an answer of the source
holds is one transaction's at least, so it must be so little that the transaction can end before its time-out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from twinlog.protocol.wire import Fetched

LEAST_BYTES: Final = 512 * 1024
"""The first fetch's bytes; a source gives a batch at least."""

QUICK_SECONDS: Final = 1.0
SLOW_SECONDS: Final = 4.0

OF_TIMEOUT: Final = 0.75
"""Share of the transaction's time-out after which nothing more is waited for: the rest is for the commit."""


@dataclass(slots=True)
class Pace:
    """The bytes of the next fetch: at first LEAST_BYTES, twice as many while the target is quick, half if it is slow.

    Until they are `most`, the lane awaits the answers to what it has sent, to see how long that takes.
    """

    most: int
    bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.bytes = min(LEAST_BYTES, self.most)

    def is_tried_by(self, answer: Iterable[Fetched]) -> bool:
        """Say whether an answer of the source is a trial: few bytes say nothing of more."""
        return self.bytes < self.most and sum(len(fetched.block) for fetched in answer) >= self.bytes // 2

    def took(self, seconds: float) -> bool:
        """Note how long the target needs for what was sent; say whether that is so long that it is to be committed."""
        if seconds < QUICK_SECONDS:
            self.bytes = min(self.bytes * 2, self.most)
        elif seconds > SLOW_SECONDS:
            self.bytes = max(self.bytes // 2, min(LEAST_BYTES, self.most))
        return seconds >= QUICK_SECONDS
