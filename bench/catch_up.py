"""Measure catching up after an outage beside what is live, with two tiers in one lane that follows.

    python -m bench.catch_up [--repetitions 3] [--scale 1.0] [--logs /dev/shm]

Each tier has a topic with a backlog and a topic with a few live records a second.  The flow is followed at rest,
stopped, and followed again when the backlog is there.  The reader uses read_committed.  The lane runs in one process
without Spark, so its CPU is the lane's and its driver's.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import signal
import struct
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import Any

from bench import load, memory, pages
from bench.lane import InProcess, data_folder
from bench.topics import BROKER, Kind
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.protocol.brokers import Brokers

URGENT, REST = "gold", "bulk"
TIERS = (URGENT, REST)
LIVE_PARTITIONS, LIVE_RATE = 10, 100
"""Of each tier's live topic; records a second in all of its partitions together."""

BACKLOG = {URGENT: Kind("gold", 1000, 16, partitions=20), REST: Kind("bulk", 1000, 16, partitions=60)}
BACKLOG_BYTES = {URGENT: 320 << 20, REST: 960 << 20}
REST_SECONDS, WARM_UP_SECONDS = 15.0, 10.0
_STAMP = struct.Struct(">d")

_CONTEXT = multiprocessing.get_context("spawn")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Live:
    """One live record: its tier, and epoch seconds: produced, seen by the reader."""

    tier: str
    produced: float
    seen: float


@dataclass
class Stage:
    """One repetition: the clusters, the topics of each tier, and the file of the flow."""

    source: EmbeddedKafka
    target: EmbeddedKafka
    folder: Path
    scale: float
    stem: str = field(default_factory=lambda: uuid.uuid4().hex[:6])

    def live(self, tier: str) -> str:
        return f"{self.stem}-{tier}-live"

    def backlog(self, tier: str) -> str:
        return f"{self.stem}-{tier}-backlog"

    @property
    def config(self) -> Path:
        path = self.folder / f"{self.stem}.properties"
        path.write_text(
            f"clusters = A, B\nA.bootstrap.servers = {self.source.bootstrap_servers}\n"
            f"B.bootstrap.servers = {self.target.bootstrap_servers}\nA->B.enabled = true\n"
            f"A->B.topics = {self.stem}-.*\nreplication.factor = 1\noffset.storage.replication.factor = 1\n"
            "heartbeats.replication.enabled = false\n"
            f"twinlog.rpo.seconds = 3600\ntwinlog.tier.gold.topics = {self.stem}-{URGENT}-.*\n"
            "twinlog.tier.gold.rpo.seconds = 60\n"
        )
        return path

    def create(self) -> None:
        """Create all topics of the source."""
        for tier in TIERS:
            load.create_topic(self.source.bootstrap_servers, self.live(tier), LIVE_PARTITIONS)
            load.create(self.source.bootstrap_servers, BACKLOG[tier], self.backlog(tier))

    def fill(self) -> dict[str, int]:
        """Write the backlogs, and have memory for their copies; return the records of each tier."""
        memory.touch(int(1.2 * self.scale * sum(BACKLOG_BYTES.values())) + (256 << 20))
        return {
            tier: load.fill(
                self.source.bootstrap_servers,
                BACKLOG[tier],
                self.backlog(tier),
                int(self.scale * BACKLOG_BYTES[tier] / 1016),
                data_folder(self.source),
            )
            for tier in TIERS
        }


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the backlogs")
    parser.add_argument("--logs", type=Path, help="folder for the brokers' logs, /dev/shm for instance")
    pages.add_arguments(parser)
    given = parser.parse_args()
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-", dir=given.logs) as folder,
        EmbeddedKafka("A", Path(folder, "A"), settings=BROKER) as source,
        EmbeddedKafka("B", Path(folder, "B"), settings=BROKER) as target,
    ):
        for _ in range(given.repetitions):
            rows.append(measure(Stage(source, target, Path(folder), given.scale)))
            print(rows[-1], flush=True)
    pages.write("catch-up", rows, markdown(rows, given.scale), given)


