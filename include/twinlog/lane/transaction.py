"""Drive a transaction on the target through its states, by the answers of its coordinator.

    state           event           next
    idle            added           open            partitions are part of it; records may be sent
    open            added           open
    open            commit-sent     committing
    committing      answered        idle            committed
    committing      answer-lost     commit-unsure   ask the same again: nothing else is asked of this epoch
    commit-unsure   answered        idle            committed
    commit-unsure   answer-lost     commit-unsure
    open            abort-sent      aborting
    aborting        answered        idle            aborted
    any             doubt           stopped         only a new fence helps

An event that is missing from the table makes the outcome indeterminate.  Sources: KIP-98, KIP-360; the answers were
seen on real brokers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from twinlog.errors import ClusterUnreachable, FencedError, TransientError, TwinlogError
from twinlog.kafka_types import TopicPartition
from twinlog.lane.open_transactions import Ends
from twinlog.protocol import transactions
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import (
    COORDINATOR_MOVED,
    Code,
    ErrorAction,
    Request,
    code_name,
    error_action,
    error_for,
    repeats,
)
from twinlog.protocol.retry import LAG_SECONDS, until
from twinlog.protocol.socket.connection import Connection

log = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.25
_PATIENCE_SECONDS = 30.0

_UNUSUAL_SECONDS = 1.0
"""If a coordinator writes markers for this long, a partition has no leader."""


class LaneState(StrEnum):
    """Name the states of a lane and its transaction."""

    IDLE = "idle"
    OPEN = "open"
    COMMITTING = "committing"
    COMMIT_UNSURE = "commit-unsure"
    ABORTING = "aborting"
    STOPPED = "stopped"


TRANSITIONS: Mapping[tuple[LaneState, str], LaneState] = {
    (LaneState.IDLE, "added"): LaneState.OPEN,
    (LaneState.OPEN, "added"): LaneState.OPEN,
    (LaneState.OPEN, "commit-sent"): LaneState.COMMITTING,
    (LaneState.COMMITTING, "answered"): LaneState.IDLE,
    (LaneState.COMMITTING, "answer-lost"): LaneState.COMMIT_UNSURE,
    (LaneState.COMMIT_UNSURE, "answered"): LaneState.IDLE,
    (LaneState.COMMIT_UNSURE, "answer-lost"): LaneState.COMMIT_UNSURE,
    (LaneState.OPEN, "abort-sent"): LaneState.ABORTING,
    (LaneState.ABORTING, "answered"): LaneState.IDLE,
}


@dataclass(frozen=True, slots=True)
class Writer:
    """A transactional producer.

    Raises ValueError for the producer id -1: with it, brokers write outside any transaction.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int

    def __post_init__(self) -> None:
        if self.producer_id < 0:
            raise ValueError(f"producer id {self.producer_id} writes outside any transaction")

    @property
    def named(self) -> tuple[str, int, int]:
        """Return transactional id, producer id and epoch, as requests name a writer."""
        return self.transactional_id, self.producer_id, self.producer_epoch


