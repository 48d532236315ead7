"""A lane: one transactional writer, driven through its states by the answers of the target cluster.

A lane writes with the producer id and epoch that the driver's fence granted.  It never inits a producer and
never repeats a produce request: on any doubt it stops, and the driver fences again (docs/decisions/0001).

    state           event           next
    idle            added           open            partitions are part of the transaction; records may be sent
    open            added           open
    open            commit-sent     committing
    committing      answered        idle            committed
    committing      answer-lost     commit-unsure   ask again until answered: the outcome is already decided
    commit-unsure   answered        idle            committed
    open            abort-sent      aborting
    aborting        answered        idle            aborted; sequences go on, positions go back
    any             doubt           stopped         only a new fence helps

Invariants.  S: per partition, sequences continue over transactions of the epoch, also after an abort, so that no
batch is taken for a duplicate and silently dropped.  O: base offsets answered for a partition only grow; one that
does not means the batch was dropped as a duplicate, which is a doubt.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from twinlog.errors import ClusterUnreachable, FencedError, TransientError
from twinlog.relay import kafka_python, wire
from twinlog.relay.brokers import LATEST, Brokers, TopicPartition
from twinlog.relay.connection import Connection
from twinlog.relay.error_codes import (
    COORDINATOR_MOVED,
    FENCED,
    REFUSED_RECORDS,
    REFUSED_TOPIC,
    Code,
    code_name,
    error_for,
)
from twinlog.relay.relabel import relabel
from twinlog.relay.transform import Outgoing

MAX_IN_FLIGHT = 5
"""Requests per connection: brokers remember the last five batches of a producer (KIP-98)."""

SEQUENCE_WRAP = 1 << 31
_RETRY_SECONDS = 0.002
_PATIENCE_SECONDS = 30.0


class LaneState(StrEnum):
    """Where a lane stands."""

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
    """Who writes.  `transactional_id` None is the at-least-once writer: idempotent, without transactions."""

    transactional_id: str | None
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Written:
    """One batch the target has acknowledged, with the downstream offset of its first record."""

    partition: TopicPartition
    outgoing: Outgoing
    base_offset: int


@dataclass(frozen=True, slots=True)
class Refused:
    """One batch, or one partition, that the target will never take; the transaction has to be aborted.

    `outgoing` is None when the partition could not even be added to the transaction.
    """

    partition: TopicPartition
    code: int
    message: str
    outgoing: Outgoing | None = None
    record_errors: tuple[tuple[int, str], ...] = ()


@dataclass(slots=True)
class _Request:
    """A produce request in flight: what was sent, by partition, with the sequence it started at."""

    connection: Connection
    sent: dict[TopicPartition, tuple[Outgoing, int]]


@dataclass(slots=True)
class Lane:
    """One transactional writer on the target.  Single-threaded.

    `written` and `refused` collect what the acknowledgements said until they are taken.
    """

    brokers: Brokers
    writer: Writer
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    timeout_ms: int = 30_000
    state: LaneState = LaneState.IDLE
    written: list[Written] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    _added: set[TopicPartition] = field(default_factory=set)
    _requests: deque[_Request] = field(default_factory=deque)
    _last_base: dict[TopicPartition, int] = field(default_factory=dict)

    def _move(self, event: str) -> None:
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            raise self._doubt(f"{event} while {self.state.value}")
        self.state = following

    def _doubt(self, why: str) -> TransientError:
        """Stop the lane.  The caller raises the result; the driver fences again."""
        self.state = LaneState.STOPPED
        return TransientError(
            f"lane {self.writer.transactional_id} stopped: {why}",
            hint="nothing of its open transaction counts; the driver fences again",
            code="fence-again",
        )

    def begin(self, partitions: Collection[TopicPartition]) -> None:
        """Note where the target's partitions end now: everything this lane writes lies behind (invariant O).

        A second process that writes with the same epoch begins at the same sequences, so its batches would be
        taken for duplicates of the first one's and answered with offsets from before its own beginning.
        """
        topics = self.brokers.metadata({topic for topic, _ in partitions})
        known = [item for item in partitions if topics[item[0]].leaders.get(item[1], -1) >= 0]
        for item, end in self.brokers.offsets(known, LATEST).items():
            self._last_base[item] = end - 1

    # --- the transaction ---------------------------------------------------------------------------------

    def add(self, partitions: Collection[TopicPartition]) -> list[Refused]:
        """Make partitions part of the transaction; return those the target refuses (then none was added).

        Raises FencedError when another driver has taken the lane.
        """
        missing = [item for item in partitions if item not in self._added]
        if self.writer.transactional_id is None or not missing:
            if self.state is LaneState.IDLE:
                self._move("added")
            return []
        codes = self._until_settled(lambda: self._add(missing), "add partitions")
        refused = [
            Refused(item, code, f"cannot be written to: {code_name(code)}")
            for item, code in codes.items()
            if code in REFUSED_TOPIC or code == Code.UNKNOWN_TOPIC_OR_PARTITION
        ]
        if refused:
            return refused
        for code in codes.values():
            if code:
                self.state = LaneState.STOPPED
                raise error_for(code, f"AddPartitionsToTxn of {self.writer.transactional_id}", self._alias)
        self._added.update(missing)
        self._move("added")
        return []

    def commit(self) -> None:
        """Commit the transaction; every produce request must have been answered.

        When the answer is lost the outcome is nevertheless decided, so the question is repeated until it is
        answered.  Raises FencedError if the answer is that we were fenced: then only progress knows.
        """
        self._end(commit=True)

    def abort(self) -> None:
        """Abort the transaction.  Sequences go on (invariant S)."""
        self._end(commit=False)

    def _end(self, *, commit: bool) -> None:
        if self.state is LaneState.IDLE:
            return
        if self._requests:
            raise self._doubt("end of a transaction with unanswered produce requests")
        self._move("commit-sent" if commit else "abort-sent")
        if self.writer.transactional_id is not None and self._added:
            code = self._until_settled(lambda: {None: self._end_once(commit)}, "end the transaction")[None]
            if code:
                self.state = LaneState.STOPPED
                doing = f"EndTxn of {self.writer.transactional_id}"
                raise error_for(code, doing, self._alias)
        self._move("answered")
        self._added.clear()

    def _end_once(self, commit: bool) -> int:
        try:
            answer = self._coordinator().call(
                kafka_python.END_TXN,
                transactional_id=self.writer.transactional_id,
                producer_id=self.writer.producer_id,
                producer_epoch=self.writer.producer_epoch,
                committed=commit,
            )
        except ClusterUnreachable:
            if commit:
                self._move("answer-lost")
            raise
        return int(answer.error_code)

    def _add(self, partitions: Iterable[TopicPartition]) -> dict[Any, int]:
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        entry = kafka_python.ADD_PARTITIONS.request.AddPartitionsToTxnTopic
        answer = self._coordinator().call(
            kafka_python.ADD_PARTITIONS,
            v3_and_below_transactional_id=self.writer.transactional_id,
            v3_and_below_producer_id=self.writer.producer_id,
            v3_and_below_producer_epoch=self.writer.producer_epoch,
            v3_and_below_topics=[entry(name=name, partitions=numbers) for name, numbers in topics.items()],
        )
        return {
            (topic.name, item.partition_index): int(item.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for item in topic.results_by_partition
        }

    def _coordinator(self) -> Connection:
        connection = self.brokers.coordinator(self.writer.transactional_id or "")
        connection.keep_login()
        return connection

    def _until_settled(self, ask: Any, what: str) -> dict[Any, int]:
        """Repeat a question to the coordinator while it moves, is busy with our last marker, or cannot be reached.

        Both questions asked this way may be repeated: adding a partition twice and ending a transaction twice
        the same way change nothing.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        pause = _RETRY_SECONDS
        while True:
            try:
                codes: dict[Any, int] = ask()
            except ClusterUnreachable as error:
                self.brokers.close()
                failure: str = error.message
            else:
                values = set(codes.values())
                if values & FENCED:
                    self.state = LaneState.STOPPED
                    raise FencedError(
                        f"lane {self.writer.transactional_id} was fenced: another twinlog runs this flow",
                        hint="this one wrote nothing more; let one of them run",
                    )
                if not values & (COORDINATOR_MOVED | {Code.CONCURRENT_TRANSACTIONS}):
                    return codes
                failure = code_name(next(iter(values - {0})))
            if time.monotonic() > deadline:
                raise self._doubt(f"could not {what} within {_PATIENCE_SECONDS:.0f} s ({failure})")
            time.sleep(pause)
            pause = min(pause * 2, 0.25)

    @property
    def _alias(self) -> str:
        return self.brokers.settings.alias

    # --- the records -------------------------------------------------------------------------------------

    def send(self, batches: Mapping[TopicPartition, Outgoing]) -> None:
        """Send one batch for each of some partitions (already added), one request per leader, without waiting.

        Waits for older answers only to keep at most MAX_IN_FLIGHT requests on the way.
        """
        if self.state is not LaneState.OPEN:
            raise self._doubt(f"records sent while {self.state.value}")
        by_leader: dict[int, dict[TopicPartition, Outgoing]] = {}
        for partition, outgoing in batches.items():
            by_leader.setdefault(self.brokers.leader(*partition), {})[partition] = outgoing
        for node, group in by_leader.items():
            self._send_to(node, group)

    def _send_to(self, node: int, group: Mapping[TopicPartition, Outgoing]) -> None:
        connection = self.brokers.node(node, "produce")
        while connection.in_flight >= MAX_IN_FLIGHT:
            self._read_answer()
        connection.keep_login()
        sent: dict[TopicPartition, tuple[Outgoing, int]] = {}
        body: dict[str, list[tuple[int, memoryview]]] = {}
        for (topic, partition), outgoing in group.items():
            sequence = self.sequences.get((topic, partition), 0)
            count = outgoing.header.record_count
            self.sequences[topic, partition] = (sequence + count) % SEQUENCE_WRAP
            buffer = relabel(
                outgoing.buffer,
                outgoing.header,
                self.writer.producer_id,
                self.writer.producer_epoch,
                sequence,
                transactional=self.writer.transactional_id is not None,
            )
            body.setdefault(topic, []).append((partition, buffer))
            sent[topic, partition] = (outgoing, sequence)
        request = wire.produce_request(
            body, transactional_id=self.writer.transactional_id, timeout_ms=self.timeout_ms
        )
        self._requests.append(_Request(connection, sent))
        try:
            connection.send(wire.PRODUCE, wire.PRODUCE_VERSION, request)
        except ClusterUnreachable as error:
            raise self._doubt(error.message) from None

    def drain(self) -> None:
        """Wait for every produce request on the way."""
        while self._requests:
            self._read_answer()

    def take_written(self) -> list[Written]:
        """Return and forget what was acknowledged so far."""
        written, self.written = self.written, []
        return written

    def take_refused(self) -> list[Refused]:
        """Return and forget what was refused.  Only after `drain`: later batches of a refused partition follow it."""
        refused, self.refused = self.refused, []
        return refused

    def _read_answer(self) -> None:
        request = self._requests.popleft()
        try:
            payload = request.connection.receive(_fresh)
        except ClusterUnreachable as error:
            raise self._doubt(error.message) from None
        answers = {(item.topic, item.partition): item for item in wire.produce_response(payload)}
        for partition, (outgoing, sequence) in request.sent.items():
            answer = answers.get(partition)
            if answer is None:
                raise self._doubt(f"no answer for {partition[0]}-{partition[1]}")
            self._take_answer(partition, outgoing, sequence, answer)

    def _take_answer(
        self, partition: TopicPartition, outgoing: Outgoing, sequence: int, answer: wire.Produced
    ) -> None:
        count = outgoing.header.record_count
        refused_before = any(refused.partition == partition for refused in self.refused)
        if answer.error == 0:
            if answer.base_offset <= self._last_base.get(partition, -1):
                raise self._doubt(
                    f"{partition[0]}-{partition[1]} took a batch for a duplicate of offset {answer.base_offset}"
                )
            self._last_base[partition] = answer.base_offset + count - 1
            if refused_before:
                # A partition that knew nothing of this producer takes any first sequence: go on behind it.
                self.sequences[partition] = (sequence + count) % SEQUENCE_WRAP
            self.written.append(Written(partition, outgoing, answer.base_offset))
            return
        if refused_before:
            return  # sent behind a refused batch: out of order, by design
        if answer.error in REFUSED_RECORDS | REFUSED_TOPIC | {Code.UNKNOWN_TOPIC_OR_PARTITION}:
            self.sequences[partition] = sequence
            message = answer.message or code_name(answer.error)
            self.refused.append(Refused(partition, answer.error, message, outgoing, answer.record_errors))
            return
        if answer.error in FENCED:
            self.state = LaneState.STOPPED
            raise error_for(answer.error, f"records of {partition[0]}-{partition[1]}", self._alias)
        raise self._doubt(f"{partition[0]}-{partition[1]} answered {code_name(answer.error)}")


def _fresh(size: int) -> memoryview:
    return memoryview(bytearray(size))