def measure(stage: Stage) -> Row:
    """Follow at rest, stop, fill, and catch up; return latencies in ms, and seconds from the first copied record."""
    stage.create()
    with _reading_live(stage) as read, _process(stream, stage.source.bootstrap_servers, _live_topics(stage)):
        with following(stage) as used:
            _until_visible(stage, {stage.live(tier): 1 for tier in TIERS})
            time.sleep(WARM_UP_SECONDS)
            at_rest = time.time()
            time.sleep(REST_SECONDS)
            rested = time.time()
            rest_cpu = used()
        records = stage.fill()
        with following(stage) as used:
            looks = _until_visible(stage, {stage.backlog(tier): records[tier] for tier in TIERS})
            time.sleep(1)  # the last live records of that time arrive
        live = read()
        cpu = used()
    began, over = next(at for at, visible in looks if any(visible.values())), looks[-1][0]
    row: Row = {
        "all_s": over - began,
        "urgent_s": _reached(looks, stage.backlog(URGENT), records[URGENT]) - began,
        "cpu_s": cpu,
        "rest_cpu_s": rest_cpu,
    }
    for tier in TIERS:
        row |= {f"{tier}_rest_{name}": ms for name, ms in _delays(live, tier, at_rest, rested).items()}
        row |= {f"{tier}_{name}": ms for name, ms in _delays(live, tier, began, over).items()}
    for servers, prefix in ((stage.source.bootstrap_servers, ""), (stage.target.bootstrap_servers, "A.")):
        for tier in TIERS:
            load.forget_records(servers, prefix + stage.backlog(tier))
    return row


def _delays(live: Sequence[Live], tier: str, began: float, over: float) -> dict[str, int]:
    """Return p50, p99 and max (ms) of the records produced between two times."""
    delays = sorted(it.seen - it.produced for it in live if it.tier == tier and began <= it.produced < over)
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: round(1000 * delays[min(int(len(delays) * q), len(delays) - 1)]) for name, q in at.items()}


def _live_topics(stage: Stage) -> dict[str, str]:
    return {stage.live(tier): tier for tier in TIERS}


# --- the flow ------------------------------------------------------------------------------------------------


@contextmanager
def following(stage: Stage) -> Iterator[Any]:
    """Follow the flow in a process of its own; yields a function that ends it and returns its CPU-seconds."""
    stop, (mine, theirs) = _CONTEXT.Event(), _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=follow_flow, args=(stage.config, stop, theirs))
    process.start()
    ended: list[float] = []

    def end() -> float:
        if not ended:
            stop.set()
            ended.append(mine.recv())
            process.join(60)
        return ended[0]

    try:
        yield end
    finally:
        end()


def follow_flow(config: Path, stop: Event, told: Connection) -> None:
    """Follow the flow until told to stop (a process of its own); send the CPU-seconds that it took."""
    from twinlog.cluster.api import open_clusters
    from twinlog.config.flow.load import load as load_configuration
    from twinlog.follow import follow
    from twinlog.garbage import collect_rarely

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_rarely()
    flow = load_configuration(config).flows["A->B"]
    try:
        with open_clusters(flow) as clusters:
            follow.run(flow, clusters, InProcess(), run_id=uuid.uuid4().hex, seconds=3600, stop=stop)  # type: ignore[arg-type]
    finally:
        used = resource.getrusage(resource.RUSAGE_SELF)
        told.send(used.ru_utime + used.ru_stime)


_Look = tuple[float, dict[str, int]]
"""Epoch seconds, and the sum of the visible ends of each topic's copy."""


def _until_visible(stage: Stage, records: Mapping[str, int], seconds: float = 600) -> list[_Look]:
    """Look at the copies until every record is visible; return the looks.

    Markers count in ends, so this waits until the ends stand still at enough for two seconds; the looks tell when.
    """
    looks: list[_Look] = []
    deadline, still = time.monotonic() + seconds, 0.0
    with Brokers(load.settings(stage.target.bootstrap_servers)) as brokers:
        while True:
            visible = {it: sum(load.visible_ends(brokers, f"A.{it}").values()) for it in records}
            if not looks or visible != looks[-1][1]:
                looks.append((time.time(), visible))
                still = time.monotonic()
            enough = all(visible[it] >= count for it, count in records.items())
            if enough and (max(records.values()) == 1 or time.monotonic() - still > 2):
                return looks
            if time.monotonic() > deadline:
                raise SystemExit(f"only {visible} of {records} were copied in {seconds:.0f} s")
            time.sleep(0.02)


