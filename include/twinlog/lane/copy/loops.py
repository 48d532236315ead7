"""Run one of a lane's two copy loops (docs/architecture.md): copy what exists and end, or stay and copy what arrives.

drain    batch loop: ask ahead, send, commit when the transaction is full or old, until every range has ended
follow   stream loop: wait for the first record, copy what has gathered, commit, rest until the next commit tick
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

if TYPE_CHECKING:
    from twinlog.kafka_types import TopicPartition
    from twinlog.lane.spec import Follow
    from twinlog.protocol.wire import Fetched

STALL_SECONDS = 30.0
THROTTLED_SECONDS = 120.0
"""How long a source may give nothing, and how long if it says that a quota is why (a broker looks back 11 s)."""

THROTTLED = (
    "the source gave nothing for {:.0f} s because of its quota consumer_byte_rate for this user or client: raise it"
    " above a tenth of the largest batch a second"
)

PAUSE_SECONDS = 0.02
"""Pause between rounds without progress, if answers come at once (as after a leader has moved)."""

IDLE_WAIT_SECONDS = 1.0
"""How long a lane waits for an answer before it checks its open transaction, and asks again."""

TICK_SECONDS = 0.015
"""The commit tick: how often a lane in follow mode commits while records stream."""

AHEAD_SECONDS = 0.006
"""The next transaction is begun this long before its commit tick: about as long as beginning takes."""

BACKLOG_BYTES = 1 << 20
"""After an answer of this size a lane that is still behind neither rests nor commits."""

BACKLOG_SECONDS = 24 * TICK_SECONDS
"""Time between two commits while there is a backlog: transactions grow with the load."""

BURST_SECONDS = 0.25
"""The burst that may be sent at once after a pause, in seconds of the rate."""


@dataclass(slots=True)
class Throttle:
    """A lane's share of `twinlog.bytes.per.second`: a token bucket that fills at `rate` bytes a second.

    A caller may overdraw it, and then waits.

    Invariant: in any t seconds at most `rate * (t + BURST_SECONDS)` bytes pass, plus the one portion that overdrew it.
    """

    rate: float
    now: float
    balance: float = 0.0

    def spend(self, sent: int, now: float) -> float:
        """Note `sent` bytes at `now` (monotonic seconds); return the seconds to wait."""
        self.balance = min(self.balance + (now - self.now) * self.rate, self.rate * BURST_SECONDS) - sent
        self.now = now
        return max(0.0, -self.balance / self.rate)


class OpenTransaction(Protocol):
    """The operations of a lane's open transaction that a loop needs (lane/copy/copy_transaction.py)."""

    def commit(self) -> bool:
        """Commit; say whether nothing is left to be sent again."""

    def commit_if_due(self) -> None:
        """Commit if the transaction is full or old."""

    def age_ms(self) -> float:
        """Return how long the transaction has been open (ms); 0 if none is open."""

    def open_ahead(self) -> None:
        """Begin the next transaction before there is a record for it."""


class LaneLoop(Protocol):
    """The operations of a lane's copy that a loop needs (lane/copy/copy_lane.py)."""

    @property
    def transaction(self) -> OpenTransaction:
        """Return the lane's transaction."""

    @property
    def has_errors(self) -> bool:
        """Say whether a range has ended with an error."""

    @property
    def is_behind(self) -> bool:
        """Say whether the source has told of records that are not sent yet."""

    @property
    def is_far(self) -> bool:
        """Say whether the source has never answered within a commit tick."""

    @property
    def throttled_ms(self) -> int:
        """Return for how long brokers of the source gave nothing because of a quota, by their answers."""

    def positions(self) -> dict[TopicPartition, int]:
        """Return the upstream offsets to fetch next, for the partitions that are still wanted."""

    def ask(self) -> None:
        """Send the next fetches."""

    def answers(self, within: float | None = None) -> Iterator[list[Fetched]]:
        """Read the answers in flight; with `within` (seconds) only those that come in time."""

    def take(self, answer: list[Fetched], *, ahead: bool) -> int:
        """Cut one answer and send its batches; return bytes sent."""

    def end_all(self, code: str, why: str) -> None:
        """End every range that is still wanted."""


