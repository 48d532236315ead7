"""Follow for an hour while brokers restart and topics are born and deleted; compare every record, and watch the cost.

    python -m bench.soak [--minutes 60] [--restart-minutes 5] [--logs /dev/shm]

Three brokers a side, three replicas.  One broker is killed and started again every few minutes, the sides in turn.
A topic is born every minute, and deleted three minutes later.  Memory and CPU are those of all processes of the
follower.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import pages
from bench.contenders import TWINLOG
from bench.process_tree import ProcessTree
from twinlog.lab.kafka.broker import EmbeddedKafka

STAYS, PARTITIONS, RATE, RECORD_BYTES = "soak-stays", 6, 300, 500
BORN_RECORDS, LIVES_MINUTES = 300, 3
DOWN_S = 10.0
SETTLES_S = 120.0

Row = dict[str, Any]
Place = tuple[str, int]


def main() -> None:
    """Soak, compare, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--restart-minutes", type=float, default=5.0)
    parser.add_argument("--logs", type=Path, help="folder for the brokers' logs, /dev/shm for instance")
    pages.add_arguments(parser)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-soak-", dir=given.logs) as folder,
        EmbeddedKafka("A", Path(folder, "A"), nodes=3) as source,
        EmbeddedKafka("B", Path(folder, "B"), nodes=3) as target,
    ):
        writing = Writing(source.bootstrap_servers)
        writing.create(STAYS, PARTITIONS)
        properties = TWINLOG.properties(source, target, "soak-.*").replace("factor = 1", "factor = 3")
        properties += "refresh.topics.interval.seconds = 20\ntwinlog.follow.seconds = 20\n"
        with TWINLOG.running(properties, Path(folder, "twinlog")) as tree:
            threading.Thread(target=writing.run, daemon=True).start()
            rows = list(soak(source, target, writing, tree, given))
            writing.end()
            differs = compare(source, target, writing)
        kept = Path(folder, "twinlog", "twinlog.log").read_text(errors="replace").splitlines()
    print("\n".join(kept[-20:]))
    pages.write("soak", rows, markdown(rows, writing, differs, given), given)
    plot(rows, given.out / "soak.png")


