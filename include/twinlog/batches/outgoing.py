"""Define the results of cutting a fetched block: batches to send, and poison.

| batch from the source                           | outcome                                                   |
|-------------------------------------------------|-----------------------------------------------------------|
| dense, CreateTime, whole, fits                  | passed on unchanged; only its header will be relabelled   |
| cheaper to read than to send by itself          | merged with its neighbours                                |
| the range begins or ends inside it              | rewritten from there on, or up to there                   |
| with offset gaps (compacted topics)             | rewritten densely; the map gets one extent per stretch    |
| LogAppendTime, or with a delete horizon         | rewritten with the timestamps that a consumer sees        |
| larger than the target's max.message.bytes      | split; a single record that does not fit is poison        |
| control batch, aborted, or emptied              | not copied: an offset gap in the map, not a lost range    |

`twinlog.batches.cutter` makes these values from blocks.  Invariant: the stretches of all outgoing batches, in order,
are exactly the upstream offsets below `Cut.next_upstream` that hold a copyable record, each once, ascending.

A batch with offset gaps is renumbered densely, and each stretch keeps its own difference:

    upstream offsets     100 101 102 [ ] [ ] 105 106     stretches (100, 3), (105, 2)
    downstream offsets    70  71  72          73  74     differences -30, -32
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinlog.batches.header import BatchHeader


@dataclass(slots=True)
class Stretches:
    """The upstream offsets of a batch's records, as stretches of offsets that follow one another.

    `first` is the first offset.  `numbers` are three for each stretch, as the map writes an extent: upstream offsets
    skipped since the last stretch, downstream offsets skipped (0: a batch is dense), and length.  A stretch has no
    object of its own, as a compacted topic has one for every few records.  Iteration yields (first offset, length).
    """

    first: int
    numbers: list[int]

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Stretches:
        """Make stretches of ascending (first offset, length); there is at least one."""
        offsets, lengths = np.array([*pairs], np.int64).T
        (made,) = cls.cut(offsets, lengths, [0, len(offsets)])
        return made

    @classmethod
    def cut(cls, offsets: Any, lengths: Any, edges: Sequence[int]) -> Iterator[Stretches]:
        """Yield the stretches of one batch after the other: batch i has rows edges[i] to edges[i + 1] of the arrays."""
        table = np.zeros((len(offsets), 3), np.int64)
        table[1:, 0] = offsets[1:] - offsets[:-1] - lengths[:-1]
        table[:, 2] = lengths
        table[edges[:-1], 0] = 0
        numbers = table.ravel().tolist()
        for (edge, following), first in zip(
            itertools.pairwise(edges), offsets[edges[:-1]].tolist(), strict=True
        ):
            yield cls(first, numbers[3 * edge : 3 * following])

    def __len__(self) -> int:
        return len(self.numbers) // 3

    def __iter__(self) -> Iterator[tuple[int, int]]:
        at = self.first
        for skipped, length in zip(self.numbers[::3], self.numbers[2::3], strict=True):
            yield at + skipped, length
            at += skipped + length

    @property
    def end(self) -> int:
        """Return one past the last offset."""
        return self.first + sum(self.numbers)


@dataclass(slots=True)
class Outgoing:
    """One batch ready to be relabelled and sent.

    `stretches` hold its records' offsets; their lengths add up to `header.record_count`.  `buffer` is writable.
    """

    buffer: memoryview
    header: BatchHeader
    stretches: Stretches
    rewritten: bool = False

    @classmethod
    def built(cls, buffer: memoryview, stretches: Stretches, *, rewritten: bool = False) -> Outgoing:
        """Wrap a batch that twinlog built; its header is read from it."""
        return cls(buffer, BatchHeader.read(buffer), stretches, rewritten)


@dataclass(slots=True)
class Poison:
    """The place at which a partition cannot go on: upstream offset, reason, and a stable code.

    There is either a record that the target cannot hold, or a batch that cannot be read.
    """

    offset: int
    reason: str
    code: str = "poison-record"


@dataclass(slots=True)
class Cut:
    """The result of cutting one fetched block: batches to send, the position behind them, and any poison met.

    If `poison` is set, `next_upstream` is the poisonous record's offset, and nothing behind it was sent.
    `leader_epoch` is the source's leader epoch of the last batch before `next_upstream`, or, if an offset gap lies
    right before it, of the first batch behind it; -1 if no batch was read.
    """

    outgoing: list[Outgoing]
    next_upstream: int
    poison: Poison | None = None
    leader_epoch: int = -1
