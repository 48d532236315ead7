"""Hands and eyes of the integration tests: write every kind of record, run cycles, read both sides back.

Cycles run through the real steps; lanes run in threads of this process (`ThreadRunner`) where a test is not about
Spark, which saves the JVM.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tenacity import retry, retry_if_exception, retry_if_exception_type, stop_after_delay, wait_fixed

from twinlog import clock
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import copy
from twinlog.copying.result import CopyResult
from twinlog.lane.copy.copy_lane import copy_lane
from twinlog.lane.spec import LaneReport, LaneSpec
from twinlog.lifecycle import sync_topics


@contextmanager
def ten_minutes_on() -> Iterator[None]:
    """Let the clock of this process stand ten minutes ahead: what was matched before lies behind the horizon."""
    then = clock.now_ms() + 10 * 60_000
    with pytest.MonkeyPatch.context() as shifted:
        shifted.setattr(clock, "now_ms", lambda: then)
        yield


@dataclass(frozen=True)
class Seen:
    """A record as a consumer sees it, without its offset."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())


NOW = int(time.time() * 1000)

VARIED = [
    Seen(b"k", b"value", NOW),
    Seen(None, b"no key", NOW - 5),
    Seen(b"", b"", NOW + 1),
    Seen(b"tombstone", None, NOW),
    Seen(None, None, 1),
    Seen(b"headers", b"v", NOW, (("a", b"1"), ("a", b"2"), ("b", None), ("c", b""))),
    Seen("ключ".encode(), bytes(range(256)), 1, (("заголовок", b"\x00\xff"),)),
]
"""A record of each kind."""


class ThreadRunner:
    """Runs lanes in threads: the LaneRunner of tests that are not about Spark."""

    def __init__(self, slots: int = 2, before: Callable[[LaneSpec], None] | None = None) -> None:
        self.slots = slots
        self._before = before

    def run(self, lanes: Sequence[LaneSpec]) -> tuple[LaneReport, ...]:
        with ThreadPoolExecutor(len(lanes)) as pool:
            return tuple(pool.map(self._copy, lanes))

    def _copy(self, spec: LaneSpec) -> LaneReport:
        if self._before is not None:
            self._before(spec)
        return copy_lane(spec)


def staying(lanes: Sequence[LaneSpec], seconds: float) -> list[LaneSpec]:
    """Lanes that follow for `seconds` at most, so that windows change although nothing else does."""
    return [
        replace(it, follow=replace(it.follow, longest_seconds=seconds)) if it.follow is not None else it
        for it in lanes
    ]


def configure(folder: Path, clusters: Mapping[str, Any], flows: Iterable[str], **properties: str) -> Path:
    """Write an mm2.properties for `clusters` (alias -> EmbeddedKafka or bootstrap servers) with these flows enabled.

    Dots in property names are written as two underscores in keyword arguments.
    """
    lines = [f"clusters = {', '.join(clusters)}"]
    for alias, cluster in clusters.items():
        servers = cluster if isinstance(cluster, str) else cluster.bootstrap_servers
        lines.append(f"{alias}.bootstrap.servers = {servers}")
    lines += [f"{flow}.enabled = true" for flow in flows]
    lines += ["replication.factor = 1", "offset.storage.replication.factor = 1"]
    lines += [f"{name.replace('__', '.')} = {value}" for name, value in properties.items()]
    path = folder / f"mm2-{uuid.uuid4().hex[:6]}.properties"
    path.write_text("\n".join(lines) + "\n")
    return path


def file_and_flow(
    folder: Path, source: Any, target: Any, topics: Iterable[str], *, alias: str = "A", **properties: str
) -> tuple[Path, FlowSettings]:
    """A file with the flow A->B over two clusters, for some topics and no heartbeats (other tests beat, too).

    A source that is not `cluster_a` needs an `alias` of its own: a target knows its source by the cluster's id.

    With two lanes, where the little that tests copy would be the work of one.
    """
    settings = {
        "topics": ",".join(topics),
        "heartbeats__replication__enabled": "false",
        "twinlog__lanes": "2",
    } | properties
    name = f"{alias}->B"
    config = configure(folder, {alias: source, "B": target}, [name], **settings)
    return config, load(config).flows[name]