def _reached(looks: Sequence[_Look], topic: str, records: int) -> float:
    """Return when the copy of a topic had its last end."""
    last = looks[-1][1][topic]
    assert last >= records
    return next(at for at, visible in looks if visible[topic] == last)


# --- what is live --------------------------------------------------------------------------------------------


def stream(servers: str, topics: Mapping[str, str], over: Event, _told: Connection) -> None:
    """Produce live records to every topic until told to stop (a process of its own)."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    began, number = time.monotonic(), 0
    while not over.is_set():
        for topic in topics:
            producer.produce(topic, _STAMP.pack(time.time()) + bytes(192), partition=number % LIVE_PARTITIONS)
        producer.poll(0)
        number += 1
        time.sleep(max(0.0, began + number / LIVE_RATE - time.monotonic()))
    producer.flush(10)


def watch(servers: str, topics: Mapping[str, str], over: Event, told: Connection) -> None:
    """Read live records as they become visible, until told to stop; send them (a process of its own)."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    tiers = {f"A.{topic}": tier for topic, tier in topics.items()}
    consumer = Consumer({
        "bootstrap.servers": servers,
        "group.id": "catch-up",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 50,
        "topic.metadata.refresh.interval.ms": 500,
        "allow.auto.create.topics": False,
        "log_level": 2,
    })
    places = [TopicPartition(it, n, OFFSET_BEGINNING) for it in tiers for n in range(LIVE_PARTITIONS)]
    consumer.assign(places)
    found: list[Live] = []
    while not over.is_set():
        messages = consumer.consume(500, 0.002)
        now = time.time()
        found += [
            Live(tiers[it.topic()], _STAMP.unpack_from(it.value())[0], now)
            for it in messages
            if it.error() is None
        ]
    told.send(found)
    consumer.close()


@contextmanager
def _reading_live(stage: Stage) -> Iterator[Any]:
    with _process(watch, stage.target.bootstrap_servers, _live_topics(stage)) as read:
        yield read


@contextmanager
def _process(target: Any, servers: str, topics: Mapping[str, str]) -> Iterator[Any]:
    """Run a function in a process of its own; yields a function that ends it and returns what it sent."""
    over, (mine, theirs) = _CONTEXT.Event(), _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=target, args=(servers, topics, over, theirs), daemon=True)
    process.start()

    def read() -> Any:
        over.set()
        return mine.recv()

    try:
        yield read
    finally:
        over.set()
        process.join(30)


# --- the table -----------------------------------------------------------------------------------------------


def markdown(rows: Sequence[Row], scale: float) -> str:
    """Return a table of medians."""
    at = {key: median(row[key] for row in rows) for key in rows[0]}
    size = {tier: scale * BACKLOG_BYTES[tier] / 2**20 for tier in TIERS}
    lines = [
        f"One lane; medians of {len(rows)}. A backlog of {size[URGENT]:,.0f} MiB in {BACKLOG[URGENT].partitions}"
        f" partitions (RPO 60 s) and of {size[REST]:,.0f} MiB in {BACKLOG[REST].partitions} (RPO 3600 s), beside"
        f" {LIVE_RATE} live records a second of each tier in {LIVE_PARTITIONS} partitions:",
        "",
        "| live records, ms from produce on A to visible on B | p50 | p99 | max |",
        "|---|---:|---:|---:|",
    ]
    for tier, name in ((URGENT, "RPO 60 s"), (REST, "RPO 3600 s")):
        for part, said in (("_rest", "at rest"), ("", "while the backlog is copied")):
            cells = " | ".join(f"{at[f'{tier}{part}_{it}']:,.0f}" for it in ("p50", "p99", "max"))
            lines.append(f"| {name}, {said} | {cells} |")
    lines += [
        "",
        "| from the first copied record | s |",
        "|---|---:|",
        f"| the backlog with the RPO of 60 s is copied | {at['urgent_s']:.1f} |",
        f"| all is copied | {at['all_s']:.1f} |",
        f"| CPU-seconds of lane and driver, with their start | {at['cpu_s']:.1f} |",
        f"| CPU-seconds of {WARM_UP_SECONDS + REST_SECONDS:.0f} s at rest, with their start | {at['rest_cpu_s']:.1f} |",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
