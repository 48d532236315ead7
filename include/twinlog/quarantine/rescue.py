"""Say what a replay writes and notes as one, and in which order.  Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from twinlog.batches.quarantine import Origin, Part
from twinlog.quarantine.read import Aside


@dataclass(frozen=True, slots=True)
class Rescue:
    """A record that was written aside, or the records of a batch that was damaged and that the source has whole.

    A batch has none if it holds only markers, or records of an aborted transaction.
    """

    origin: Origin
    records: tuple[Part, ...]

    @property
    def size(self) -> int:
        """The bytes of keys and values."""
        return sum(len(it.key or b"") + len(it.value or b"") for it in self.records)


@dataclass(frozen=True, slots=True, order=True)
class Left:
    """A record, or a damaged batch from `offset` (upstream) on, that could not be replayed, and `why`."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    why: str


def of_aside(aside: Aside) -> Rescue:
    """Take a record as the quarantine topic holds it."""
    return Rescue(aside.origin, (aside.part,))


def in_order(records: Iterable[Rescue], damaged: Iterable[Rescue]) -> Iterator[Rescue]:
    """Put each damaged batch before the first record of its partition that lay behind it in the source."""
    waiting: defaultdict[tuple[str, str, int], deque[Rescue]] = defaultdict(deque)
    for batch in sorted(damaged, key=lambda it: it.origin):
        waiting[batch.origin.place].append(batch)
    for record in records:
        before = waiting[record.origin.place]
        while before and before[0].origin < record.origin:
            yield before.popleft()
        yield record
    for left in waiting.values():
        yield from left
