"""Write records to the target as a lane: one transactional writer, its records and its transaction.

A lane writes with the producer id and epoch that the driver's fence granted. It never initialises a producer, and
never repeats a produce request whose answer was lost. At any indeterminate outcome it stops, and the driver fences
again (docs/decisions/0001-fence.md).

Batches are sent in rounds of at most one batch of each partition, the limit of a produce request. A few rounds are one
write: all its requests are built before the first of them is sent, and the kernel gets them at once
(docs/decisions/0017-writes.md).

Invariants. S: sequences continue over transactions (lane/in_flight.py). O: the base offsets in a partition's answers
only grow, from the partition's end at the lane's beginning. A base offset that does not grow answers a dropped
duplicate, or comes from a log that lost its end: the outcome is indeterminate.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twinlog.batches.outgoing import Outgoing
from twinlog.batches.relabel import relabel
from twinlog.errors import ClusterUnreachable, TerminalError, TransientError, TwinlogError
from twinlog.kafka_types import TopicPartition
from twinlog.lane.in_flight import PredictedOffsets, Refused, Sequences, Written
from twinlog.lane.transaction import LaneState, Transaction, Writer
from twinlog.protocol import wire
from twinlog.protocol.brokers import LATEST, Brokers
from twinlog.protocol.errors import NOT_APPENDED, Code, ErrorAction, Request, code_name, error_action
from twinlog.protocol.socket.connection import Connection, fresh_buffer
from twinlog.protocol.wire import Buffer

log = logging.getLogger(__name__)

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


_ELECTION_SECONDS = 3.0
"""How long a write waits for a leader, and the lane's other partitions with it; ordinary elections take less."""

_QUOTA_SECONDS = 30.0
"""Longest pause of a lane that stops because of a quota; brokers look back 11 s (quota.window.num)."""

_PRODUCE_TIMEOUT_MS = 30_000
"""How long a leader may wait for the replicas before it answers."""


@dataclass(slots=True)
class _Sent:
    """One batch in flight: its first sequence, and its predicted downstream offset if it is known."""

    outgoing: Outgoing
    sequence: int
    predicted: int | None


@dataclass(slots=True)
class _Request:
    """A produce request in flight: what was sent, by partition."""

    connection: Connection
    sent: dict[TopicPartition, _Sent]


