"""What becomes of the batches of a fetched block: passed on, rewritten, or left out.

| batch from the source                           | outcome                                                   |
|-------------------------------------------------|-----------------------------------------------------------|
| dense, CreateTime, whole, fits                  | passed on as it is; only its header will be relabelled    |
| cheaper to read than to send by itself          | merged with its neighbours                                |
| the range begins or ends inside it              | rewritten from or up to there                             |
| with offset gaps (compacted topics)             | rewritten densely; the map gets one run per stretch       |
| LogAppendTime, or with a delete horizon         | rewritten with the timestamps a consumer sees             |
| larger than the target's max.message.bytes      | split; one record that does not fit is poison             |
| control batch, aborted, or emptied              | not copied: a hole in the map, not a gap                  |

Values alone; `twinlog.batches.cutter` makes them of blocks.  Invariant: the stretches of all outgoing
batches, in order, are exactly the upstream offsets below `Cut.next_upstream` that hold a copyable record, each once,
ascending.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.batches.header import BatchHeader


@dataclass(slots=True)
class Outgoing:
    """One batch ready to be relabelled and sent.

    `stretches` are (first upstream offset, length) of the records in it; together they hold `header.record_count`.
    `buffer` is writable.
    """

    buffer: memoryview
    header: BatchHeader
    stretches: tuple[tuple[int, int], ...]
    rewritten: bool = False

    @classmethod
    def built(
        cls, buffer: memoryview, stretches: tuple[tuple[int, int], ...], *, rewritten: bool = False
    ) -> Outgoing:
        """Take a batch we made: its header is read from it."""
        return cls(buffer, BatchHeader.read(buffer), stretches, rewritten)


@dataclass(slots=True)
class Poison:
    """Where a partition cannot go on: upstream offset, why, and a stable code.

    A record the target cannot hold, or a batch that cannot be read.
    """

    offset: int
    reason: str
    code: str = "poison-record"


@dataclass(slots=True)
class Cut:
    """What became of one fetched block: batches to send, the position behind it, and poison met on the way.

    With `poison` set, `next_upstream` is the poisonous record's offset: nothing behind it was looked at.
    `leader_epoch` is the source's, of the last batch in front of `next_upstream`, or of the first one behind it where a
    hole lies between; -1 when none was looked at.
    """

    outgoing: list[Outgoing]
    next_upstream: int
    poison: Poison | None = None
    leader_epoch: int = -1
