"""Measure latency from produce on A to visible on B, beside MM2: 5,000 records of 1 KB a second, 20 partitions.

The reader uses read_committed.  MM2 runs with its defaults, with which it may lose and double records, and with its
exactly-once support.

    python -m bench.latency [--minutes 5] [--only twinlog] [--parts]

The replicators run in turn over the same brokers.  Each record carries the time at which it was produced.  Halfway a
topic is created, for which twinlog opens one more lane.  MM2, which looks for topics every ten minutes, does
not see it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import struct
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from bench import load, pages
from bench.contenders import EXACTLY_ONCE, MM2, TWINLOG, WARM, Contender
from bench.process_tree import DRIVER, JVM, WORKERS
from twinlog.lab.kafka.broker import EmbeddedKafka

RATE, PARTITIONS, RECORD_BYTES = 5_000, 20, 1_000
PER_TICK = 25
CONTENDERS = (MM2, EXACTLY_ONCE, TWINLOG)
_STAMP = struct.Struct(">dI")
"""A record begins with the time at which it was produced, and its offset on A."""

SHARES = (0.5, 0.95, 0.99, 1.0)
_WARM_UP_S = 30

_SAY_EVERY_S = 30

_LOOK_S = 0.002
"""Seconds for which the reader gathers records: on average a record waits 1 ms before its age is taken."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A record as it became visible: its offset on A, and epoch seconds: produced, seen, its timestamp (`on_b`)."""

    partition: int
    offset: int
    produced: float
    seen: float
    on_b: float


def main() -> None:
    """Measure each, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--only", choices=[it.name for it in CONTENDERS])
    parser.add_argument(
        "--parts", action="store_true", help="the parts of a record's way (bench/latency_parts.py)"
    )
    pages.add_arguments(parser)
    given = parser.parse_args()
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        EmbeddedKafka("A") as source,
        EmbeddedKafka("B") as target,
    ):
        load.create_topic(source.bootstrap_servers, WARM, 1)
        load.produce(source.bootstrap_servers, iter([{(WARM, 0): load.batch_of(1, 10, 0)}]))
        if given.parts:
            from bench import latency_parts

            latency_parts.run(source, target, Path(folder), given)
            return
        for contender in CONTENDERS:
            if given.only in {None, contender.name}:
                rows.append(measure(contender, source, target, Path(folder), given.minutes * 60))
                print(rows[-1], flush=True)
    pages.write("latency", rows, markdown(rows, given.minutes), given)


def measure(
    contender: Contender, source: EmbeddedKafka, target: EmbeddedKafka, folder: Path, seconds: float
) -> Row:
    """Run a contender under the stream.  Returns delays in ms, CPU in cores by role."""
    topic = f"stream-{contender.alias}"
    load.create_topic(source.bootstrap_servers, topic, PARTITIONS)
    properties = contender.properties(source, target, f"{WARM}, {topic}.*")
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    with contender.running(properties, folder / contender.alias) as tree:
        print(f"{contender.name} is starting", flush=True)
        wait_for(target.bootstrap_servers, contender.remote(WARM))
        producer = context.Process(target=stream, args=(source.bootstrap_servers, topic, over))
        producer.start()
        time.sleep(_WARM_UP_S)
        birth = threading.Timer(
            seconds / 2, load.create_topic, (source.bootstrap_servers, f"{topic}-born", 1)
        )
        birth.start()
        used, began = tree.cpu_s(), time.monotonic()
        found = watch(target.bootstrap_servers, contender.remote(topic), seconds)
        cpu = tree.cpu_s() - used
        wall = time.monotonic() - began
        over.set()
        birth.join()
        producer.join()
    delays = sorted(it.seen - it.produced for it in found)
    at = {f"p{share * 100:g}": delays[min(int(len(delays) * share), len(delays) - 1)] for share in SHARES}
    return {
        "contender": contender.name,
        **{name: round(1000 * value) for name, value in at.items()},
        "records": len(delays),
        "cores": round(cpu.total() / wall, 3),
        **{role: round(cpu[role] / wall, 3) for role in (JVM, WORKERS, DRIVER)},
    }


def markdown(rows: Sequence[Row], minutes: float) -> str:
    """Return a table."""
    lines = [
        f"{RATE:,} records of {RECORD_BYTES} bytes a second over {PARTITIONS} partitions for {minutes:g} minutes;"
        " milliseconds from produce on A to visible on B (read_committed), and cores used.  Halfway a topic is born,"
        " for which twinlog opens one more lane:",
        "",
        "| | p50 | p95 | p99 | max | records | cores | JVM | workers | driver |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = [f"{row[f'p{share * 100:g}']:,}" for share in SHARES]
        cells += [f"{row['records']:,}", *(f"{row[key]:.2f}" for key in ("cores", JVM, WORKERS, DRIVER))]
        lines.append(f"| {row['contender']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def wait_for(servers: str, topic: str) -> None:
    """Return once the topic has its first record."""
    from twinlog.protocol.brokers import Brokers

    with Brokers(load.settings(servers)) as brokers:
        while not sum(load.visible_ends(brokers, topic).values()):
            time.sleep(0.2)


def stream(servers: str, topic: str, over: Event, told: Connection | None = None) -> None:
    """Produce at the rate until told to stop (a process of its own).

    With `told`, send when A acknowledged each record (epoch seconds, by partition, in order).
    """
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    filling = bytes(RECORD_BYTES - _STAMP.size)
    acknowledged: dict[int, list[float]] = defaultdict(list)

    def note(error: object, message: Any) -> None:
        assert error is None, error
        acknowledged[message.partition()].append(time.time())

    how: dict[str, Any] = {} if told is None else {"on_delivery": note}
    began, number = time.monotonic(), 0
    while not over.is_set():
        for _ in range(PER_TICK):
            offset, partition = divmod(number, PARTITIONS)
            value = _STAMP.pack(time.time(), offset) + filling
            while not _queued(producer, topic, value, partition, how):
                producer.poll(0.1)
            number += 1
        while (rest := began + number / RATE - time.monotonic()) > 0:
            producer.poll(rest) if told else time.sleep(rest)
        producer.poll(0)
    producer.flush(10)
    if told is not None:
        told.send(dict(acknowledged))


def _queued(producer: Any, topic: str, value: bytes, partition: int, how: dict[str, Any]) -> bool:
    """Say whether the producer's queue had room; a broker that falls behind fills it."""
    try:
        producer.produce(topic, value, partition=partition, **how)
    except BufferError:
        return False
    return True


def watch(servers: str, topic: str, seconds: float) -> list[Seen]:
    """Read committed records as they become visible."""
    from confluent_kafka import OFFSET_END, Consumer, TopicPartition

    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": "latency",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 50,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, number, OFFSET_END) for number in range(PARTITIONS)])
    found: list[Seen] = []
    said = time.monotonic()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        messages = consumer.consume(500, _LOOK_S)
        now = time.time()
        for message in messages:
            if message.error() is None:
                produced, offset = _STAMP.unpack_from(message.value())
                found.append(Seen(message.partition(), offset, produced, now, message.timestamp()[1] / 1000))
        if time.monotonic() - said >= _SAY_EVERY_S:
            said = time.monotonic()
            slowest = max((it.seen - it.produced for it in found), default=0)
            print(f"{len(found):,} records seen, slowest {slowest:.2f} s", flush=True)
    consumer.close()
    return found


if __name__ == "__main__":
    main()