def flow_of(*arguments: Any, **properties: str) -> FlowSettings:
    """The flow of `file_and_flow` alone."""
    return file_and_flow(*arguments, **properties)[1]


def with_copies(*arguments: Any, **properties: str) -> tuple[Path, FlowSettings]:
    """As `file_and_flow`; the target has the copies of its topics, still empty."""
    config, flow = file_and_flow(*arguments, **properties)
    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
    return config, flow


def cycle(flow: FlowSettings, runner: Any = None, **options: Any) -> CopyResult:
    """sync_topics and copy: what moves records in a cycle."""
    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
        return copy.run(flow, clusters, runner or ThreadRunner(), run_id=uuid.uuid4().hex, **options)


def create_topic(cluster: Any, name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> str:
    """Create a topic that keeps its records, whatever their timestamps; its leaders know that they lead."""
    entries = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.create_topics([NewTopic(name, partitions, replicas, config=entries)]).values():
        future.result()
    _await_leaders(admin, [TopicPartition(name, partition) for partition in range(partitions)])
    return name


@retry(
    retry=retry_if_exception_type(KafkaException),
    wait=wait_fixed(0.1),
    stop=stop_after_delay(60),
    reraise=True,
)
def _await_leaders(admin: AdminClient, partitions: Iterable[TopicPartition]) -> None:
    """A leader may learn that it leads after the controller has answered; until then it refuses a produce."""
    for asked in admin.list_offsets({item: OffsetSpec.latest() for item in partitions}).values():
        asked.result()


def delete_topic(cluster: Any, name: str) -> None:
    """Delete a topic and wait until it is gone."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics([name])[name].result(10)
    wait_until(lambda: name not in topic_names(cluster, name))


def alter_configs(cluster: Any, kind: ResourceType, name: str, **configs: str | None) -> None:
    """Set configs of a topic or a broker, dots as underscores; None takes an entry away."""
    entries = [
        ConfigEntry(
            key.replace("_", "."),
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in configs.items()
    ]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    resource = ConfigResource(kind, name, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)


def topic_names(cluster: Any, part: str) -> set[str]:
    """Names of the cluster's topics that have `part` in them."""
    topics = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=10).topics
    return {name for name in topics if part in name}


