"""Fetch logs repeatedly as long as a caller wants more of them; give up if there is no progress."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

from twinlog.errors import TransientError
from twinlog.protocol.brokers import Brokers, TopicPartition
from twinlog.protocol.fetcher import Fetcher
from twinlog.protocol.wire import Fetched

_PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.05


def read_while(
    brokers: Brokers,
    fetcher: Fetcher,
    wanted: Callable[[], Mapping[TopicPartition, int]],
    take: Callable[[Fetched], bool],
    gone: Callable[[TopicPartition], None] = lambda partition: None,
) -> None:
    """Fetch from the offsets that `wanted` returns; `wanted` is called before each round, until it returns none.

    `take` receives each answer for a partition, and says whether the partition advanced.  `gone` receives partitions
    that no longer exist or may not be seen.  Raises TransientError (`unsettled`) if no partition advances for half a
    minute, the errors of a cluster that cannot be reached, and the errors that `take` raises.
    """
    moved_at = time.monotonic()
    while positions := wanted():
        for partition in fetcher.request(positions):
            gone(partition)
        moved = False
        for answer in fetcher.answers():
            for fetched in answer:
                moved |= take(fetched)
        if moved:
            moved_at = time.monotonic()
            continue
        time.sleep(random.uniform(0, _PAUSE_SECONDS))
        if time.monotonic() - moved_at > _PATIENCE_SECONDS:
            raise TransientError(
                f"cluster {brokers.settings.alias} does not serve {next(iter(positions))[0]} to its end",
                code="unsettled",
                cluster=brokers.settings.alias,
            )