@dataclass(slots=True)
class Transaction:
    """The transactions of one writer, one after the other.  Single-threaded.

    `ends` ensures that a partition is added only if its earlier transactions have ended in it.  `unacknowledged_end`
    says that an EndTxn got no answer: a broker may still apply it to this epoch's next transaction.
    """

    brokers: Brokers
    writer: Writer
    state: LaneState = LaneState.IDLE
    ends: Ends = field(init=False)
    unacknowledged_end: bool = field(default=False, init=False)
    _added: set[TopicPartition] = field(default_factory=set)
    _ended: bool | None = None
    _known_coordinator: Connection | None = None

    def __post_init__(self) -> None:
        self.ends = Ends(self.brokers, self.writer.producer_id)

    @property
    def added(self) -> frozenset[TopicPartition]:
        """Return the partitions of the open transaction."""
        return frozenset(self._added)

    def move(self, event: str) -> None:
        """Change the state by the table.  Raises the error of `doubt` for an event that is not allowed now."""
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            raise self.doubt(f"{event} while {self.state.value}")
        self.state = following

    def doubt(self, why: str) -> TransientError:
        """Stop with an indeterminate outcome; return the error for the caller to raise.  The driver fences again."""
        log.info("%s stopped while %s: %s", self.writer.transactional_id, self.state.value, why)
        unsure = self.state in {LaneState.COMMITTING, LaneState.COMMIT_UNSURE}
        self.state = LaneState.STOPPED
        counts = (
            "progress tells whether its transaction counts"
            if unsure
            else "nothing of its open transaction counts"
        )
        return TransientError(
            f"lane {self.writer.transactional_id} stopped: {why}",
            hint=f"{counts}; the driver fences again",
            code="fence-again",
        )

    def stop(self, request: Request, code: int, doing: str) -> Exception:
        """Stop for an error code, by the table of error actions; return the error for the caller to raise."""
        if error_action(request, code) is ErrorAction.FENCE_AGAIN:
            return self.doubt(f"{doing} was answered {code_name(code)}")
        self.state = LaneState.STOPPED
        return error_for(code, doing, self.brokers.settings.alias)

    def add(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Add partitions to the transaction; return those refused with their codes (then none was added).

        If a partition has no leader and may lack the end of the transaction before, it is refused with
        LEADER_NOT_AVAILABLE.  Raises FencedError if another driver has taken the lane.
        """
        if self.unacknowledged_end:
            raise self.doubt("an end that was not answered may still be carried out, on the next transaction")
        missing = [item for item in partitions if item not in self._added]
        if not missing:
            if self.state is LaneState.IDLE:
                self.move("added")
            return {}
        codes = self._until_answered(
            Request.ADD_PARTITIONS,
            lambda: self._without_ends(missing) or self._ask_to_add(missing),
            "add partitions",
        )
        refused = {
            item: code
            for item, code in codes.items()
            if code
            and error_action(Request.ADD_PARTITIONS, code) in {ErrorAction.END_RANGE, ErrorAction.RESEND}
        }
        if refused:
            return refused
        for code in filter(None, codes.values()):
            raise self.stop(
                Request.ADD_PARTITIONS, code, f"AddPartitionsToTxn of {self.writer.transactional_id}"
            )
        if unseen := self.ends.doubted(missing):
            raise self.doubt(f"{next(iter(unseen))[0]} was gone and is there again")
        self._added.update(missing)
        self.ends.added(missing)
        self.move("added")
        return {}

    def end(self, *, commit: bool) -> None:
        """Commit or abort; do nothing if no transaction is open.

        If the answer to a commit is lost, the same request is repeated until it is answered: whether or not the first
        one arrived, nothing but a commit is asked for.  Raises FencedError if the answer says that we were fenced, by
        another driver or by the transaction's time-out: then only progress tells the outcome.
        """
        if self.state is LaneState.IDLE:
            return
        self.move("commit-sent" if commit else "abort-sent")
        if self._added:
            answer = self._until_answered(
                Request.END_TXN, lambda: {"": self._ask_to_end(commit)}, "end the transaction"
            )
            if answer[""]:
                raise self.stop(Request.END_TXN, answer[""], f"EndTxn of {self.writer.transactional_id}")
            self._ended = commit
        self.move("answered")
        self._added.clear()

    def await_markers(self) -> None:
        """Wait until the end of the last transaction is in the logs, so that every reader sees a commit.

        The coordinator answers EndTxn when the outcome is decided, before its markers are written.  If the same EndTxn
        is sent again, the coordinator answers CONCURRENT_TRANSACTIONS until the markers are written.  The transaction
        counts even if this wait fails.
        """
        ended = self._ended
        if self.state is LaneState.IDLE and ended is not None:
            with suppress(TwinlogError):
                self._until_answered(
                    Request.END_TXN, lambda: {"": self._end_once(commit=ended)}, "see the transaction through"
                )

    def _ask_to_end(self, commit: bool) -> int:
        try:
            return self._end_once(commit=commit)
        except ClusterUnreachable:
            if commit:
                self.move("answer-lost")
            raise

    def _end_once(self, *, commit: bool) -> int:
        request = transactions.end_request(*self.writer.named, commit=commit)
        answer = self._coordinator().ask(transactions.END_TXN, transactions.VERSION, request)
        return transactions.end_response(answer)

    def _without_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Refuse partitions that cannot be checked.  Raises the error of `doubt` if an earlier end is missing."""
        try:
            return dict.fromkeys(self.ends.unseen(partitions), Code.LEADER_NOT_AVAILABLE)
        except TransientError as error:
            raise self.doubt(error.message) from None

    def _ask_to_add(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        request = transactions.add_request(*self.writer.named, partitions)
        answer = self._coordinator().ask(transactions.ADD_PARTITIONS, transactions.VERSION, request)
        return transactions.add_response(answer)

    def _coordinator(self) -> Connection:
        """Return the known coordinator; it is looked up again after it has moved, or has not answered."""
        if self._known_coordinator is None:
            self._known_coordinator = self.brokers.coordinator(self.writer.transactional_id)
        self._known_coordinator.keep_login()
        return self._known_coordinator

    def _until_answered(
        self, request: Request, ask: Callable[[], dict[Any, int]], what: str
    ) -> dict[Any, int]:
        """Repeat a request while the coordinator moves, writes our last markers, is fencing us, or cannot be reached.

        A partition that the coordinator does not know is added again for a moment: it may have been created just now.

        Both kinds of requests sent this way may be repeated: adding a partition twice, and ending a transaction twice
        the same way, change nothing.  Until the answer comes, markers may have been skipped, so `ends` is told.  An
        unanswered EndTxn may still wait in a broker, and would be applied to the epoch's next transaction.  Therefore
        that transaction never begins: from then on `add` raises the error of `doubt`.  Raises FencedError if the
        answer says that we were fenced.
        """
        failure = ""
        began = time.monotonic()

        def answer() -> dict[Any, int] | None:
            nonlocal failure
            try:
                codes = ask()
            except ClusterUnreachable as error:
                self.brokers.forget_coordinators()
                self._known_coordinator = None
                self.ends.doubt()
                self.unacknowledged_end |= request is Request.END_TXN
                failure = error.message
                log.debug("%s repeats %s: %s", self.writer.transactional_id, request.value, failure)
                return None
            bad = [code for code in codes.values() if code]
            if any(error_action(request, code) is ErrorAction.FENCED for code in bad):
                raise self._fenced()
            lagging = request is Request.ADD_PARTITIONS and time.monotonic() < began + LAG_SECONDS
            busy = [
                code
                for code in bad
                if repeats(request, code) or (lagging and code == Code.UNKNOWN_TOPIC_OR_PARTITION)
            ]
            if busy:
                failure = code_name(busy[0])
                log.debug("%s repeats %s: %s", self.writer.transactional_id, request.value, failure)
                moved = not COORDINATOR_MOVED.isdisjoint(busy)
                if moved:
                    self._known_coordinator = None
                if moved or time.monotonic() - began > _UNUSUAL_SECONDS:
                    self.ends.doubt()
            return None if busy else codes

        return until(
            answer,
            lambda: self.doubt(f"could not {what} within {_PATIENCE_SECONDS:.0f} s ({failure})"),
            seconds=_PATIENCE_SECONDS,
            first_seconds=_FIRST_PAUSE_SECONDS,
            longest_seconds=_LONGEST_PAUSE_SECONDS,
        )

    def _fenced(self) -> FencedError:
        self.state = LaneState.STOPPED
        return FencedError(
            f"lane {self.writer.transactional_id} was fenced: another twinlog runs this flow, or its transaction timed"
            " out",
            hint="this one wrote nothing more; progress tells what counts",
        )
