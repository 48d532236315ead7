"""A lane: one transactional writer, its records and its transaction.

A lane writes with the producer id and epoch that the driver's fence granted.  It never inits a producer and
never repeats a produce request whose answer was lost: on any doubt it stops, and the driver fences again
(docs/decisions/0001-fence.md).

A request that was answered with "not the leader", "not enough replicas" and the like is over, but its batches may be
in the log or not.  Their transaction is given up, and the next batch of the partition tries the sequences that may be
next from the last one downwards: one that is too high is refused (OUT_OF_ORDER) and not written, and one that is too
low, which would be taken for a duplicate, is never reached (docs/decisions/0005-leader-moves.md).

Invariants.  S: per partition, sequences continue over the transactions of an epoch, also after an abort, so that
no batch is taken for a duplicate and silently dropped.  O: base offsets answered for a partition only grow, from
where it ended when the lane began; one that does not was answered to a dropped duplicate, which is a doubt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from twinlog.errors import ClusterUnreachable, TransientError, TwinlogError
from twinlog.relay import wire
from twinlog.relay.brokers import LATEST, Brokers, TopicPartition
from twinlog.relay.connection import Connection, fresh_buffer
from twinlog.relay.error_codes import Code, code_name
from twinlog.relay.foresight import Foresight
from twinlog.relay.relabel import relabel
from twinlog.relay.remedies import Remedy, Request, remedy
from twinlog.relay.transaction import LaneState, Transaction, Writer
from twinlog.relay.transform import Outgoing

MAX_IN_FLIGHT = 5
"""Requests per connection: brokers remember the last five batches of a producer (KIP-98)."""

SEQUENCE_WRAP = 1 << 31
"""Sequences are int32 and go on from 0 behind the largest."""


@dataclass(frozen=True, slots=True)
class Written:
    """One batch the target has acknowledged, with the downstream offset of its first record."""

    partition: TopicPartition
    outgoing: Outgoing
    base_offset: int


@dataclass(frozen=True, slots=True)
class Refused:
    """One batch, or one partition, that the target did not take; the transaction has to be aborted.

    `outgoing` is None when the partition could not even be added to the transaction.  With `resend` it will be
    taken when its leader is found again, otherwise never.
    """

    partition: TopicPartition
    code: int
    message: str
    outgoing: Outgoing | None = None
    record_errors: tuple[tuple[int, str], ...] = ()
    resend: bool = False


@dataclass(frozen=True, slots=True)
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
        *,
        timeout_ms: int = 30_000,
    ) -> None:
        self.brokers = brokers
        self.writer = writer
        self.transaction = Transaction(brokers, writer)
        self.sequences = dict(sequences or {})
        self.written: list[Written] = []
        self.refused: list[Refused] = []
        self._timeout_ms = timeout_ms
        self._requests: deque[_Request] = deque()
        self._last_base: dict[TopicPartition, int] = {}
        self._candidates: dict[TopicPartition, list[int]] = {}
        self._foresight = Foresight()

    def begin(self, partitions: Collection[TopicPartition]) -> dict[str, str]:
        """Note where the target's partitions end now: everything this lane writes lies behind (invariant O).

        Returns the ids of their topics, "" where the target tells none.

        A second process that writes with the same epoch begins at the same sequences, so its batches would be
        taken for duplicates of the first one's and answered with offsets from before its own beginning.
        """
        topics = self.brokers.metadata({topic for topic, _ in partitions})
        known = [item for item in partitions if topics[item[0]].leaders.get(item[1], -1) >= 0]
        for item, end in self.brokers.offsets(known, LATEST).items():
            self._last_base[item] = end - 1
        return {name: topic.topic_id for name, topic in topics.items()}

    def add(self, partitions: Collection[TopicPartition]) -> list[Refused]:
        """Make partitions part of the transaction; return those the target refuses (then none was added)."""
        refused = self.transaction.add(partitions)
        return [Refused(item, code, "it cannot be written to") for item, code in refused.items()]

    def send(self, batches: Mapping[TopicPartition, Outgoing]) -> None:
        """Send one batch for each of some partitions (already added), one request per leader, without waiting.

        Waits for older answers only to keep at most MAX_IN_FLIGHT requests on the way.  Once something was refused
        nothing more is sent: whoever calls finds it in `refused` and gives the transaction up.
        """
        if self.transaction.state is not LaneState.OPEN:
            raise self.transaction.doubt(f"records sent while {self.transaction.state.value}")
        by_leader: dict[int, dict[TopicPartition, Outgoing]] = {}
        for partition, outgoing in batches.items():
            try:
                leader = self.brokers.leader(*partition)
            except TwinlogError as error:  # nobody leads it, or it has gone
                self._unsent({partition: outgoing}, error)
            else:
                by_leader.setdefault(leader, {})[partition] = outgoing
        for node, group in by_leader.items():
            self._send_to(node, group)

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

    def write_state(self, batches: Mapping[TopicPartition, Outgoing]) -> list[Refused]:
        """Add and send twinlog's own records, and wait for all that is on its way; return what was refused."""
        refused = self.add(list(batches))
        if refused:
            return refused
        self.send(batches)
        self.drain()
        return self.take_refused()

    def commit(self) -> None:
        """Commit the transaction; every produce request must have been answered."""
        self._end(commit=True)

    def settle(self) -> None:
        """Wait until every reader sees what was committed last.  Call when nothing more will be sent."""
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

    def _send_to(self, node: int, group: Mapping[TopicPartition, Outgoing]) -> None:
        try:
            connection = self.brokers.node(node, "produce")
        except ClusterUnreachable as error:  # nothing was sent, no sequence used
            self._unsent(group, error)
            return
        while connection.in_flight >= MAX_IN_FLIGHT:
            self._read_answer()
        if self.refused:  # read just now: sequences were set back, and the transaction will be given up
            return
        connection.keep_login()
        sent: dict[TopicPartition, _Sent] = {}
        body: dict[str, list[tuple[int, memoryview]]] = {}
        for partition, outgoing in group.items():
            sequence = self._next_sequence(partition, outgoing)
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
        request = wire.produce_request(
            body, transactional_id=self.writer.transactional_id, timeout_ms=self._timeout_ms
        )
        self._requests.append(_Request(connection, sent))
        try:
            connection.send(wire.PRODUCE, wire.PRODUCE_VERSION, request)
        except ClusterUnreachable as error:
            raise self.transaction.doubt(error.message) from None

    def _unsent(self, group: Mapping[TopicPartition, Outgoing], error: TwinlogError) -> None:
        transient = isinstance(error, TransientError)
        code = Code.LEADER_NOT_AVAILABLE if transient else Code.UNKNOWN_TOPIC_OR_PARTITION
        self.refused += [
            Refused(partition, code, error.message, outgoing, resend=transient)
            for partition, outgoing in group.items()
            if not self._was_refused(partition)
        ]

    def _next_sequence(self, partition: TopicPartition, outgoing: Outgoing) -> int:
        sequence = self.sequences.get(partition, 0)
        self._sequence_behind(partition, outgoing, sequence)
        return sequence

    def _sequence_behind(self, partition: TopicPartition, outgoing: Outgoing, sequence: int) -> None:
        self.sequences[partition] = (sequence + outgoing.header.record_count) % SEQUENCE_WRAP

    def _read_answer(self) -> None:
        request = self._requests.popleft()
        try:
            payload = request.connection.receive(fresh_buffer)
        except ClusterUnreachable as error:
            raise self.transaction.doubt(error.message) from None
        answers = {(item.topic, item.partition): item for item in wire.produce_response(payload)}
        for partition, sent in request.sent.items():
            answer = answers.get(partition)
            if answer is None:
                raise self.transaction.doubt(f"no answer for {_name(partition)}")
            if answer.error == 0:
                self._acknowledged(partition, sent.outgoing, sent.sequence, answer.base_offset)
            else:
                self._foresight.refused(partition)
                self._rejected(partition, sent.outgoing, sent.sequence, answer)

    def _acknowledged(
        self, partition: TopicPartition, outgoing: Outgoing, sequence: int, base_offset: int
    ) -> None:
        if base_offset <= self._last_base.get(partition, -1):
            raise self.transaction.doubt(
                f"{_name(partition)} took a batch for a duplicate of offset {base_offset}"
            )
        self._last_base[partition] = base_offset + outgoing.header.record_count - 1
        self._foresight.acknowledged(partition, base_offset + outgoing.header.record_count)
        self._candidates.pop(partition, None)
        if self._was_refused(partition):
            # A partition that knew nothing of this producer takes any first sequence: go on behind it.
            self._sequence_behind(partition, outgoing, sequence)
        self.written.append(Written(partition, outgoing, base_offset))

    def _rejected(
        self, partition: TopicPartition, outgoing: Outgoing, sequence: int, answer: wire.Produced
    ) -> None:
        code = answer.error
        what = remedy(Request.PRODUCE, code)
        if what in {Remedy.FENCED, Remedy.STOP}:
            raise self.transaction.stop(Request.PRODUCE, code, f"records of {_name(partition)}")
        if what is Remedy.RESEND:
            self._may_be_written(partition, outgoing, sequence)
        if self._was_refused(partition):
            return  # it was sent behind a refused batch: out of order, by design
        resend = what is Remedy.RESEND or self._guessed_too_high(partition, sequence, code)
        if not resend and what is not Remedy.END_RANGE:
            raise self.transaction.doubt(f"{_name(partition)} answered {code_name(code)}")
        if not resend:
            self.sequences[partition] = sequence
        message = answer.message or code_name(code)
        self.refused.append(Refused(partition, code, message, outgoing, answer.record_errors, resend))

    def _may_be_written(self, partition: TopicPartition, outgoing: Outgoing, sequence: int) -> None:
        """Note that the next sequence is this batch's or the one behind it; go on with the later one."""
        candidates = self._candidates.setdefault(partition, [])
        behind = (sequence + outgoing.header.record_count) % SEQUENCE_WRAP
        candidates += [item for item in (sequence, behind) if item not in candidates]
        self.sequences[partition] = candidates[-1]

    def _guessed_too_high(self, partition: TopicPartition, sequence: int, code: int) -> bool:
        """Whether `sequence` was a guess and the broker expects a lower one; go on with the next lower guess."""
        candidates = self._candidates.get(partition, [])
        if code != Code.OUT_OF_ORDER_SEQUENCE_NUMBER or candidates[-1:] != [sequence] or len(candidates) < 2:
            return False
        candidates.pop()
        self.sequences[partition] = candidates[-1]
        return True

    def _was_refused(self, partition: TopicPartition) -> bool:
        return bool(self.refused) and any(refused.partition == partition for refused in self.refused)


def _name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"
