"""Fill topics quickly: ready-made batches through the relay's own connections, so that loading does not dominate."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as DeletedBefore
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench.topics import Kind
from twinlog.batches.header import walk
from twinlog.batches.record import Record, build_batch, record_rest
from twinlog.config.security.connection import ConnectionSettings
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import wire
from twinlog.protocol.brokers import EARLIEST, LATEST, Brokers
from twinlog.protocol.fetcher import Fetcher
from twinlog.protocol.socket.connection import Connection, fresh_buffer

IN_FLIGHT = 16
PARTITIONS_AT_ONCE = 50
"""Partitions in one request: a broker answers it after it has written to all of them."""

_CHANCE = random.Random(7)
WORDS = [b"%06x" % _CHANCE.randrange(1 << 24) for _ in range(4096)]
"""Words of compressible values: about 3:1, like the JSON of a shop or of sensors."""

Plan = Iterator[Mapping[tuple[str, int], memoryview]]
"""Produce requests: at most one batch per partition in each."""


def settings(servers: str, alias: str = "bench") -> ConnectionSettings:
    """Return the settings to reach a cluster without security."""
    addresses = (address.rsplit(":", 1) for address in servers.split(","))
    return ConnectionSettings(alias, tuple((host, int(port)) for host, port in addresses))


def create_topic(servers: str, topic: str, partitions: int, **configs: str) -> None:
    """Create a topic whose segments are removed soon after it is deleted."""
    config = {"file.delete.delay.ms": "1000", "retention.ms": "-1", "segment.bytes": str(64 << 20)} | configs
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 4})
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values():
        future.result(30)
    with Brokers(settings(servers)) as brokers:
        while len(brokers.metadata([topic])[topic].leaders) < partitions:
            time.sleep(0.1)
        brokers.offsets(_places(topic, range(partitions)), LATEST)  # leaders know that they lead


def delete_topics(servers: str, topics: list[str]) -> None:
    """Request the deletion of topics, and do not wait."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 4})
    for future in admin.delete_topics(topics).values():
        with suppress(KafkaException, TimeoutError):
            future.result(5)


def forget_records(servers: str, topic: str) -> None:
    """Free the disk: delete everything before the end, but keep the topic, so that no client searches for it."""
    with Brokers(settings(servers)) as brokers:
        partitions = _places(topic, brokers.metadata([topic])[topic].leaders)
        ends = brokers.offsets(partitions, LATEST)
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 4})
    wanted = [DeletedBefore(name, number, end) for (name, number), end in ends.items()]
    for future in admin.delete_records(wanted).values():
        with suppress(KafkaException, TimeoutError):
            future.result(5)


def create(servers: str, kind: Kind, topic: str) -> None:
    """Create the topic of a kind."""
    compacted = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.bytes": str(2 << 20),  # the last segment is never compacted
    }
    create_topic(servers, topic, kind.partitions, **(compacted if kind.compacted else {}))


