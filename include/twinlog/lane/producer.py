"""A lane: one transactional writer, its records and its transaction.

A lane writes with the producer id and epoch that the driver's fence granted.  It never initialises a producer and
never repeats a produce request whose answer was lost: on any doubt it stops, and the driver fences again
(docs/decisions/0001-fence.md).

Invariants.  S: sequences go on over transactions (lane/in_flight.py).  O: base offsets answered for a partition only
grow, from where it ended when the lane began; one that does not was answered to a dropped duplicate, or by a log that
lost its end: a doubt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from twinlog.batches.label.relabel import relabel
from twinlog.batches.outgoing import Outgoing
from twinlog.errors import ClusterUnreachable, TransientError, TwinlogError
from twinlog.lane.in_flight import Sequences
from twinlog.lane.predicted import PredictedOffsets
from twinlog.lane.produced import Refused, Written
from twinlog.lane.transaction import LaneState, Transaction, Writer
from twinlog.lane.writes import UNANSWERED_BATCHES, WRITE_ROUNDS, Round, rounds, writes
from twinlog.protocol import wire
from twinlog.protocol.brokers import Brokers, TopicPartition
from twinlog.protocol.error_codes import NOT_APPENDED, Code, code_name
from twinlog.protocol.list_offsets import LATEST
from twinlog.protocol.remedies import ErrorAction, Request, error_action
from twinlog.protocol.socket.connection import Connection, fresh_buffer
from twinlog.protocol.wire import Buffer

_PRODUCE_TIMEOUT_MS = 30_000
"""How long a leader may wait for the replicas before it answers."""


@dataclass(slots=True)
class _Sent:
    """One batch in flight, the sequence it started at, and where it will lie downstream if that can be foreseen."""

    outgoing: Outgoing
    sequence: int
    foreseen: int | None


@dataclass(slots=True)
class _Request:
    """A produce request in flight: what was sent, by partition."""

    connection: Connection
    sent: dict[TopicPartition, _Sent]


class Lane:
    """One transactional writer on the target.  Single-threaded.

    `written` and `refused` collect what the acknowledgements said until they are taken.  `sequences` are those
    the driver used up with this epoch.
    """

    def __init__(
        self,
        brokers: Brokers,
        writer: Writer,
        sequences: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self.brokers = brokers
        self.writer = writer
        self.transaction = Transaction(brokers, writer)
        self.sequences = Sequences(sequences)
        self.written: list[Written] = []
        self.refused: list[Refused] = []
        self._requests: deque[_Request] = deque()
        self._last_write = 0
        self._foresight = PredictedOffsets()

    def begin(self, partitions: Collection[TopicPartition]) -> dict[str, str]:
        """Note where the target's partitions end now: everything this lane writes lies behind (invariant O).

        Returns the ids of their topics, "" where the target tells none.

        A second process that writes with the same epoch begins at the same sequences, so its batches would be
        taken for duplicates of the first one's and answered with offsets from before its own beginning.
        """
        topics = self.brokers.metadata({topic for topic, _ in partitions})
        known = [item for item in partitions if topics[item[0]].is_led(item[1])]
        for item, end in self.brokers.offsets(known, LATEST).items():
            self.transaction.ends.reached[item] = end
        return {name: topic.topic_id for name, topic in topics.items()}

    def add(self, partitions: Collection[TopicPartition]) -> list[Refused]:
        """Make partitions part of the transaction; return those the target refuses (then none was added)."""
        if self.transaction.state is LaneState.IDLE and self.brokers.close_ended("produce"):
            self.transaction.ends.doubt()  # it was idle, or its broker was away when markers were written
        refused = self.transaction.add(partitions)
        return [
            Refused(item, code, "it cannot be written to", resend=code == Code.LEADER_NOT_AVAILABLE)
            for item, code in refused.items()
        ]

    def send(self, queues: Mapping[TopicPartition, Sequence[Outgoing]]) -> None:
        """Send batches of partitions that were added, one request a round and leader, without waiting.

        Waits only for answers to what was sent before the last write, or where those on the way would not fit into the
        socket's buffers.  The batches' memory has to stay as it is until `flush` or `drain` has returned.  Once
        something was refused nothing more is sent: whoever calls finds it in `refused` and gives the transaction up.
        """
        if self.transaction.state is not LaneState.OPEN:
            raise self.transaction.doubt(f"records sent while {self.transaction.state.value}")
        for write in writes(list(rounds(queues))):
            self._make_room(write)
            if self.refused:  # read just now: sequences were set back, and the transaction will be given up
                return
            self._write(write)

    def flush(self) -> None:
        """Wait until all that was sent has been handed over, and its memory may be used again."""
        for connection in {request.connection for request in self._requests}:
            try:
                connection.flush()
            except ClusterUnreachable as error:
                raise self.transaction.doubt(error.message) from None

    def drain(self) -> None:
        """Wait for every produce request on the way."""
        while self._requests:
            self._read_answer()

    def foreseen(self) -> list[Written] | None:
        """Return what the requests on the way will have written if nobody else writes there; None if unknown."""
        found: list[Written] = []
        for request in self._requests:
            for partition, sent in request.sent.items():
                if sent.foreseen is None:
                    return None
                found.append(Written(partition, sent.outgoing, sent.foreseen))
        return found

    def write_state(self, queues: Mapping[TopicPartition, Sequence[Outgoing]]) -> list[Refused]:
        """Add and send twinlog's own records, and wait for all that is on its way; return what was refused."""
        refused = self.add(list(queues))
        if refused:
            return refused
        self.send(queues)
        self.drain()
        return self.take_refused()

    def commit(self) -> None:
        """Commit the transaction; every produce request must have been answered."""
        self._end(commit=True)

    def settle(self) -> None:
        """Wait until the last transaction's end is in the logs.  Call when nothing more will be sent."""
        self.transaction.settle()

    def abort(self) -> None:
        """Abort the transaction.  Sequences go on (invariant S)."""
        self._end(commit=False)

    def take_written(self) -> list[Written]:
        """Return and forget what was acknowledged so far."""
        written, self.written = self.written, []
        return written

    def take_refused(self) -> list[Refused]:
        """Return and forget what was refused.  Only after `drain`: later batches of a refused partition follow it."""
        refused, self.refused = self.refused, []
        return refused

    def _end(self, *, commit: bool) -> None:
        if self._requests:
            raise self.transaction.doubt("end of a transaction with unanswered produce requests")
        added = self.transaction.added
        self.transaction.end(commit=commit)
        self._foresight.ended(added)

    def _make_room(self, write: Sequence[Round]) -> None:
        """Read answers until little more than the last write is on the way, and there is room for those to this one."""
        most = max(self._last_write, WRITE_ROUNDS)
        unanswered = sum(len(request.sent) for request in self._requests) + sum(map(len, write))
        while self._requests and (len(self._requests) > most or unanswered > UNANSWERED_BATCHES):
            unanswered -= len(self._requests[0].sent)
            self._read_answer()

    def _write(self, write: Sequence[Round]) -> None:
        """Make the requests of some rounds, then send them; ends with the first round that has no way to go."""
        bodies: dict[Connection, list[list[Buffer]]] = {}
        for batches in write:
            for node, group in self._by_leader(batches).items():
                try:
                    connection = self.brokers.node(node, "produce")
                except ClusterUnreachable as error:  # nothing was sent, no sequence used
                    self._unsent(group, error)
                    continue
                if connection not in bodies:
                    connection.keep_login()
                bodies.setdefault(connection, []).append(self._request(connection, group))
            if self.refused:
                break
        self._last_write = sum(map(len, bodies.values()))
        for connection, requests in bodies.items():
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
                leader = self.brokers.leader(*partition)
            except TwinlogError as error:  # nobody leads it, or it has gone
                # One election is waited for, not one after the other: the transaction is open meanwhile.
                waited = True
                self._unsent({partition: outgoing}, error)
            else:
                found.setdefault(leader, {})[partition] = outgoing
        return found

    def _request(self, connection: Connection, group: Round) -> list[Buffer]:
        """Relabel a batch for each partition, and note what will be on its way."""
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
                transactional=self.writer.transactional_id is not None,
            )
            body.setdefault(partition[0], []).append((partition[1], buffer))
            foreseen = self._foresight.sent(partition, outgoing.header.record_count)
            sent[partition] = _Sent(outgoing, sequence, foreseen)
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
        try:
            payload = request.connection.receive(fresh_buffer)
        except ClusterUnreachable as error:
            raise self.transaction.doubt(error.message) from None
        for answer in wire.produce_response(payload):
            partition = answer.topic, answer.partition
            sent = request.sent.pop(partition, None)
            if sent is None:
                raise self.transaction.doubt(f"an answer for {_name(partition)}, which was not asked for")
            if answer.error == 0:
                self._acknowledged(partition, sent.outgoing, sent.sequence, answer.base_offset)
            else:
                self._foresight.refused(partition)
                self._rejected(partition, sent.outgoing, sent.sequence, answer)
        if request.sent:
            raise self.transaction.doubt(f"no answer for {_name(next(iter(request.sent)))}")

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
        self._foresight.acknowledged(partition, end)
        self.sequences.found(partition)
        if self._was_refused(partition):
            # A partition that knew nothing of this producer takes any first sequence: go on behind it.
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
            return  # it was sent behind a refused batch: out of order, by design
        out_of_order = code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
        resend = what is ErrorAction.RESEND or (
            out_of_order and self.sequences.guess_lower(partition, sequence)
        )
        if not resend and what not in {ErrorAction.SPLIT, ErrorAction.END_RANGE}:
            raise self.transaction.doubt(f"{_name(partition)} answered {code_name(code)}")
        if not resend or code in NOT_APPENDED:
            self.sequences.set_back(partition, sequence)
        message = answer.message or code_name(code)
        self.refused.append(Refused(partition, code, message, outgoing, answer.record_errors, resend))

    def _was_refused(self, partition: TopicPartition) -> bool:
        return bool(self.refused) and any(refused.partition == partition for refused in self.refused)


def _name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"
