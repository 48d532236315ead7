"""Compare where groups land: MirrorMaker 2's translation and ours, on the same topics, judged by the records.

    python -m bench.translation

Two embedded clusters; both copy the same source, each under aliases of its own.  Three topics: one dense, one with a
marker after every transaction and some aborted ones, one compacted.  For groups at random places, it counts how many
records each would read again from the translated position, and how many positions have no translation. Takes about two
minutes.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from twinlog.cluster.admin.groups import OffsetChange
from twinlog.cluster.api import Clusters, open_clusters
from twinlog.cluster.values import NewTopic
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import copy
from twinlog.formats.mm2.records import Checkpoint
from twinlog.groups import checkpoints
from twinlog.kafka_types import TopicPartition as Place
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lab.kafka.mirror_maker import MirrorMaker
from twinlog.lane.copy.copy_lane import copy_lane
from twinlog.lane.spec import LaneReport, LaneSpec
from twinlog.lifecycle import sync_topics

RECORDS = 100_000
GROUPS = 60
SETTINGS = """\
clusters = {a}, {b}
{a}.bootstrap.servers = {source}
{b}.bootstrap.servers = {target}
{a}->{b}.enabled = true
{b}.offset.flush.interval.ms = 1000
topics = dense|transactions|compacted
groups = g-.*
replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
emit.heartbeats.enabled = false
heartbeats.replication.enabled = false
sync.topic.acls.enabled = false
emit.checkpoints.interval.seconds = 1
refresh.groups.interval.seconds = 5
"""


class Threads:
    """Runs lanes in threads of this process."""

    slots = 2

    def run(self, lanes: Iterable[LaneSpec]) -> tuple[LaneReport, ...]:
        """Run every lane to its end."""
        with ThreadPoolExecutor(2) as pool:
            return tuple(pool.map(copy_lane, lanes))

    def cancel(self, flow: str | None = None) -> None:
        """Nothing: nobody cancels a measurement."""


def padded(number: int) -> bytes:
    """Make a value that differs from that of every other record."""
    return b"%050d" % number


def dense(bootstrap: str) -> None:
    """Write one record after another."""
    producer = Producer({
        "bootstrap.servers": bootstrap,
        "linger.ms": 20,
        "queue.buffering.max.messages": RECORDS * 2,
    })
    for number in range(RECORDS):
        producer.produce("dense", key=b"%d" % number, value=padded(number), partition=0)
    producer.flush(60)


def transactions(bootstrap: str) -> None:
    """Write transactions of 100 records, every fifth aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    for first in range(0, RECORDS, 100):
        producer.begin_transaction()
        for number in range(first, first + 100):
            producer.produce("transactions", key=b"%d" % number, value=padded(number), partition=0)
        producer.flush(30)  # else an abort drops unsent records, and may end what has not begun
        (producer.abort_transaction if first % 500 == 400 else producer.commit_transaction)(30)


