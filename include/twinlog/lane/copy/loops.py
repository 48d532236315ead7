"""The two rhythms of a lane (docs/architecture.md): copy what there is and end, or stay and copy what arrives.

drain    ask ahead, send, commit when the transaction is full or old, until every range has come to its end
follow   wait for the first record, copy what has gathered, commit, rest until the next beat

Without transactions a record is visible when it is written, and beats need no commit: a lane that follows at least once
writes down less often how far it is (`Pace`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Protocol

from twinlog.errors import FencedError
from twinlog.lane.copy.range_errors import SOURCE_LOST, SourceError
from twinlog.lane.throttle import Throttle

if TYPE_CHECKING:
    from twinlog.lane.spec import Follow
    from twinlog.protocol.brokers import TopicPartition
    from twinlog.protocol.wire import Fetched

STALL_SECONDS = 30.0
PAUSE_SECONDS = 0.02
"""Between rounds that moved nothing, for answers that come at once (a leader that has moved)."""

IDLE_WAIT_SECONDS = 1.0
"""How long a lane waits for an answer before it looks at what it has open, and asks again."""

BEAT_SECONDS = 0.015
"""How often a lane that follows exactly once commits while records stream."""

AHEAD_SECONDS = 0.006
"""Before the next beat its transaction is begun: about as long as that takes."""

BACKLOG_BYTES = 1 << 20
"""An answer of this size means that more is waiting: the lane neither rests nor commits after it."""

BACKLOG_SECONDS = 24 * BEAT_SECONDS
"""Between two commits while there is a backlog: transactions grow with the load."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a lane that follows copies, and how often it commits, while records stream without backlog (seconds).

    What was not committed is copied again after a death.
    """

    beat: float
    commit: float


EXACTLY_ONCE = Pace(beat=BEAT_SECONDS, commit=0.0)
AT_LEAST_ONCE = Pace(beat=0.006, commit=0.25)


class OpenTransaction(Protocol):
    """What a loop asks of the transaction that a lane has open (lane/copy/copy_transaction.py)."""

    def commit(self) -> bool:
        """Commit; return whether nothing is left to be sent again."""

    def commit_if_due(self) -> None:
        """Commit if it is full or old."""

    def age_ms(self) -> float:
        """Return how long it has been open; 0 if it is not."""

    def open_ahead(self) -> None:
        """Begin the next one before there is a record for it."""


class LaneLoop(Protocol):
    """What a loop is made of: the copy of one lane (lane/copy/copy_lane.py)."""

    @property
    def transaction(self) -> OpenTransaction:
        """The transaction that the lane has open."""

    @property
    def troubled(self) -> bool:
        """Whether a range has ended in trouble."""

    def positions(self) -> dict[TopicPartition, int]:
        """Return the upstream offsets to fetch next, of the partitions that are still wanted."""

    def ask(self) -> None:
        """Send the next fetches."""

    def answers(self, within: float | None = None) -> Iterator[list[Fetched]]:
        """Read the answers on the way; with `within` (seconds) only those that come in time."""

    def take(self, answer: list[Fetched], *, ahead: bool) -> int:
        """Cut one answer and send it; return bytes sent."""

    def end_all(self, code: str, why: str) -> None:
        """End every range that is still wanted."""


def drain(copy: LaneLoop, throttle: Throttle | None) -> None:
    """Copy every range to its end, or to its trouble."""
    stall = _Stall()
    while True:
        while before := copy.positions():
            try:
                copy.ask()
                for answer in copy.answers(IDLE_WAIT_SECONDS):
                    sent = copy.take(answer, ahead=throttle is None)
                    _wait_for(copy, throttle, sent)
            except SourceError as error:
                copy.end_all(SOURCE_LOST, str(error))
            copy.transaction.commit_if_due()  # also while nothing comes
            if stall.seconds(before, copy.positions()) > STALL_SECONDS:
                copy.end_all("stalled", f"the source gave nothing for {STALL_SECONDS:.0f} s")
        if copy.transaction.commit():
            return


def follow(copy: LaneLoop, pace: Pace, terms: Follow, throttle: Throttle | None, recalled: Event) -> None:
    """Copy what arrives until the terms say that it ends, or no range is left.

    A record that arrives at rest is copied at once; while records stream, each beat copies what has gathered since
    the last, so that cost follows beats and bytes and not records.  Raises FencedError when `recalled` is set.
    """
    look = time.monotonic() + terms.seconds
    end = look - terms.seconds + terms.longest_seconds

    def over(now: float) -> bool:
        return recalled.is_set() or now >= end or (now >= look and copy.troubled)

    backlog, due = False, pace.commit
    while copy.positions() and not over(began := time.monotonic()):
        if began >= look:
            look += terms.seconds
        sizes: list[int] = []
        sent = 0
        try:
            copy.ask()
            for answer in copy.answers(min(_left(copy, due), IDLE_WAIT_SECONDS, end - began)):
                if recalled.is_set():
                    break  # whoever called may read by now how far it is
                sizes.append(sum(len(fetched.block) for fetched in answer))
                sent += copy.take(answer, ahead=sizes[-1] >= BACKLOG_BYTES and throttle is None)
        except SourceError as error:
            copy.end_all(SOURCE_LOST, str(error))
        backlog = any(size >= BACKLOG_BYTES for size in sizes)
        due = BACKLOG_SECONDS if backlog else pace.commit
        if copy.transaction.age_ms() >= 1000 * due:
            copy.transaction.commit()
        _wait_for(copy, throttle, sent, due, over)
        if sizes and not backlog:
            _rest(copy, began + pace.beat if any(sizes) else time.monotonic() + PAUSE_SECONDS)
    copy.transaction.commit()
    if recalled.is_set():
        raise FencedError(
            "the flow was fenced anew", hint="whoever fenced it goes on behind what is committed"
        )


def _rest(copy: LaneLoop, until: float) -> None:
    """Rest until the next beat, and begin its transaction shortly before: its first record then waits for less."""
    time.sleep(max(until - AHEAD_SECONDS - time.monotonic(), 0.0))
    copy.transaction.open_ahead()
    time.sleep(max(until - time.monotonic(), 0.0))


def _left(copy: LaneLoop, due: float) -> float:
    """Return how long until what is open has to be committed (seconds); infinity when nothing is."""
    age = copy.transaction.age_ms() / 1000
    return max(due - age, 0.0) if age else math.inf


def _wait_for(
    copy: LaneLoop,
    throttle: Throttle | None,
    sent: int,
    due: float = math.inf,
    over: Callable[[float], bool] = lambda now: False,
) -> None:
    """Wait as the throttle says, at most until it is `over`; commit what grows older than `due` (seconds), or too old.

    Of what is left then nothing is forgiven: the lane ends, and the driver waits (follow/follow.py).
    """
    if throttle is None or not sent:
        return
    now = time.monotonic()
    until = now + throttle.spend(sent, now)
    while now < until and not over(now):
        if _left(copy, due) <= 0:
            copy.transaction.commit()
        copy.transaction.commit_if_due()
        time.sleep(min(until - now, _left(copy, due), 1.0))
        now = time.monotonic()


class _Stall:
    """For how long rounds of answers have moved nothing; what the target takes does not count."""

    def __init__(self) -> None:
        self._since: float | None = None

    def seconds(self, before: dict[TopicPartition, int], after: dict[TopicPartition, int]) -> float:
        """Compare two rounds; pause after one that moved nothing."""
        if before != after:
            self._since = None
            return 0.0
        now = time.monotonic()
        if self._since is None:
            self._since = now
        time.sleep(PAUSE_SECONDS)
        return now - self._since