def fill(servers: str, kind: Kind, topic: str, records: int, data: Path) -> int:
    """Write about `records` records and return how many a consumer will see.  `data`: the broker's folder."""
    made = produce(servers, _skewed(kind, topic, records) if kind.skewed else _even(kind, topic, records))
    if not kind.compacted:
        return made
    wait_for_cleaner(data, topic, kind.partitions, made // kind.partitions * 2 // 3)
    stop_cleaning(servers, topic)
    return count_records(servers, topic)


def produce(servers: str, plan: Plan) -> int:
    """Send the planned requests; return the number of records."""
    made = 0
    with Brokers(settings(servers)) as brokers:
        connection: Connection | None = None
        for batches in plan:
            if connection is None:
                connection = brokers.node(brokers.leader(*next(iter(batches))), "produce")
            topics: dict[str, list[tuple[int, memoryview]]] = {}
            for (topic, partition), batch in batches.items():
                topics.setdefault(topic, []).append((partition, batch))
                made += int.from_bytes(batch[57:61], "big")
            body = wire.produce_request(topics, transactional_id=None, timeout_ms=30_000)
            while connection.in_flight >= IN_FLIGHT:
                _answer(connection)
            connection.send(wire.PRODUCE, wire.PRODUCE_VERSION, body)
        while connection is not None and connection.in_flight:
            _answer(connection)
    return made


def _answer(connection: Connection) -> None:
    for item in wire.produce_response(connection.receive(fresh_buffer)):
        if item.error:
            raise SystemExit(f"{item.topic}-{item.partition} refused records of the benchmark: {item.error}")


def batch_of(
    records: int,
    size: int,
    codec: int,
    first_key: int = 0,
    hot: int = 0,
    headers: Iterable[str] = (),
    *,
    as_json: bool = False,
) -> memoryview:
    """Return a batch of records with 8-byte keys; with `hot` keys, every other eight records have one of these."""
    chance = random.Random(size)
    now = int(time.time() * 1000)

    def key(number: int) -> bytes:
        return b"%08x" % (number % hot if hot and number // 8 % 2 else number)

    def value() -> bytes:
        if as_json:
            return order(chance, size)
        if not codec:
            return chance.randbytes(size)
        words = b" ".join(
            chance.choice(WORDS) if chance.random() < 0.4 else WORDS[0] for _ in range(size // 7 + 1)
        )
        return words[:size]

    named = tuple((name, b"%04x" % number) for number, name in enumerate(headers))
    values = [value() for _ in range(records if codec else min(records, 64))]
    return build_batch(
        [
            Record(n, now + n // 16, record_rest(key(first_key + n), values[n % len(values)], named))
            for n in range(records)
        ],
        codec,
    )


def order(chance: random.Random, size: int) -> bytes:
    """Return a JSON document of about so many bytes (200 at least): an order with items of three fields each."""
    number = chance.randrange(10**8)
    document: dict[str, Any] = {
        "id": number,
        "at": "2026-11-26T04:00:00Z",
        "customer": {"name": f"Customer {number}", "email": f"{number}@example.com"},
        "currency": "EUR",
        "items": [],
    }
    while len(text := json.dumps(document).encode()) < size - 50:
        document["items"].append({"sku": f"{chance.randrange(10**10):010}", "price": chance.random(), "n": 2})
    return text


def _even(kind: Kind, topic: str, records: int) -> Plan:
    """Yield the same number of batches for each partition."""
    rounds = max(1, records // (kind.batch * kind.partitions))
    ready = [
        batch_of(
            kind.batch, kind.record_bytes, kind.codec, n * kind.batch, headers=kind.headers, as_json=kind.json
        )
        for n in range(4)
    ]
    for number in range(rounds):
        batch = ready[number % len(ready)]
        if kind.compacted:
            batch = batch_of(kind.batch, kind.record_bytes, kind.codec, number * kind.batch, hot=1000)
        for first in range(0, kind.partitions, PARTITIONS_AT_ONCE):
            last = min(first + PARTITIONS_AT_ONCE, kind.partitions)
            yield {(topic, partition): batch for partition in range(first, last)}


def _skewed(kind: Kind, topic: str, records: int) -> Plan:
    """Yield realistic traffic: a few busy partitions with large batches, many quiet ones with small ones (Zipf)."""
    weights = [1 / (rank + 1) for rank in range(kind.partitions)]
    share = [records * weight / sum(weights) for weight in weights]
    sizes = (1000, 100, 300, 1000, 3000)
    ready = {
        (count, size, codec): batch_of(count, size, codec)
        for count in (1, 3, 7, 20, 60, 200)
        for size in sizes
        for codec in (0, 3, 4)
    }
    todo = {}
    for partition, wanted in enumerate(share):
        count = next((it for it in (200, 60, 20, 7, 3) if wanted > 40 * it), 1)
        batch = ready[count, sizes[partition % 5], (0, 0, 3, 4)[partition % 4]]
        todo[partition] = [batch] * max(1, int(wanted / count))
    for number in itertools.count():
        batches = {(topic, p): queue[number] for p, queue in todo.items() if number < len(queue)}
        if not batches:
            return
        yield batches


def wait_for_cleaner(data: Path, topic: str, partitions: int, offset: int, seconds: float = 180) -> None:
    """Return once the log cleaner of the broker with its logs in `data` has passed `offset` in all partitions."""
    deadline = time.monotonic() + seconds
    checkpoint = data / "cleaner-offset-checkpoint"
    while True:
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        cleaned = [line.split() for line in lines if line.startswith(f"{topic} ")]
        if sum(int(line[2]) >= offset for line in cleaned) >= partitions:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"{topic} was not compacted within {seconds:.0f} s")
        time.sleep(0.2)


def stop_cleaning(servers: str, topic: str) -> None:
    """Stop the compaction of a topic."""
    entry = ConfigEntry("min.cleanable.dirty.ratio", "1.0", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 4})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
    time.sleep(2)  # for a cleaning that has begun


def count_records(servers: str, topic: str) -> int:
    """Count the records of a topic, by the headers of its batches."""
    return found_records(servers, topic)[0]


def found_records(servers: str, topic: str) -> tuple[int, dict[TopicPartition, int]]:
    """Count the records of a topic, and return where they end, by partition: only markers follow."""
    found: dict[TopicPartition, int] = {}
    with Brokers(settings(servers)) as brokers:
        partitions = _places(topic, brokers.metadata([topic])[topic].leaders)
        positions, ends = brokers.offsets(partitions, EARLIEST), brokers.offsets(partitions, LATEST)
        fetcher = Fetcher(brokers, max_bytes=8 << 20, partition_max_bytes=8 << 20, read_committed=False)
        count = 0
        while wanted := {item: at for item, at in positions.items() if at < ends[item]}:
            fetcher.request(wanted)
            for answer in fetcher.answers():
                for fetched in answer:
                    place = TopicPartition(fetched.topic, fetched.partition)
                    for header, _ in walk(fetched.block):
                        positions[place] = header.next_offset
                        if not header.control:
                            count += header.record_count
                            found[place] = header.next_offset
        return count, found


def visible_ends(brokers: Brokers, topic: str) -> dict[TopicPartition, int]:
    """Return up to where a read_committed consumer sees each partition; empty while there is no topic."""
    places = _places(topic, brokers.metadata([topic])[topic].leaders or ())
    return brokers.offsets(places, LATEST, read_committed=True) if places else {}


def _places(topic: str, numbers: Iterable[int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def stored_bytes(data: Path, topic: str) -> int:
    """Return the bytes of a topic's log on a broker's disk: batches are stored as they were sent."""
    return sum(
        file.stat().st_size for folder in data.glob(f"{topic}-[0-9]*") for file in folder.glob("*.log")
    )