def drain(copy: LaneLoop, throttle: Throttle | None) -> None:
    """Copy every range to its end, or to its error."""
    since: float | None = None  # the last progress; time that the target takes does not count
    throttled_ms = 0  # by the source, until then
    while True:
        while before := copy.positions():
            try:
                copy.ask()
                for answer in copy.answers(IDLE_WAIT_SECONDS):
                    sent = copy.take(answer, ahead=throttle is None)
                    _wait_for(copy, throttle, sent)
            except SourceError as error:
                copy.end_all(SOURCE_LOST, str(error))
            copy.transaction.commit_if_due()  # also if no answers come
            now = time.monotonic()
            if copy.positions() != before:
                since, throttled_ms = None, copy.throttled_ms
                continue
            since = now if since is None else since
            if copy.throttled_ms == throttled_ms and now - since > STALL_SECONDS:
                copy.end_all("stalled", f"the source gave nothing for {STALL_SECONDS:.0f} s")
            elif now - since > THROTTLED_SECONDS:
                copy.end_all("stalled", THROTTLED.format(now - since))
            time.sleep(PAUSE_SECONDS)
        if copy.transaction.commit() and not copy.positions():  # one that was set aside is left
            return


def follow(copy: LaneLoop, terms: Follow, throttle: Throttle | None, fenced: Event) -> None:
    """Copy records as they arrive, until the terms end the lane, or no range is left.

    A record that arrives at rest is copied at once.  While records stream, each commit tick copies the records that
    have gathered since the last one, so the cost depends on ticks and bytes, not on records.  Raises FencedError if
    `fenced` is set.
    """
    look = time.monotonic() + terms.seconds
    end = look - terms.seconds + terms.longest_seconds

    def over(now: float) -> bool:
        return fenced.is_set() or now >= end or (now >= look and copy.has_errors)

    backlog, due = False, 0.0
    while copy.positions() and not over(began := time.monotonic()):
        if began >= look:
            look += terms.seconds
        sizes: list[int] = []
        sent = 0
        try:
            copy.ask()
            for answer in copy.answers(min(_left(copy, due), IDLE_WAIT_SECONDS, end - began)):
                if fenced.is_set():
                    break  # the new driver may already read how far this lane has come
                sizes.append(sum(len(fetched.block) for fetched in answer))
                ahead = throttle is None and (sizes[-1] >= BACKLOG_BYTES or copy.is_far)
                sent += copy.take(answer, ahead=ahead)
        except SourceError as error:
            copy.end_all(SOURCE_LOST, str(error))
        backlog = any(size >= BACKLOG_BYTES for size in sizes) and copy.is_behind
        due = BACKLOG_SECONDS if backlog else 0.0
        if copy.transaction.age_ms() >= 1000 * due:
            copy.transaction.commit()
        _wait_for(copy, throttle, sent, due, over)
        if sizes and not backlog:
            _rest(copy, began + TICK_SECONDS if any(sizes) else time.monotonic() + PAUSE_SECONDS)
    copy.transaction.commit()
    if fenced.is_set():
        raise FencedError(
            "the flow was fenced anew", hint="the driver that fenced it goes on behind what is committed"
        )


def _rest(copy: LaneLoop, until: float) -> None:
    """Rest until the next commit tick; begin its transaction shortly before, so that its first record waits less."""
    time.sleep(max(until - AHEAD_SECONDS - time.monotonic(), 0.0))
    copy.transaction.open_ahead()
    time.sleep(max(until - time.monotonic(), 0.0))


def _left(copy: LaneLoop, due: float) -> float:
    """Return the time until the open transaction has to be committed (seconds); infinity if none is open."""
    age = copy.transaction.age_ms() / 1000
    return max(due - age, 0.0) if age else math.inf


def _wait_for(
    copy: LaneLoop,
    throttle: Throttle | None,
    sent: int,
    due: float = math.inf,
    over: Callable[[float], bool] = lambda now: False,
) -> None:
    """Wait as the throttle demands, unless `over` ends it; commit a transaction older than `due` (seconds) or too old.

    If the wait is cut short, its rest is not forgiven: the lane ends, and the driver waits (follow/follow.py).
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
