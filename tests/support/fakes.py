"""A target and a source in memory that speak the bytes of Produce v8 and Fetch v11, for tests without brokers.

`FakeTarget` keeps what a real broker keeps: epochs, sequences with a window of five, open transactions, markers.
It can be told to answer with an error code, for all partitions of a request or for some, or to do what it is asked and
lose the answer.

    target = FakeTarget(["A.t"]); target.faults["end_txn"] = [LOSE]
"""

from __future__ import annotations

import struct
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from crc32c import crc32c
from kafka.protocol.consumer import FetchRequest, FetchResponse

from twinlog.batches.header import CHECKED_FROM, BatchHeader
from twinlog.batches.record import Record, read_records
from twinlog.errors import ClusterUnreachable, FormatError, TransientError
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import fetch_by_id, kafka_python, transactions, wire
from twinlog.protocol.brokers import EARLIEST, TopicMetadata
from twinlog.protocol.errors import Code

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
TOPIC_RESPONSE = FetchResponse.FetchableTopicResponse
PARTITION_DATA = TOPIC_RESPONSE.PartitionData

LOSE = "lose the answer"
DIE = "die before doing it"


@dataclass(frozen=True)
class Appended:
    """A fault of a produce request: the batches are appended, the answer says `code` all the same."""

    code: int


@dataclass
class Entry:
    """A batch in a log: where it begins, who wrote it, and whether its transaction is decided.

    `owed` is how it was decided when its partition was passed over.
    """

    base: int
    header: BatchHeader
    batch: bytes
    state: str
    owed: str = ""


@dataclass
class Producer:
    """What a broker knows of one producer id."""

    epoch: int
    open: set[TopicPartition] = field(default_factory=set)
    next_sequence: dict[TopicPartition, int] = field(default_factory=dict)
    window: dict[TopicPartition, deque[tuple[int, int]]] = field(default_factory=dict)


class FakeConnection:
    """A connection to a fake: requests are done when sent, answers wait in order.

    What is sent `behind` is read as late as may be: when it is waited for.  Memory used again too early shows.
    """

    def __init__(
        self, do: Callable[[int, memoryview], bytes], fetch_version: int = wire.FETCH_VERSION
    ) -> None:
        self._do = do
        self._fetch_version = fetch_version
        self._under_way: list[tuple[int, Iterable[Any]]] = []
        self._answers: deque[bytes | None] = deque()
        self.muted_until, self.address = 0.0, "fake:9092"
        self.writes: list[int] = []
        """How many requests each write held."""

    @property
    def in_flight(self) -> int:
        return len(self._under_way) + len(self._answers)

    @property
    def buffered(self) -> bool:
        return bool(self._answers)

    def offers(self, api: int) -> int:
        return self._fetch_version

    def keep_login(self) -> None:
        pass

    def mute(self, throttle_ms: int) -> None:
        self.muted_until = max(self.muted_until, time.monotonic() + throttle_ms / 1000)

    def close(self) -> None:
        self._under_way.clear()
        self._answers.clear()

    def send(self, api: int, version: int, *bodies: Iterable[Any], write_behind: bool = False) -> None:
        self.flush()
        self.writes.append(len(bodies))
        self._under_way = [(api, body) for body in bodies]
        if not write_behind:
            self.flush()

    def flush(self) -> None:
        under_way, self._under_way = self._under_way, []
        for api, body in under_way:
            self._answers.append(self._do(api, memoryview(b"".join(bytes(part) for part in body))))

    def receive(self, allocate: Callable[[int], memoryview]) -> memoryview:
        self.flush()
        answer = self._answers.popleft()
        if answer is None:
            raise ClusterUnreachable("the answer was lost")
        payload = allocate(len(answer))
        payload[:] = answer
        return payload


