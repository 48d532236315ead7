"""What a lane hands to the kernel at once: rounds of batches, gathered into writes (docs/decisions/0017-writes.md).

A round has at most one batch of each partition, as a produce request may.  A write is a few rounds, whose requests are
made in a row before the first of them is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from twinlog.batches.outgoing import Outgoing
from twinlog.protocol.brokers import TopicPartition

Round = Mapping[TopicPartition, Outgoing]

WRITE_ROUNDS = 16
"""Rounds in a write: what one fetched answer of 16 MiB makes of four partitions."""

UNANSWERED_BATCHES = 1024
"""While we send nobody reads: answers (36 bytes a batch, and names) have to fit into the socket's buffers."""


def rounds(queues: Mapping[TopicPartition, Sequence[Outgoing]]) -> Iterator[Round]:
    """The first batch of every partition, then the second, ...: one batch a partition in each round."""
    depth = max(map(len, queues.values()), default=0)
    for index in range(depth):
        yield {partition: queue[index] for partition, queue in queues.items() if index < len(queue)}


def writes(rounds: Sequence[Round]) -> Iterator[Sequence[Round]]:
    """Rounds in their order, some at a time: at most WRITE_ROUNDS, and at most half of UNANSWERED_BATCHES if it can be.

    Half of them, because the last write is still unanswered while the next one is sent.
    """
    widest = max((1, *map(len, rounds)))
    step = max(1, min(WRITE_ROUNDS, UNANSWERED_BATCHES // 2 // widest))
    for first in range(0, len(rounds), step):
        yield rounds[first : first + step]
