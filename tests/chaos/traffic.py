"""What the source is fed: each partition has its own codec, batches, headers, nulls and transactions, by a seed."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer

from lab import Seen

PARTITIONS = 3

_NOISE = random.Random(0).randbytes(1 << 20)
"""What values are cut from: no codec makes it smaller, so bytes on the wire are bytes of records."""

_HEADERS: tuple[tuple[tuple[str, bytes | None], ...], ...] = (
    (),
    (("trace", b"1"),),
    (("", b""), ("twice", b"a"), ("twice", None)),
)


@dataclass(frozen=True)
class Shape:
    """How one partition is written.  `transactional`: in transactions, every second one aborted."""

    codec: str
    many_in_a_batch: bool
    headers: bool
    nulls: bool
    transactional: bool

    @classmethod
    def draw(cls, chance: random.Random) -> Shape:
        return cls(
            codec=chance.choice(["none", "gzip", "snappy", "lz4", "zstd"]),
            many_in_a_batch=chance.random() < 0.5,
            headers=chance.random() < 0.5,
            nulls=chance.random() < 0.5,
            transactional=chance.random() < 0.5,
        )


@dataclass
class Traffic:
    """Writes to one topic and remembers, by partition, what counts under read_committed."""

    cluster: Any
    topic: str
    chance: random.Random
    largest: int
    written: dict[int, list[Seen]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shapes = [Shape.draw(self.chance) for _ in range(PARTITIONS)]
        self.written = {partition: [] for partition in range(PARTITIONS)}

    def write(self, count: int) -> None:
        """Write `count` records that count to each partition, with values of up to `largest` bytes."""
        for partition, shape in enumerate(self.shapes):
            records = [self._record(shape, n) for n in range(count)]
            producer = self._producer(shape)
            if shape.transactional:
                self._in_transactions(producer, partition, records)
            else:
                self._send(producer, partition, records)
            self.written[partition] += records

    def _producer(self, shape: Shape) -> Producer:
        batches: dict[str, Any] = {"linger.ms": 0, "batch.num.messages": 8}
        if (
            shape.many_in_a_batch
        ):  # a batch is copied as a whole: not so large that a copy is a handful of them
            batches = {"linger.ms": 50, "batch.num.messages": 2_000, "batch.size": 150 * self.largest}
        producer = Producer({
            "bootstrap.servers": self.cluster.bootstrap_servers,
            "enable.idempotence": True,
            "compression.type": shape.codec,
            **batches,
            **({"transactional.id": uuid.uuid4().hex} if shape.transactional else {}),
        })
        producer.list_topics(self.topic, timeout=30)  # with metadata it gets its producer id at once
        return producer

    def _record(self, shape: Shape, number: int) -> Seen:
        chance = self.chance
        begin = chance.randrange(len(_NOISE) - self.largest)
        null = chance.randrange(8) if shape.nulls else -1
        return Seen(
            None if null == 0 else b"%d" % chance.randrange(1 << 30),
            None if null == 1 else b"%d" % number + _NOISE[begin : begin + chance.randrange(self.largest)],
            int(time.time() * 1000) + number,
            chance.choice(_HEADERS) if shape.headers else (),
        )

    def _in_transactions(self, producer: Producer, partition: int, records: Sequence[Seen]) -> None:
        """Four that are committed; between them some that are aborted, with records that must show up nowhere."""
        producer.init_transactions(60)
        share = -(-len(records) // 4)
        for begin in range(0, len(records), share):
            if begin:
                aborted = [Seen(b"aborted", it.value, it.timestamp) for it in records[begin : begin + 20]]
                producer.begin_transaction()
                self._send(producer, partition, aborted)
                producer.abort_transaction(60)
            producer.begin_transaction()
            self._send(producer, partition, records[begin : begin + share])
            producer.commit_transaction(60)

    def _send(self, producer: Producer, partition: int, records: Sequence[Seen]) -> None:
        for number, it in enumerate(records):
            producer.produce(
                self.topic, it.value, it.key, partition, timestamp=it.timestamp, headers=list(it.headers)
            )
            if number % 500 == 499:
                producer.poll(0)
        assert 0 == producer.flush(60), "records were not delivered"