class FakeTarget:
    """A target cluster of one broker."""

    def __init__(self, topics: Iterable[str], partitions: int = 4) -> None:
        self.settings = SimpleNamespace(alias="B", rack="")
        self.topics = dict.fromkeys(topics, partitions)
        self.logs: defaultdict[TopicPartition, list[Entry]] = defaultdict(list)
        self.producers: dict[int, Producer] = {}
        self.faults: defaultdict[str, list[Any]] = defaultdict(list)
        self.throttle_ms: list[int] = []
        self.refuse: dict[TopicPartition, Callable[[list[Record]], list[int]]] = {}
        self.max_message_bytes: dict[str, int] = {}
        self.leaderless: set[TopicPartition] = set()
        self.topic_ids: dict[str, str] = {}
        self.calls: list[str] = []
        self.look_ups = 0
        self.closes_connections = False
        self._connection = FakeConnection(self._produce)

    def init(self, producer_id: int = 7) -> tuple[int, int]:
        """InitProducerId by a new process: abort what is open, raise the epoch; old connections are gone."""
        self._connection = FakeConnection(self._produce)
        known = self.producers.get(producer_id)
        if known is not None:
            self._decide(producer_id, "aborted")
        epoch = known.epoch + 1 if known else 0
        self.producers[producer_id] = Producer(epoch)
        return producer_id, epoch

    def stamps(self, partition: TopicPartition) -> dict[int, tuple[int, int]]:
        """Timestamp (ms) and codec of each record in a partition, by downstream offset."""
        return {
            entry.base + step: (record.timestamp, entry.header.codec)
            for entry in self.logs[partition]
            if not entry.header.control
            for step, record in enumerate(read_records(entry.header, memoryview(entry.batch)))
        }

    def committed(self, partition: TopicPartition) -> list[tuple[int, bytes]]:
        """(downstream offset, end of the record) of what a read_committed consumer sees."""
        return [
            (entry.base + step, bytes(record.rest))
            for entry in self.logs[partition]
            if entry.state == "committed" and not entry.header.control
            for step, record in enumerate(read_records(entry.header, memoryview(entry.batch)))
        ]

    # --- what the relay asks ---------------------------------------------------------------------------------

    def close(self) -> None:
        pass

    def leader(self, topic: str, partition: int, seconds: float = 0.0) -> int:
        if (topic, partition) in self.leaderless:
            raise TransientError(f"{topic}-{partition} has no leader")
        return 1

    def known_leader(self, topic: str, partition: int) -> int:
        return -1 if (topic, partition) in self.leaderless else 1

    def forget_leaders(self) -> None:
        pass

    def forget_coordinators(self) -> None:
        pass

    def close_ended(self, purpose: str) -> bool:
        closed, self.closes_connections = self.closes_connections, False
        return closed

    def node(self, node: int, purpose: str) -> Any:
        if purpose == "coordinate":
            return SimpleNamespace(offers=lambda _: 0, call=self._describe_producers)
        return self._connection

    def metadata(self, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        return {
            name: TopicMetadata(
                name,
                0 if name in self.topics else Code.UNKNOWN_TOPIC_OR_PARTITION,
                {n: -1 if (name, n) in self.leaderless else 1 for n in range(self.topics.get(name, 0))},
                self.topic_ids.get(name, ""),
            )
            for name in topics
        }

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        groups: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for item in partitions:
            groups[self.leader(*item)].append(item)
        return groups

    def offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int, *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        return {item: self._stable(item) if read_committed else self._end(item) for item in partitions}

    def _stable(self, item: TopicPartition) -> int:
        return min(
            (entry.base for entry in self.logs[item] if entry.state == "open"), default=self._end(item)
        )

    def _describe_producers(self, api: Any, topics: Iterable[Any]) -> Any:
        """KIP-664: whose transactions are open in some partitions, and from where on."""
        assert api is kafka_python.DESCRIBE_PRODUCERS

        def described(name: str, number: int) -> Any:
            opened: dict[int, Any] = {}
            for entry in self.logs[name, number]:
                if entry.state == "open":
                    opened.setdefault(entry.header.producer_id, entry)
            active = [
                SimpleNamespace(
                    producer_id=producer_id,
                    producer_epoch=first.header.producer_epoch,
                    current_txn_start_offset=first.base,
                )
                for producer_id, first in opened.items()
            ]
            return SimpleNamespace(partition_index=number, error_code=0, active_producers=active)

        return SimpleNamespace(
            topics=[
                SimpleNamespace(
                    name=it.name, partitions=[described(it.name, n) for n in it.partition_indexes]
                )
                for it in topics
            ]
        )

    def coordinator(self, transactional_id: str) -> Any:
        self.look_ups += 1
        return SimpleNamespace(ask=self._ask, keep_login=lambda: None)

    def _ask(self, api: int, version: int, body: bytes) -> memoryview:
        """Read the request and write the answer by kafka-python, as a broker would."""
        known = kafka_python.ADD_PARTITIONS if api == transactions.ADD_PARTITIONS else kafka_python.END_TXN
        request = known.request.decode(body, version=version)
        if known is kafka_python.ADD_PARTITIONS:
            fields = self._faulty("add", lambda: self._add(request), self._add_refused(request))
        else:
            fields = self._faulty("end_txn", lambda: self._end_txn(request), _error)
        return memoryview(known.response(version=version, throttle_time_ms=0, **fields).encode())

    def _faulty(self, what: str, do: Callable[[], Any], refused: Callable[..., Any]) -> Any:
        self.calls.append(what)
        fault = self.faults[what].pop(0) if self.faults[what] else None
        if fault == DIE:
            raise ClusterUnreachable("the broker died")
        if fault == LOSE:
            do()
            raise ClusterUnreachable("the answer was lost")
        return refused(error_code=fault) if fault is not None else do()

    def _add(self, request: Any) -> Any:
        producer = self.producers[request.v3_and_below_producer_id]
        fenced = producer.epoch != request.v3_and_below_producer_epoch
        wanted = [(it.name, number) for it in request.v3_and_below_topics for number in it.partitions]
        unknown = [item for item in wanted if item[1] >= self.topics.get(item[0], 0)]
        if not fenced and not unknown:
            producer.open.update(wanted)

        def code(item: TopicPartition) -> int:
            if fenced:
                return Code.PRODUCER_FENCED
            if not unknown:
                return 0
            return Code.UNKNOWN_TOPIC_OR_PARTITION if item in unknown else Code.OPERATION_NOT_ATTEMPTED

        return _add_answer({item: code(item) for item in wanted})

    def _add_refused(self, request: Any) -> Callable[..., Any]:
        """The first partition is at fault; the others are then not even tried."""
        first, *others = ((it.name, n) for it in request.v3_and_below_topics for n in it.partitions)
        untried = dict.fromkeys(others, int(Code.OPERATION_NOT_ATTEMPTED))
        return lambda error_code: _add_answer({first: error_code} | untried)

    def _end_txn(self, request: Any) -> Any:
        producer = self.producers[request.producer_id]
        if producer.epoch != request.producer_epoch:
            return _error(Code.PRODUCER_FENCED)
        self._decide(request.producer_id, "committed" if request.committed else "aborted")
        return _error(0)

    def _decide(self, producer_id: int, state: str) -> None:
        producer = self.producers[producer_id]
        for partition in producer.open:
            unended = [
                entry
                for entry in self.logs[partition]
                if entry.header.producer_id == producer_id and entry.state == "open"
            ]
            if partition in self.leaderless:  # passed over: KAFKA-20734
                for entry in unended:
                    entry.owed = entry.owed or state
                continue
            for entry in unended:
                entry.state = state
            marker = BatchHeader(0, 49, 0, 2, 0, 0x30, 0, 0, 0, producer_id, 0, -1, 0)
            self.logs[partition].append(Entry(self._end(partition), marker, b"", state))
        producer.open = set()

    def _end(self, partition: TopicPartition) -> int:
        log = self.logs[partition]
        return log[-1].base + log[-1].header.last_offset_delta + 1 if log else 0

    # --- produce ---------------------------------------------------------------------------------------------

    def _produce(self, api: int, body: memoryview) -> bytes | None:
        assert api == wire.PRODUCE
        self.calls.append("produce")
        of_request = self.faults["produce"].pop(0) if self.faults["produce"] else None
        answers: dict[str, list[bytes]] = {}
        for topic, partitions in _read_produce(body).items():
            for number, batch in partitions:
                fault = of_request.get((topic, number)) if isinstance(of_request, dict) else of_request
                code, base, errors = (
                    (fault, -1, []) if isinstance(fault, int) else self._append((topic, number), batch)
                )
                if isinstance(fault, Appended) and code == 0:
                    code, base = fault.code, -1
                answer = struct.pack(">ihqqqi", number, code, base, -1, 0, len(errors))
                answer += b"".join(struct.pack(">i", index) + wire.string("too bad") for index in errors)
                answers.setdefault(topic, []).append(answer + wire.string(None))
        return None if of_request == LOSE else self._in_an_order_of_its_own(answers)

    def _in_an_order_of_its_own(self, answers: dict[str, list[bytes]]) -> bytes:
        """Answer as brokers do, which keep what they were given in hash maps."""
        shuffled = Random(len(self.calls))
        out = struct.pack(">i", len(answers))
        for topic in shuffled.sample(sorted(answers), len(answers)):
            of_topic = shuffled.sample(answers[topic], len(answers[topic]))
            out += wire.string(topic) + struct.pack(">i", len(of_topic)) + b"".join(of_topic)
        throttle_ms = self.throttle_ms.pop(0) if self.throttle_ms else 0
        return out + struct.pack(">i", throttle_ms)

    def _append(self, item: TopicPartition, batch: bytes) -> tuple[int, int, list[int]]:
        header = BatchHeader.read(batch)
        if crc32c(batch[CHECKED_FROM:]) != header.crc:
            return Code.CORRUPT_MESSAGE, -1, []
        if not _holds_its_records(header, batch):
            return Code.INVALID_RECORD, -1, []
        if len(batch) > self.max_message_bytes.get(item[0], len(batch)):
            return Code.MESSAGE_TOO_LARGE, -1, []
        producer = self.producers[header.producer_id]
        if header.producer_epoch != producer.epoch:
            return Code.INVALID_PRODUCER_EPOCH, -1, []
        if item not in producer.open and header.transactional:
            return Code.INVALID_TXN_STATE, -1, []
        window = producer.window.setdefault(item, deque(maxlen=5))
        for sequence, base in window:
            if sequence == header.base_sequence:
                return 0, base, []  # taken for a duplicate, silently dropped
        if header.base_sequence != producer.next_sequence.get(item, header.base_sequence):
            return Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, []
        culprits = self.refuse.get(item, lambda _: [])(list(read_records(header, memoryview(batch))))
        if culprits:
            return Code.INVALID_TIMESTAMP, -1, culprits
        base = self._end(item)
        window.append((header.base_sequence, base))
        producer.next_sequence[item] = header.base_sequence + header.record_count
        state = "open" if header.transactional else "committed"
        self.logs[item].append(Entry(base, header, batch, state))
        return 0, base, []


@dataclass
class FakeSession:
    """A fetch session: its number, the epoch of its last question, and what is wanted by (topic id, partition)."""

    number: int
    epoch: int = 0
    wanted: dict[tuple[UUID, int], int] = field(default_factory=dict)


class FakeSource:
    """A source cluster of one broker, made of batches with their upstream offsets."""

    def __init__(
        self,
        logs: dict[TopicPartition, list[bytes]],
        *,
        block_bytes: int = 1 << 20,
        fetch_version: int = wire.FETCH_VERSION,
    ) -> None:
        self.settings = SimpleNamespace(alias="A", rack="", request_timeout_ms=30_000)
        self.logs = logs
        self.aborted: dict[TopicPartition, list[tuple[int, int]]] = {}
        self.block_bytes = block_bytes
        self.errors: dict[TopicPartition, list[int]] = {}
        self.log_start = 0
        self.topic_id = TOPIC_ID
        self.requests_left: int | None = None
        self.cut_at: set[int] = set()
        self.fetches = 0
        self.found_leader, self.elected = -1, 1
        self.session: FakeSession | None = None
        self.forgets_session_at = -1
        self.left_out = 0
        by_id = fetch_version >= fetch_by_id.VERSION
        self._connection = FakeConnection(self._fetch_by_id if by_id else self._fetch, fetch_version)

    def close(self) -> None:
        pass

    def known_leader(self, topic: str, partition: int) -> int:
        return self.found_leader

    def forget_leaders(self) -> None:
        self.found_leader = -1

    def forget_leader(self, topic: str, partition: int) -> None:
        self.found_leader = -1

    def drop(self, connection: FakeConnection) -> None:
        connection.close()
        self.session = None

    def metadata(self, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        self._count()
        self.found_leader = self.elected
        return {name: TopicMetadata(name, 0, {}, self.topic_id) for name in topics}

    def offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        assert timestamp == EARLIEST
        return dict.fromkeys(partitions, self.log_start)

    def _count(self) -> None:
        """Die when the requests left are used up."""
        if self.requests_left is not None:
            self.requests_left -= 1
            if self.requests_left < 0:
                raise ClusterUnreachable("the source died")

    def _cut(self) -> None:
        """Lose the connection at some of the fetches, counted from 0."""
        self.fetches += 1
        if self.fetches - 1 in self.cut_at:
            raise ClusterUnreachable("the connection was cut")

    def node(self, node: int, purpose: str) -> FakeConnection:
        assert node == 1
        return self._connection

    def reconnect(self) -> None:
        """Forget the answers of a process that is gone."""
        self._connection.close()

    def _fetch(self, api: int, body: memoryview) -> bytes:
        assert api == wire.FETCH
        self._count()
        self._cut()
        wanted = _read_fetch(body)
        out = bytes(4) + struct.pack(">hi", 0, 0) + struct.pack(">i", len(wanted))
        for topic, partitions in wanted.items():
            out += wire.string(topic) + struct.pack(">i", len(partitions))
            for number, offset in partitions:
                item = (topic, number)
                errors = self.errors.get(item, [])
                code = errors.pop(0) if errors else 0
                block = b"" if code else self._block(item, offset)
                aborted = self._aborted(item, offset)
                end = self._end(item)
                out += struct.pack(">ihqqqi", number, code, end, end, 0, len(aborted))
                out += b"".join(struct.pack(">qq", *pair) for pair in aborted)
                out += struct.pack(">ii", -1, len(block)) + block
        return out

    def _fetch_by_id(self, api: int, body: memoryview) -> bytes:
        """Fetch v13 with sessions, read and written by kafka-python's schema."""
        assert (api, body[0]) == (wire.FETCH, 0)
        self._count()
        self._cut()
        asked = FetchRequest.decode(bytes(body[1:]), version=fetch_by_id.VERSION)
        if self.session is not None and self.session.epoch == self.forgets_session_at:
            self.session, self.forgets_session_at = None, -1
            return _fetched_by_id(Code.FETCH_SESSION_ID_NOT_FOUND, 0, [])
        if self.session is None or asked.session_id == 0:
            assert (asked.session_id, asked.session_epoch) == (0, 0)
            self.session = FakeSession(4711)
        elif (asked.session_id, asked.session_epoch) != (self.session.number, self.session.epoch + 1):
            return _fetched_by_id(Code.INVALID_FETCH_SESSION_EPOCH, 0, [])
        else:
            self.session.epoch += 1
        wanted = self.session.wanted
        for topic in asked.topics:
            wanted.update({(topic.topic_id, item.partition): item.fetch_offset for item in topic.partitions})
        for topic in asked.forgotten_topics_data:
            for partition in topic.partitions:
                del wanted[topic.topic_id, partition]
                self.left_out += 1
        entries = [self._entry(*key, offset) for key, offset in wanted.items()]
        return _fetched_by_id(0, self.session.number, [it for it in entries if it is not None])

    def _entry(self, topic_id: UUID, partition: int, offset: int) -> Any:
        """What a session answers for a partition: nothing, if there is nothing new."""
        item = ("t", partition)
        errors = self.errors.get(item, [])
        ours = topic_id.bytes == fetch_by_id.id_bytes(self.topic_id)
        code = errors.pop(0) if errors else 0 if ours else Code.UNKNOWN_TOPIC_ID
        block = b"" if code else self._block(item, offset)
        if not code and not block:
            return None
        aborted = [
            PARTITION_DATA.AbortedTransaction(producer_id=producer, first_offset=first)
            for producer, first in self._aborted(item, offset)
        ]
        data = PARTITION_DATA(
            partition_index=partition,
            error_code=code,
            high_watermark=self._end(item),
            last_stable_offset=self._end(item),
            log_start_offset=0,
            aborted_transactions=aborted or None,
            preferred_read_replica=-1,
            records=block,
        )
        return TOPIC_RESPONSE(topic_id=topic_id, partitions=[data])

    def _aborted(self, item: TopicPartition, offset: int) -> list[tuple[int, int]]:
        return still_hiding(self.aborted.get(item, []), self.logs.get(item, []), offset)

    def _end(self, item: TopicPartition) -> int:
        return _last_offset(self.logs[item][-1]) + 1 if self.logs.get(item) else 0

    def _block(self, item: TopicPartition, offset: int) -> bytes:
        rest = [raw for raw in self.logs[item] if _last_offset(raw) >= offset]
        if not rest:
            return b""
        return b"".join(rest)[: max(self.block_bytes, len(rest[0]))]


def still_hiding(
    aborted: Iterable[tuple[int, int]], log: Iterable[bytes], offset: int
) -> list[tuple[int, int]]:
    """Of the aborted transactions (producer id, first offset), those a broker reports with a fetch at `offset`.

    One whose marker lies before it would hide what its producer wrote later (LogSegment.collectAbortedTxns).
    """
    headers = [BatchHeader.read(raw) for raw in log if raw[16] == 2]
    markers = [(it.producer_id, it.base_offset) for it in headers if it.control]
    found = []
    for producer, first in aborted:
        ends = [at for owner, at in markers if owner == producer and at > first]
        if not ends or min(ends) >= offset:
            found.append((producer, first))
    return found


def _fetched_by_id(error: int, session: int, topics: list[Any]) -> bytes:
    answer = FetchResponse(
        version=fetch_by_id.VERSION,
        throttle_time_ms=0,
        error_code=error,
        session_id=session,
        responses=topics,
    )
    return b"\0" + bytes(answer.encode())


def _holds_its_records(header: BatchHeader, batch: bytes) -> bool:
    """What a broker looks at in a batch that is not of its own making."""
    try:
        offsets = [record.offset for record in read_records(header, memoryview(batch))]
    except FormatError:
        return False
    return header.last_offset_delta + 1 == header.record_count and offsets == list(range(len(offsets)))


def _last_offset(raw: bytes) -> int:
    """Of a batch, or of a message in an older format."""
    if raw[16] < 2:
        return int.from_bytes(raw[:8], "big")
    return BatchHeader.read(raw).last_offset


def _add_answer(codes: dict[TopicPartition, int]) -> Any:
    by_topic = kafka_python.ADD_PARTITIONS.response.AddPartitionsToTxnTopicResult
    by_partition = by_topic.AddPartitionsToTxnPartitionResult
    topics: defaultdict[str, list[Any]] = defaultdict(list)
    for (topic, number), code in codes.items():
        topics[topic].append(by_partition(partition_index=number, partition_error_code=int(code)))
    results = [by_topic(name=name, results_by_partition=items) for name, items in topics.items()]
    return {"results_by_topic_v3_and_below": results}


def _error(error_code: int) -> dict[str, int]:
    return {"error_code": int(error_code)}


def _read_string(body: memoryview, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", body, at)
    return ("", at + 2) if length < 0 else (str(body[at + 2 : at + 2 + length], "utf-8"), at + 2 + length)


def _read_produce(body: memoryview) -> dict[str, list[tuple[int, bytes]]]:
    _, at = _read_string(body, 0)
    at += 6
    (topics,) = struct.unpack_from(">i", body, at)
    at += 4
    result: dict[str, list[tuple[int, bytes]]] = {}
    for _ in range(topics):
        name, at = _read_string(body, at)
        (count,) = struct.unpack_from(">i", body, at)
        at += 4
        for _ in range(count):
            number, size = struct.unpack_from(">ii", body, at)
            result.setdefault(name, []).append((number, bytes(body[at + 8 : at + 8 + size])))
            at += 8 + size
    return result


def _read_fetch(body: memoryview) -> dict[str, list[tuple[int, int]]]:
    at = 25
    (topics,) = struct.unpack_from(">i", body, at)
    at += 4
    result: dict[str, list[tuple[int, int]]] = {}
    for _ in range(topics):
        name, at = _read_string(body, at)
        (count,) = struct.unpack_from(">i", body, at)
        at += 4
        for _ in range(count):
            number, _, offset, _, _ = struct.unpack_from(">iiqqi", body, at)
            result.setdefault(name, []).append((number, offset))
            at += 28
    return result