class Lane:
    """One transactional writer on the target.  Single-threaded.

    `written` and `refused` collect the results of acknowledgements until they are taken.  `sequences` are those that
    the driver has used with this epoch.  `deadline` (monotonic seconds) is when the open transaction has to be ended at
    the latest.  `throttled_ms` is the time for which brokers took nothing, by their answers.
    """

    def __init__(
        self, brokers: Brokers, writer: Writer, sequences: Mapping[TopicPartition, int] | None = None
    ) -> None:
        self.brokers = brokers
        self.writer = writer
        self.transaction = Transaction(brokers, writer)
        self.sequences = Sequences(sequences)
        self.written: list[Written] = []
        self.refused: list[Refused] = []
        self._requests: deque[_Request] = deque()
        self._last_write = 0
        self._predicted = PredictedOffsets()
        self.deadline = math.inf
        self.throttled_ms = 0
        self._muted_until = 0.0
        self._requests_of_transaction = 0

    @property
    def muted_seconds(self) -> float:
        """Return how long a broker will take nothing more, because of a quota."""
        return max(0.0, self._muted_until - time.monotonic()) if self._muted_until else 0.0

    def begin(self, partitions: Collection[TopicPartition]) -> dict[str, str]:
        """Note where the target's partitions end now: everything that this lane writes lies behind (invariant O).

        Returns the ids of their topics, "" if the target reports none.

        A second process that writes with the same epoch begins at the same sequences.  Its batches would be taken for
        duplicates of the first process's batches, and be answered with offsets from before its own beginning.
        """
        topics = self.brokers.metadata({topic for topic, _ in partitions})
        known = [item for item in partitions if topics[item[0]].is_led(item[1])]
        for item, end in self.brokers.offsets(known, LATEST).items():
            self.transaction.ends.reached[item] = end
        return {name: topic.topic_id for name, topic in topics.items()}

    def add(self, partitions: Collection[TopicPartition]) -> list[Refused]:
        """Add partitions to the transaction; return those that the target refuses (then none was added)."""
        if self.transaction.state is LaneState.IDLE and self.brokers.close_ended("produce"):
            self.transaction.ends.doubt()  # the lane was idle, or the broker was away when markers were written
        refused = self.transaction.add(partitions)
        return [
            Refused(item, code, "it cannot be written to", resend=code == Code.LEADER_NOT_AVAILABLE)
            for item, code in refused.items()
        ]

    def send(self, queues: Mapping[TopicPartition, Sequence[Outgoing]]) -> None:
        """Send batches of partitions that were added, one request a round and leader, without waiting for answers.

        Waits only for answers to requests sent before the last write, or if the answers in flight would not fit into
        the socket's buffers.  The batches' memory must stay unchanged until `flush` or `drain` has returned.  After a
        refusal nothing more is sent: the caller finds it in `refused`, and aborts the transaction.
        """
        if self.transaction.state is not LaneState.OPEN:
            raise self.transaction.doubt(f"records sent while {self.transaction.state.value}")
        for write in writes(list(rounds(queues))):
            self._make_room(write)
            if self.refused:  # read just now: sequences were set back, and the transaction will be aborted
                return
            self._write(write)

    def flush(self) -> None:
        """Wait until the kernel has taken everything sent, so that its memory may be used again."""
        for connection in {request.connection for request in self._requests}:
            try:
                connection.flush()
            except ClusterUnreachable as error:
                raise self.transaction.doubt(error.message) from None

    def drain(self) -> None:
        """Wait for the answer to every produce request in flight."""
        while self._requests:
            self._read_answer()

    def predicted(self) -> list[Written] | None:
        """Return what the requests in flight will have written if no other producer writes there; None if unknown."""
        found: list[Written] = []
        for request in self._requests:
            for partition, sent in request.sent.items():
                if sent.predicted is None:
                    return None
                found.append(Written(partition, sent.outgoing, sent.predicted))
        return found

    def write_state(self, queues: Mapping[TopicPartition, Sequence[Outgoing]]) -> list[Refused]:
        """Add and send twinlog's own records, and wait for everything in flight; return the refusals."""
        refused = self.add(list(queues))
        if refused:
            return refused
        self.send(queues)
        self.drain()
        return self.take_refused()

    def commit(self) -> None:
        """Commit the transaction; every produce request must have been answered."""
        self._end(commit=True)

    def await_markers(self) -> None:
        """Wait until the last transaction's end is in the logs.  Call it when nothing more will be sent."""
        self.transaction.await_markers()

    def abort(self) -> None:
        """Abort the transaction.  Sequences continue (invariant S)."""
        self._end(commit=False)

    def take_written(self) -> list[Written]:
        """Return and forget the batches acknowledged so far."""
        written, self.written = self.written, []
        return written

    def take_refused(self) -> list[Refused]:
        """Return and forget the refusals.  Only after `drain`: later batches of a refused partition may follow."""
        refused, self.refused = self.refused, []
        return refused

    def _end(self, *, commit: bool) -> None:
        if self._requests:
            raise self.transaction.doubt("end of a transaction with unanswered produce requests")
        added = self.transaction.added
        self._requests_of_transaction = 0
        self.transaction.end(commit=commit)
        self._predicted.ended(added)

    def _make_room(self, write: Sequence[Round]) -> None:
        """Read answers until little more than the last write is in flight, and this write's answers have room."""
        most = max(self._last_write, WRITE_ROUNDS)
        unanswered = sum(len(request.sent) for request in self._requests) + sum(map(len, write))
        while self._requests and (len(self._requests) > most or unanswered > UNANSWERED_BATCHES):
            unanswered -= len(self._requests[0].sent)
            self._read_answer()

    def _write(self, write: Sequence[Round]) -> None:
        """Build the requests of some rounds, then send them; stop after a round with a batch that cannot be sent."""
        bodies: dict[Connection, list[list[Buffer]]] = {}
        for batches in write:
            for node, group in self._by_leader(batches).items():
                try:
                    connection = self.brokers.node(node, "produce")
                except ClusterUnreachable as error:  # nothing was sent, and no sequence was used
                    self._unsent(group, error)
                    continue
                if connection not in bodies:
                    connection.keep_login()
                bodies.setdefault(connection, []).append(self._request(connection, group))
            if self.refused:
                break
        self._last_write = sum(map(len, bodies.values()))
        for connection, requests in bodies.items():
            self._require_time(connection)
            self._requests_of_transaction += len(requests)
            try:
                connection.send(wire.PRODUCE, wire.PRODUCE_VERSION, *requests, write_behind=True)
            except ClusterUnreachable as error:
                raise self.transaction.doubt(error.message) from None

    def _by_leader(self, batches: Round) -> dict[int, dict[TopicPartition, Outgoing]]:
        found: dict[int, dict[TopicPartition, Outgoing]] = {}
        waited = False
        for partition, outgoing in batches.items():
            try:
                if waited and self.brokers.known_leader(*partition) < 0:
                    raise ClusterUnreachable(f"{_name(partition)} has no leader")
                leader = self.brokers.leader(*partition, seconds=_ELECTION_SECONDS)
            except TwinlogError as error:  # the partition has no leader, or is gone
                # Only one election is waited for, not several in a row: the transaction is open meanwhile.
                waited = True
                self._unsent({partition: outgoing}, error)
            else:
                found.setdefault(leader, {})[partition] = outgoing
        return found

    def _request(self, connection: Connection, group: Round) -> list[Buffer]:
        """Relabel a batch for each partition, and note it as in flight."""
        sent: dict[TopicPartition, _Sent] = {}
        body: dict[str, list[tuple[int, memoryview]]] = {}
        for partition, outgoing in group.items():
            sequence = self.sequences.take(partition, outgoing.header.record_count)
            buffer = relabel(
                outgoing.buffer,
                outgoing.header,
                self.writer.producer_id,
                self.writer.producer_epoch,
                sequence,
            )
            body.setdefault(partition[0], []).append((partition[1], buffer))
            predicted = self._predicted.sent(partition, outgoing.header.record_count)
            sent[partition] = _Sent(outgoing, sequence, predicted)
        self._requests.append(_Request(connection, sent))
        return wire.produce_request(
            body, transactional_id=self.writer.transactional_id, timeout_ms=_PRODUCE_TIMEOUT_MS
        )

    def _unsent(self, group: Round, error: TwinlogError) -> None:
        transient = isinstance(error, TransientError)
        if transient:
            self.transaction.ends.doubt()
        code = Code.LEADER_NOT_AVAILABLE if transient else Code.UNKNOWN_TOPIC_OR_PARTITION
        self.refused += [
            Refused(partition, code, error.message, outgoing, resend=transient)
            for partition, outgoing in group.items()
            if not self._was_refused(partition)
        ]

    def _read_answer(self) -> None:
        request = self._requests.popleft()
        self._require_time(request.connection)
        try:
            payload = request.connection.receive(fresh_buffer)
        except ClusterUnreachable as error:
            raise self.transaction.doubt(error.message) from None
        if throttle_ms := wire.produce_throttle_ms(payload):
            request.connection.mute(throttle_ms)
            self.throttled_ms += throttle_ms
            name, address = self.writer.transactional_id, request.connection.address
            log.debug("%s sends nothing to %s for %d ms: a quota", name, address, throttle_ms)
            self._muted_until = max(self._muted_until, request.connection.muted_until)
        for answer in wire.produce_response(payload):
            partition = answer.topic_partition
            sent = request.sent.pop(partition, None)
            if sent is None:
                raise self.transaction.doubt(f"an answer for {_name(partition)}, which was not asked for")
            if answer.error == 0:
                self._acknowledged(partition, sent.outgoing, sent.sequence, answer.base_offset)
            else:
                self._predicted.refused(partition)
                self._rejected(partition, sent.outgoing, sent.sequence, answer)
        if request.sent:
            raise self.transaction.doubt(f"no answer for {_name(next(iter(request.sent)))}")

    def _require_time(self, connection: Connection) -> None:
        """Stop if a broker will read nothing from this connection until it is too late for the transaction.

        After a pause, so that what was sent counts no more when the next lane begins, with little.  Raises
        TerminalError if there is nothing less to begin with: the transaction holds one request.
        """
        if connection.muted_until <= self.deadline:
            return
        seconds = connection.muted_until - time.monotonic()
        settings = self.brokers.settings
        stopped = self.transaction.doubt(
            f"cluster {settings.alias} takes nothing for {seconds:.0f} s because of its quota producer_byte_rate for"
            f" this user or client, longer than twinlog.transaction.timeout.ms leaves"
        )
        if self._requests_of_transaction > 1:
            time.sleep(min(seconds, _QUOTA_SECONDS))
            raise stopped
        raise TerminalError(stopped.message, hint="raise one of them, or lower twinlog.lanes")

    def _acknowledged(
        self, partition: TopicPartition, outgoing: Outgoing, sequence: int, base_offset: int
    ) -> None:
        reached = self.transaction.ends.reached
        if base_offset < reached.get(partition, 0):
            raise self.transaction.doubt(
                f"{_name(partition)} took a batch for a duplicate of offset {base_offset}"
            )
        end = base_offset + outgoing.header.record_count
        reached[partition] = end
        self._predicted.acknowledged(partition, end)
        self.sequences.found(partition)
        if self._was_refused(partition):
            # A partition that did not know this producer accepts any first sequence: continue behind it.
            self.sequences.go_on_behind(partition, sequence, outgoing.header.record_count)
        self.written.append(Written(partition, outgoing, base_offset))

    def _rejected(
        self, partition: TopicPartition, outgoing: Outgoing, sequence: int, answer: wire.Produced
    ) -> None:
        code = answer.error
        what = error_action(Request.PRODUCE, code)
        if what in {ErrorAction.FENCED, ErrorAction.STOP}:
            raise self.transaction.stop(Request.PRODUCE, code, f"records of {_name(partition)}")
        if what is ErrorAction.RESEND:
            self.transaction.ends.doubt()
            if code not in NOT_APPENDED:
                self.sequences.may_be_written(partition, sequence, outgoing.header.record_count)
        if self._was_refused(partition):
            return  # it was sent behind a refused batch, so it is out of order by design
        out_of_order = code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        resend = what is ErrorAction.RESEND or (
            out_of_order and self.sequences.guess_lower(partition, sequence)
        )
        if not resend and what not in {ErrorAction.SPLIT, ErrorAction.END_RANGE}:
            raise self.transaction.doubt(f"{_name(partition)} answered {code_name(code)}")
        if not resend or code in NOT_APPENDED:
            self.sequences.set_back(partition, sequence)
        message = answer.message or code_name(code)
        log.debug("%s: %s was refused: %s", self.writer.transactional_id, _name(partition), message)
        self.refused.append(Refused(partition, code, message, outgoing, answer.record_errors, resend))

    def _was_refused(self, partition: TopicPartition) -> bool:
        return bool(self.refused) and any(refused.partition == partition for refused in self.refused)


def _name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"
