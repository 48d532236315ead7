"""The demo's topics on the source cluster, and the stream of records that flows into them.

Five topics, each with something that is easy to get wrong when copying: plain keyed records, a codec, a compacted log
with gaps in its offsets, headers and tombstones, and transactions of which some are aborted.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twinlog.errors import ClusterUnreachable, TransientError
from twinlog.lab.demo.comparison import count_records

STREAM_TICK_S = 0.1
TRANSACTION_S = 0.5
ABORT_EVERY = 4
TIMEOUT_S = 30.0
CLEANING_S = 1.0
SEGMENT_S = 1.0
NEVER_MS = str(2**62)


@dataclass(frozen=True, slots=True)
class DemoRecord:
    """The record that the producer writes; `value` None is a tombstone."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class DemoTopic:
    """One topic: its settings, the records that flow into it, and `why` it is in the demo."""

    name: str
    partitions: int
    why: str
    make: Callable[[random.Random, int], DemoRecord]
    records_per_second: int = 400
    first_records: int = 120_000
    configs: Mapping[str, str] = field(default_factory=dict)
    producer: Mapping[str, str] = field(default_factory=dict)
    transactional: bool = False


def _order(rng: random.Random, number: int) -> DemoRecord:
    document = {"order": number, "customer": rng.randrange(900), "amount": rng.randrange(1, 90_000) / 100}
    return DemoRecord(f"order-{number}".encode(), json.dumps(document).encode())


def _click(rng: random.Random, number: int) -> DemoRecord:
    page = rng.choice(("home", "search", "basket", "checkout"))
    document = {"visit": number % 997, "page": page, "referrer": f"https://shop.example/{page}" * 4}
    return DemoRecord(f"visit-{number % 997}".encode(), json.dumps(document).encode())


def _customer(rng: random.Random, number: int) -> DemoRecord:
    customer = rng.randrange(300)
    return DemoRecord(f"customer-{customer}".encode(), f"version {number}, {rng.random()}".encode())


def _event(rng: random.Random, number: int) -> DemoRecord:
    headers: tuple[tuple[str, bytes | None], ...] = (
        ("trace", rng.randbytes(8)),
        ("hop", b"edge"),
        ("hop", b"core"),  # the same name twice: order matters
        ("sampled", None if number % 3 else b""),  # null is not empty
    )
    value = (None, b"", rng.randbytes(200))[min(number % 10, 2)]
    return DemoRecord(f"device-{number % 50}".encode(), value, headers)


def _transfer(rng: random.Random, number: int) -> DemoRecord:
    return DemoRecord(None, json.dumps({"transfer": number, "cents": rng.randrange(1, 10**7)}).encode())


BROKER_SETTINGS = {"log.cleaner.backoff.ms": "500"}
"""The cleaner looks for work every 15 s by default: too long for a demo."""

# Segments roll and are cleaned at once, so that the log has gaps before the first cycle reads it.
_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": str(round(SEGMENT_S * 1000)),
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
}

TOPICS = (
    DemoTopic("orders", 4, "plain keyed records", _order),
    DemoTopic("clicks", 4, "lz4, copied as it is", _click, producer={"compression.type": "lz4"}),
    DemoTopic("customers", 2, "compacted, with gaps", _customer, 100, 5_000, configs=_COMPACTED),
    DemoTopic("events", 3, "headers and tombstones", _event, producer={"compression.type": "zstd"}),
    DemoTopic("transfers", 2, "transactions, some aborted", _transfer, 200, 60_000, transactional=True),
)