def grow_topic(cluster: Any, name: str, partitions: int) -> None:
    """Add partitions up to a count."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.create_partitions([NewPartitions(name, partitions)]).values():
        future.result()


def produce(cluster: Any, topic: str, records: Iterable[Seen], partition: int = 0, **settings: Any) -> None:
    """Produce records in order to one partition; `settings` are librdkafka's, dots as underscores.

    Idempotent by default: a new topic may refuse the first batch and take the second.
    """
    settings = {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({
        "bootstrap.servers": cluster.bootstrap_servers,
        "linger.ms": 5,
        "enable.idempotence": True,
        **settings,
    })
    producer.list_topics(topic, timeout=30)  # with metadata it gets its producer id at once, not after 0.5 s
    for number, record in enumerate(records):
        _produce(producer, topic, partition, record)
        if number % 1000 == 999:
            producer.poll(0)
    # A node that sleeps gives no producer id; librdkafka asks another after 60 s.
    if producer.flush(90):
        raise AssertionError("records were not delivered")


def produce_transaction(
    cluster: Any, topic: str, records: Iterable[Seen], partition: int = 0, *, commit: bool = True
) -> None:
    """Produce records in one transaction, and commit or abort it."""
    producer = Producer({
        "bootstrap.servers": cluster.bootstrap_servers,
        "transactional.id": uuid.uuid4().hex,
    })
    producer.init_transactions(30)
    producer.begin_transaction()
    for record in records:
        _produce(producer, topic, partition, record)
    producer.flush(30)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def _produce(producer: Producer, topic: str, partition: int, record: Seen) -> None:
    while True:
        try:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=partition,
                timestamp=record.timestamp,
                headers=list(record.headers),
            )
            return
        except BufferError:
            producer.poll(0.1)


def read(
    cluster: Any, topic: str, partition: int = 0, *, isolation: str = "read_committed", seconds: float = 30
) -> list[Seen]:
    """Read a partition from its beginning to its (stable) end."""
    return [
        seen for _, seen in read_with_offsets(cluster, topic, partition, isolation=isolation, seconds=seconds)
    ]


def read_with_offsets(
    cluster: Any, topic: str, partition: int = 0, *, isolation: str = "read_committed", seconds: float = 30
) -> list[tuple[int, Seen]]:
    """Read a partition as (offset, record), as librdkafka sees it, checksums verified."""
    return read_partitions(cluster, topic, [partition], isolation=isolation, seconds=seconds)[partition]


def read_partitions(
    cluster: Any,
    topic: str,
    partitions: Iterable[int],
    *,
    isolation: str = "read_committed",
    seconds: float = 30,
) -> dict[int, list[tuple[int, Seen]]]:
    """Read some partitions from their beginnings to their (stable) ends, as (offset, record)."""
    consumer = Consumer({
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "twinlog-test-reader",
        "enable.auto.commit": False,
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "check.crcs": True,
        "auto.offset.reset": "earliest",
    })
    result: dict[int, list[tuple[int, Seen]]] = {partition: [] for partition in partitions}
    unfinished = set(result)
    deadline = time.monotonic() + seconds
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in unfinished])
        while unfinished and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.05):
                if message.error() is None:
                    result[message.partition()].append((message.offset(), _seen(message)))
                elif message.error().name() == "_PARTITION_EOF":
                    unfinished.discard(message.partition())
                else:
                    raise AssertionError(f"{topic}-{message.partition()}: {message.error()}")
    finally:
        consumer.close()
    if unfinished:
        raise AssertionError(f"{topic}-{min(unfinished)} was not read to its end in {seconds} s")
    return result


def wait_until(true: Callable[[], bool], seconds: float = 30) -> None:
    """Look twice a second; a TimeoutError comes after so many seconds."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not become true within {seconds} s")
        time.sleep(0.5)


def assert_soon(expected: Any, read: Callable[[], Any]) -> None:
    """What a broker has answered for is to be read a moment later: it learns of it from its controller."""
    deadline = time.monotonic() + 10
    while (found := read()) != expected and time.monotonic() < deadline:
        time.sleep(0.1)
    assert expected == found


def _seen(message: Any) -> Seen:
    kind, timestamp = message.timestamp()
    if kind not in {TIMESTAMP_LOG_APPEND_TIME, 1}:
        timestamp = -1
    return Seen(message.key(), message.value(), timestamp, tuple(message.headers() or ()))


def _coordinator_loads(error: BaseException) -> bool:
    codes = {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
    return isinstance(error, KafkaException) and error.args[0].code() in codes


_once_coordinated = retry(
    retry=retry_if_exception(_coordinator_loads),
    wait=wait_fixed(0.2),
    stop=stop_after_delay(60),
    reraise=True,
)


@_once_coordinated
def commit_group(cluster: Any, group: str, topic: str, offset: int, partition: int = 0) -> None:
    """Commit a group's offset without joining it; a broker just started may still load its coordinators."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
    consumer.close()


@_once_coordinated
def committed(cluster: Any, group: str, topic: str, partition: int = 0) -> int:
    """Return the offset that a group has committed, below 0 for none."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=20)
        return int(found.offset)
    finally:
        consumer.close()