@dataclass
class Writing:
    """Writes to the source: a stream to one topic, and a few records to each that is born; `written` by place."""

    servers: str
    written: dict[Place, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    deleted: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _done: threading.Event = field(default_factory=threading.Event)

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic with three replicas; a restart of its brokers is waited for."""
        from confluent_kafka.admin import NewTopic

        new = NewTopic(topic, partitions, 3, config={"min.insync.replicas": "2", "retention.ms": "-1"})
        admin = self._admin()  # its calls end with it
        admin.create_topics([new], operation_timeout=60)[topic].result(60)

    def delete(self, topic: str) -> None:
        """Delete a topic; its records are not compared."""
        admin = self._admin()
        admin.delete_topics([topic], operation_timeout=60)[topic].result(60)
        for place in [it for it in self.written if it[0] == topic]:
            del self.written[place]
        self.deleted += 1

    def run(self) -> None:
        """Write until told to end (a thread): a record counts once all in-sync replicas have it."""
        producer = self._producer()
        began = time.monotonic()
        for number in itertools.count():
            if self._over.is_set():
                break
            self._send(producer, STAYS, number % PARTITIONS, number)
            producer.poll(0)
            time.sleep(max(0.0, began + number / RATE - time.monotonic()))
        assert producer.flush(120) == 0
        self._done.set()

    def bear(self, topic: str) -> None:
        """Create a topic and write its records."""
        self.create(topic, 2)
        producer = self._producer()
        for number in range(BORN_RECORDS):
            self._send(producer, topic, number % 2, number)
        assert producer.flush(120) == 0

    def end(self) -> None:
        """Stop writing."""
        self._over.set()
        assert self._done.wait(150)

    def _send(self, producer: Any, topic: str, partition: int, number: int) -> None:
        value = b"%d " % number + bytes(RECORD_BYTES)
        taken = self.written[topic, partition]

        def note(error: Any, message: Any) -> None:
            assert error is None, error
            taken.append(message.value())

        producer.produce(topic, value, partition=partition, on_delivery=note)

    def _producer(self) -> Any:
        from confluent_kafka import Producer

        return Producer({"bootstrap.servers": self.servers, "enable.idempotence": True, "linger.ms": 5})

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers})


def soak(
    source: EmbeddedKafka,
    target: EmbeddedKafka,
    writing: Writing,
    tree: ProcessTree,
    given: argparse.Namespace,
) -> Iterator[Row]:
    """Yield a row a minute; restart brokers, and let topics be born and deleted."""
    victims = itertools.cycle([(cluster, node) for node in (1, 2, 3) for cluster in (source, target)])
    living: list[str] = []
    before, next_restart = tree.cpu_s().total(), given.restart_minutes
    for minute in range(1, round(given.minutes) + 1):
        end = time.monotonic() + 60
        restarted = ""
        living.append(f"soak-born-{minute}")
        writing.bear(living[-1])
        if len(living) > LIVES_MINUTES:
            writing.delete(living.pop(0))
        if minute >= next_restart:
            next_restart += given.restart_minutes
            cluster, node = next(victims)
            restarted = f"{cluster.name}{node}"
            cluster.kill(node)
            time.sleep(DOWN_S)
            cluster.start()
        time.sleep(max(0.0, end - time.monotonic()))
        cpu = tree.cpu_s().total()
        row = {
            "minute": minute,
            "restarted": restarted,
            "records": sum(map(len, writing.written.values())),
            "cpu_s": round(cpu - before, 2),
            "memory_mib": round(tree.take_peaks().total),
        }
        before = cpu
        print(row, flush=True)
        yield row


def compare(source: EmbeddedKafka, target: EmbeddedKafka, writing: Writing) -> list[str]:
    """Return in which partitions the copy is not what was written, in order, once it has had time to arrive."""
    deadline = time.monotonic() + SETTLES_S
    while True:
        differs = [
            f"{topic}-{partition}: {len(wrote)} written, {len(at_a)} on A, {len(at_b)} on B"
            for (topic, partition), wrote in writing.written.items()
            if not (
                wrote
                == (at_a := read(source.bootstrap_servers, topic, partition))
                == (at_b := read(target.bootstrap_servers, f"A.{topic}", partition))
            )
            or not at_b
        ]
        if not differs or time.monotonic() > deadline:
            return differs
        time.sleep(5)


def read(servers: str, topic: str, partition: int) -> list[bytes]:
    """Read the committed records of a partition."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({
        "bootstrap.servers": servers,
        "group.id": "soak",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    })
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[bytes] = []
    try:
        while True:
            for message in consumer.consume(1000, 10.0):
                if message.error() is not None:
                    return found
                found.append(message.value())
    finally:
        consumer.close()


def markdown(rows: Sequence[Row], writing: Writing, differs: Sequence[str], given: argparse.Namespace) -> str:
    """Return a table."""
    count = sum(map(len, writing.written.values()))
    said = "; ".join(differs) or "the same on both sides, in order"
    lines = [
        f"{given.minutes:g} minutes, {RATE} records a second, {len(rows)} topics born, {writing.deleted} deleted;"
        f" {count:,} records of the others compared: {said}.",
        "",
        "| minute | restarted | CPU-s | MiB |",
        "|---:|---|---:|---:|",
    ]
    lines += [
        f"| {it['minute']} | {it['restarted']} | {it['cpu_s']} | {it['memory_mib']} |"
        for it in rows
        if it["restarted"] or it is rows[0]
    ]
    return "\n".join([*lines, "", "![Memory and CPU by the minute](soak.png)"]) + "\n"


def plot(rows: Sequence[Row], path: Path) -> None:
    """Plot memory and CPU by the minute; a broker that was killed and started again is a dotted line."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    minutes = [it["minute"] for it in rows]
    figure, panels = pyplot.subplots(2, 1, figsize=(9, 4.5), sharex=True, layout="constrained")
    for axes, key, label in zip(
        panels, ("memory_mib", "cpu_s"), ("MiB", "CPU-seconds a minute"), strict=True
    ):
        axes.plot(minutes, [it[key] for it in rows], drawstyle="steps-post")
        axes.set_ylim(bottom=0)
        axes.set_ylabel(label)
        for it in rows:
            if it["restarted"]:
                axes.axvline(it["minute"], color="gray", linestyle=":", linewidth=1)
    panels[-1].set_xlabel("minute")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