def create_topics(bootstrap: str, topics: Sequence[DemoTopic] = TOPICS) -> None:
    """Create the topics.  Raises ClusterUnreachable if the cluster does not create them in time."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = admin.create_topics([
        NewTopic(topic.name, topic.partitions, 1, config=dict(topic.configs)) for topic in topics
    ])
    try:
        for answer in asked.values():
            answer.result(TIMEOUT_S)
    except KafkaException as error:
        raise ClusterUnreachable(f"{bootstrap}: the demo's topics could not be created: {error}") from error


def freeze_compacted(bootstrap: str, topics: Sequence[DemoTopic] = TOPICS) -> None:
    """Wait until the logs to be compacted have gaps, then stop their compaction.

    A log that is compacted again between the reads of the two sides cannot be compared record by record.
    """
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for topic in topics:
        if "compact" not in topic.configs.get("cleanup.policy", ""):
            continue
        _wait_for_gaps(bootstrap, topic)
        later = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in (("max.compaction.lag.ms", NEVER_MS), ("min.compaction.lag.ms", NEVER_MS))
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic.name, incremental_configs=later)
        for answer in admin.incremental_alter_configs([resource]).values():
            answer.result(TIMEOUT_S)
    time.sleep(CLEANING_S)  # a cleaning that has begun ends


def _wait_for_gaps(bootstrap: str, topic: DemoTopic) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if count_records(bootstrap, topic.name) < topic.first_records:
            return
        time.sleep(CLEANING_S)
    raise ClusterUnreachable(f"{bootstrap}: {topic.name} was not compacted within {TIMEOUT_S:.0f} s")


class Stream:
    """Producers that write to every topic at a steady rate, in threads of this process, until stopped."""

    def __init__(self, bootstrap: str, topics: Sequence[DemoTopic] = TOPICS) -> None:
        self._stopped = threading.Event()
        self._failures: list[str] = []
        self._writers = [_Writer(bootstrap, topic, self._failures) for topic in topics]
        self._threads = [
            threading.Thread(target=writer.stream, args=(self._stopped,), daemon=True, name=writer.topic.name)
            for writer in self._writers
        ]

    def fill(self) -> None:
        """Write the first records of every topic, in two rounds: the second rolls the segments."""
        for last in (False, True):
            for writer in self._writers:
                writer.write(writer.topic.first_records // 2)
            if not last:
                time.sleep(SEGMENT_S)
        self._check()

    def start(self) -> None:
        """Start the stream of records."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the stream, and wait for every acknowledgement.  Raises TransientError if one did not come."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S)
        self._check()

    @property
    def written(self) -> int:
        """Return the number of records written so far, without those of aborted transactions."""
        return sum(writer.written for writer in self._writers)

    def _check(self) -> None:
        if self._failures:
            raise TransientError(f"the demo's producer failed: {self._failures[0]}")


class _Writer:
    """One producer for one topic."""

    def __init__(self, bootstrap: str, topic: DemoTopic, failures: list[str]) -> None:
        from confluent_kafka import Producer

        self.topic = topic
        self.written = 0
        self._failures = failures
        self._rng = random.Random(topic.name)
        self._number = 0
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "log_level": 0,
            **topic.producer,
        }
        if topic.transactional:
            settings["transactional.id"] = f"demo-{topic.name}"
        self._producer = Producer(settings)
        if topic.transactional:
            self._producer.init_transactions(TIMEOUT_S)

    def write(self, count: int) -> None:
        """Write `count` records and wait for their acknowledgement."""
        if self.topic.transactional:
            self._write_transaction(count, abort=False)
        else:
            self._produce(count)
            self._producer.flush(TIMEOUT_S)
            self.written += count

    def stream(self, stopped: threading.Event) -> None:
        """Write at the topic's rate until stopped; the main thread raises a failure."""
        tick = TRANSACTION_S if self.topic.transactional else STREAM_TICK_S
        count = round(self.topic.records_per_second * tick)
        due = time.monotonic()
        turn = 0
        try:
            while not stopped.is_set():
                turn += 1
                if self.topic.transactional:
                    self._write_transaction(count, abort=turn % ABORT_EVERY == 0)
                else:
                    self._produce(count)
                    self.written += count
                due += tick
                stopped.wait(max(0.0, due - time.monotonic()))
            self._producer.flush(TIMEOUT_S)
        except Exception as error:  # noqa: BLE001  reported by the main thread
            self._failures.append(f"{self.topic.name}: {error}")

    def _write_transaction(self, count: int, *, abort: bool) -> None:
        self._producer.begin_transaction()
        self._produce(count)
        if abort:
            self._producer.flush(TIMEOUT_S)  # so that the aborted records are in the log, to be left out
            self._producer.abort_transaction(TIMEOUT_S)
        else:
            self._producer.commit_transaction(TIMEOUT_S)
            self.written += count

    def _produce(self, count: int) -> None:
        for _ in range(count):
            record = self.topic.make(self._rng, self._number)
            self._number += 1
            self._producer.produce(
                self.topic.name,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                on_delivery=self._delivered,
            )
            if self._number % 1000 == 0:
                self._producer.poll(0)
        self._producer.poll(0)

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failures.append(f"{self.topic.name}: {error}")