def compacted(bootstrap: str) -> None:
    """Write each key twice, then compact, so that half of the offsets are gone at random."""
    chance = random.Random(3)
    producer = Producer({
        "bootstrap.servers": bootstrap,
        "linger.ms": 20,
        "queue.buffering.max.messages": RECORDS * 2,
    })
    for number in range(RECORDS // 2):
        producer.produce(
            "compacted", key=b"%d" % chance.randrange(RECORDS // 4), value=padded(number), partition=0
        )
    producer.flush(60)


TOPICS: Mapping[str, Callable[[str], None]] = {
    "dense": dense, "transactions": transactions, "compacted": compacted,
}  # fmt: skip
COMPACTION = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "1000",
    "delete.retention.ms": "100",
}


def log_of(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[tuple[int, bytes]]:
    """Read (offset, value) of every record of partition 0."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": "bench",
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "auto.offset.reset": "earliest",
    })
    consumer.assign([TopicPartition(topic, 0, 0)])
    records: list[tuple[int, bytes]] = []
    while True:
        for message in consumer.consume(5000, 1.0):
            if message.error() is not None:
                consumer.close()
                return records
            records.append((message.offset() or 0, message.value() or b""))


def again(
    source: Mapping[bytes, int], there: list[tuple[int, bytes]], committed: int, translated: int
) -> int:
    """Count records read again, or the missed ones as a negative number; `source` has their offsets by value."""
    read_again = sum(at >= translated and source[value] < committed for at, value in there)
    missed = sum(at < translated and source[value] >= committed for at, value in there)
    return -missed if missed else read_again


def copy_ours(flow: FlowSettings, clusters: Clusters) -> dict[tuple[str, str], int]:
    """Run one cycle, and return every group's position."""
    sync_topics.run(flow, clusters)
    copy.run(flow, clusters, Threads(), run_id="bench")
    result = checkpoints.run(flow, clusters, dry_run=True)
    return {
        (row.group, row.topic): row.downstream_offset
        for row in result.rows
        if row.downstream_offset is not None
    }


QUANTILES = (10, 50, 90, 99)


def table(name: str, errors: list[int], untranslated: int) -> str:
    """Return one line: how many records are read again, at each percentile of the translated positions."""
    exact = sum(error == 0 for error in errors)
    missed = sum(error < 0 for error in errors)
    cuts = statistics.quantiles(errors, n=100, method="inclusive") if len(errors) > 1 else [0.0] * 99
    shown = " | ".join(f"{round(cuts[at - 1]):,}" for at in QUANTILES)
    counts = f"{len(errors) + untranslated} | {exact} | {untranslated}"
    return f"| {name} | {counts} | {shown} | {max(errors):,} | {missed} |"


def main() -> None:
    """Run it and print a table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with EmbeddedKafka("A", folder / "a") as a, EmbeddedKafka("B", folder / "b") as b:
            compare(folder, a.bootstrap_servers, b.bootstrap_servers)


def compare(folder: Path, source: str, target: str) -> None:
    """Fill, copy twice, compare."""
    paths = {}
    for pair in (("A", "B"), ("S", "T")):
        paths[pair] = folder / f"{pair[0]}.properties"
        paths[pair].write_text(SETTINGS.format(a=pair[0], b=pair[1], source=source, target=target))
    mm2, ours = (load(paths[pair]).flows[f"{pair[0]}->{pair[1]}"] for pair in paths)
    chance = random.Random(1)
    with open_clusters(ours) as clusters, open_clusters(mm2) as seen:
        new = [NewTopic(topic, 1, 1, COMPACTION if topic == "compacted" else {}) for topic in TOPICS]
        clusters.source.create_topics(new).require()
        for fill in TOPICS.values():
            fill(source)
        here = {topic: log_of(source, topic) for topic in TOPICS}
        committed = {
            (f"g-{n}", topic): chance.randint(0, here[topic][-1][0] + 1)
            for topic in TOPICS
            for n in range(GROUPS)
        }
        changes = {
            f"g-{n}": {Place(topic, 0): OffsetChange(committed[f"g-{n}", topic], None) for topic in TOPICS}
            for n in range(GROUPS)
        }
        clusters.source.alter_offsets(changes).require()
        time.sleep(20)  # compaction
        by_us = copy_ours(ours, clusters)
        with MirrorMaker(paths["A", "B"].read_text(), folder / "mm2"):
            by_mm2 = settled(seen, target, {topic: len(here[topic]) for topic in ("dense", "transactions")})
    print(
        "| copied by, topic | positions | exact | untranslated | again, 10 % | median | 90 % | 99 % | most | missed |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for label, prefix, found in (("MM2 4.3.1", "A.", by_mm2), ("twinlog", "S.", by_us)):
        for topic in TOPICS:
            there = log_of(target, f"{prefix}{topic}")
            wanted = {key: at for key, at in committed.items() if key[1] == topic}
            source_of = {value: at for at, value in here[topic]}
            errors = [again(source_of, there, at, found[key]) for key, at in wanted.items() if key in found]
            print(table(f"{label}, {topic}", errors, len(wanted) - len(errors)))


def settled(
    seen: Clusters, target: str, counts: Mapping[str, int], seconds: float = 300
) -> dict[tuple[str, str], int]:
    """Wait until MM2 has copied every record, and then for half a minute of checkpoints."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(5)
        names = [f"A.{topic}" for topic in counts]
        if not seen.target.describe_topics(names).refused and all(
            len(log_of(target, f"A.{topic}")) >= count for topic, count in counts.items()
        ):
            break
    time.sleep(30)
    latest = seen.target.latest("A.checkpoints.internal")
    parsed = [Checkpoint.parse(key, value) for key, value in latest.items() if value is not None]
    return {(it.group, it.topic.removeprefix("A.")): it.downstream_offset for it in parsed}


if __name__ == "__main__":
    main()
