"""Gather rounds of batches into writes, each handed to the kernel at once (docs/decisions/0017-writes.md).

A round has at most one batch of each partition, the limit of a produce request.  A write is a few rounds; all its
requests are built before the first of them is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from twinlog.batches.outgoing import Outgoing
from twinlog.protocol.brokers import TopicPartition

Round = Mapping[TopicPartition, Outgoing]

WRITE_ROUNDS = 16
"""Rounds in a write: about what one fetched answer of 16 MiB yields for four partitions."""

UNANSWERED_BATCHES = 1024
"""We do not read while we send, so answers (36 bytes a batch, plus names) have to fit into the socket's buffers."""


def rounds(queues: Mapping[TopicPartition, Sequence[Outgoing]]) -> Iterator[Round]:
    """Yield the first batch of every partition, then the second, ...: at most one batch a partition in each round."""
    depth = max(map(len, queues.values()), default=0)
    for index in range(depth):
        yield {partition: queue[index] for partition, queue in queues.items() if index < len(queue)}


def writes(rounds: Sequence[Round]) -> Iterator[Sequence[Round]]:
    """Yield rounds in order, some at a time: at most WRITE_ROUNDS, and if possible at most half of UNANSWERED_BATCHES.

    Half, because the last write is still unanswered while the next one is sent.
    """
    widest = max((1, *map(len, rounds)))
    step = max(1, min(WRITE_ROUNDS, UNANSWERED_BATCHES // 2 // widest))
    for first in range(0, len(rounds), step):
        yield rounds[first : first + step]
