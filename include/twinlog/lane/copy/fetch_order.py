"""Choose what a fetch asks for while a lane is behind: urgent topics first, and no partition waits for ever.

    live: its last answer left nothing to be read     every request; a quarter of the answer is kept free
    nearly live: it left little                       for these two
    behind, with the least RPO                        three requests of four
    behind, with the longest wait                     one request of four

A lane's first request is for everything, urgent topics first: its answer says what is left of each partition.  What
one kind leaves free of an answer goes to the next.  If all that is behind fits into one answer, all is asked for, as
if there were no order.  Only the partitions of a request and their sizes are chosen here: each partition is read in
its order, from behind what was sent.  docs/decisions/0033-urgent-first.md says why the shares are these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from twinlog.kafka_types import Positions, TopicPartition

SHARED_TURN: Final = 4
"""Every so many requests one is for all that are behind, by how long they have waited."""

LIVE_SHARE: Final = 4
"""One of so many parts of an answer is kept free for what is live, or nearly so."""

SMALL_SHARE: Final = 64
"""A partition of which less is left than one of so many parts of an answer is nearly live."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Tell what the last answer left of a partition: its topic's RPO (seconds), and about how many bytes are left."""

    partition: TopicPartition
    rpo_seconds: int
    left_bytes: float


@dataclass(frozen=True, slots=True)
class AnswerSize:
    """The most bytes of an answer, and what a partition is usually asked for."""

    whole: int
    partition: int

    def for_backlog(self, *, others: bool) -> int:
        """Return the bytes for what is behind, if there are others or not."""
        return self.whole - self.whole // LIVE_SHARE if others else self.whole


NONE_UNSERVED: Final[Mapping[TopicPartition, int]] = MappingProxyType({})


def portions(
    waiting: Sequence[Backlog],
    size: AnswerSize,
    *,
    live: bool,
    shared: bool = False,
    unserved: Mapping[TopicPartition, int] = NONE_UNSERVED,
) -> dict[TopicPartition, int] | None:
    """Choose which partitions that are behind to ask for, with the bytes of each; None: all.  Pure.

    `waiting` is in order of the wait, longest first.  `live` says that live partitions are asked for, too.  Those that
    are `unserved` since they were chosen are chosen again.  Of the others, unless the request is `shared`, those with
    the least RPO go first, and are asked for more than usual if they would leave room that only others need.  At least
    one of them is chosen, whatever its size.
    """
    budget = size.for_backlog(others=live)
    if _sum(waiting, min(size.partition, budget)) <= budget:
        return None
    chosen = dict.fromkeys(_nearly_live(waiting, size), size.partition)
    budget = size.for_backlog(others=live or bool(chosen))
    usual = min(size.partition, budget)
    free = budget - sum(
        min(backlog.left_bytes, unserved[backlog.partition])
        for backlog in waiting
        if backlog.partition in unserved
    )
    chosen |= unserved
    order = [backlog for backlog in waiting if backlog.partition not in chosen]
    urgent: list[Backlog] = []
    if order and not shared:
        order.sort(key=lambda it: it.rpo_seconds)
        urgent = [backlog for backlog in order if backlog.rpo_seconds == order[0].rpo_seconds]
    grown = _grown(urgent, free, usual)
    for number, it in enumerate(order):
        asked = grown if number < len(urgent) else usual
        expected = min(it.left_bytes, asked)
        if number and expected > free:
            break
        chosen[it.partition] = asked
        free -= expected
    return chosen


def _sum(waiting: Sequence[Backlog], usual: int) -> float:
    """Return the bytes that an answer would have of all of them."""
    return sum(min(backlog.left_bytes, usual) for backlog in waiting)


def _nearly_live(waiting: Sequence[Backlog], size: AnswerSize) -> Iterator[TopicPartition]:
    """Yield partitions of which little is left, those first that have waited longest, as far as there is room."""
    free: float = size.whole // LIVE_SHARE
    for backlog in waiting:
        if backlog.left_bytes <= size.whole // SMALL_SHARE:
            free -= backlog.left_bytes
            if free < 0:
                return
            yield backlog.partition


def _grown(urgent: Sequence[Backlog], free: float, usual: int) -> int:
    """Return the bytes to ask each urgent partition for, so that together they fill what is free if they can."""
    large = sum(backlog.left_bytes > usual for backlog in urgent)
    room = free - _sum(urgent, usual)
    return usual + int(room / large) if large and room > 0 else usual


class FetchOrder:
    """Remember what is behind, in order of the wait, and choose what each leader is asked for next.

    A partition that was chosen stays chosen until it is served.  (In a fetch session a broker fills an answer in the
    order in which it served partitions last; one that comes and goes would always be behind those that stay.)
    """

    def __init__(self, *, max_bytes: int, partition_max_bytes: int) -> None:
        self._size = AnswerSize(max_bytes, partition_max_bytes)
        self._behind: dict[TopicPartition, Backlog] = {}
        self._unserved: dict[TopicPartition, int] = {}
        self._turns: Counter[int] = Counter()
        self._offset_bytes: dict[TopicPartition, float] = {}
        self._bytes = self._offsets = 0

    def limit(self, max_bytes: int) -> None:
        """Choose for answers of at most `max_bytes` from now on."""
        self._size = AnswerSize(max_bytes, self._size.partition)

    def answered(
        self, partition: TopicPartition, rpo_seconds: int, *, size: int, read: int, left: int
    ) -> None:
        """Note an answer of `size` bytes and `read` offsets of a partition, behind which `left` more can be read."""
        if read > 0:
            self._unserved.pop(partition, None)
            self._bytes += size
            self._offsets += read
        if left <= 0:
            self._behind.pop(partition, None)
            self._offset_bytes.pop(partition, None)
            return
        if read > 0:
            self._offset_bytes[partition] = size / read
            self._behind.pop(partition, None)  # to the end of the queue
        each = self._offset_bytes.get(partition) or self._bytes / max(self._offsets, 1)
        self._behind[partition] = Backlog(partition, rpo_seconds, left * each)

    def choose(self, node: int, wanted: Collection[TopicPartition]) -> Positions | None:
        """Return what to ask a leader for of its `wanted` partitions, with bytes; None: all, with the usual size."""
        waiting = (
            [backlog for backlog in self._behind.values() if backlog.partition in wanted]
            if self._behind
            else []
        )
        if not waiting:
            return None
        unserved = {it: size for it, size in self._unserved.items() if it in wanted}
        shared = self._turns[node] % SHARED_TURN == SHARED_TURN - 1
        live = len(waiting) < len(wanted)
        chosen = portions(waiting, self._size, live=live, shared=shared, unserved=unserved)
        if chosen is None:
            self._unserved |= {backlog.partition: self._size.partition for backlog in waiting}
            return None
        self._turns[node] += 1
        self._unserved |= chosen
        return dict.fromkeys((it for it in wanted if it not in self._behind), self._size.partition) | chosen
