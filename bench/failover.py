"""Measure a failover by its command, step by step: what an operator waits for between the gate and B.

    python -m bench.failover                      50 topics of 10 partitions, 200 groups, all modes
    python -m bench.failover --topics 5 --groups 10 --mode source-dead

Planned: records come until the failover begins, so that it has a tail to drain.  The producers then stop by themselves,
and twinlog is a super user, so the command watches the ends of the source (`twinlog.gate.fence.seconds`).  Guarded: as
planned, from a source on which twinlog is a user like any other; an application writes until it is denied, a person
says yes at a terminal as soon as they are asked, and a hook sends the application to B.  Source-dead: the source is
killed behind the last cycle.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench import load, pages
from bench.contenders import TWINLOG, twinlog
from twinlog.lab.kafka.broker import EmbeddedKafka

PARTITIONS = 10
RECORDS = 200
"""Per partition, before the failover; TAIL more come right before it."""

TAIL = 20
TOPICS_A_GROUP = 2
GUARDED = "guarded"
MODES = ("planned", GUARDED, "source-dead")
LOGIN = "SASL_PLAINTEXT"
USERS = {"twinlog": "t", "shop": "s"}

Row = dict[str, Any]


def main() -> None:
    """Fill the source, copy it, prove it, fail over, and print the steps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--mode", choices=MODES, action="append", help="one of them alone")
    pages.add_arguments(parser)
    given = parser.parse_args()
    rows = [row for mode in given.mode or MODES for row in one(mode, given)]
    pages.write("failover", rows, markdown(rows, given), given)


def one(mode: str, given: argparse.Namespace) -> list[Row]:
    """Measure one mode on brokers of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        EmbeddedKafka("A", listeners=[LOGIN] if mode == GUARDED else (), users=USERS) as source,
        EmbeddedKafka("B") as target,
    ):
        config = Path(folder, "mm2.properties")
        text = TWINLOG.properties(source, target, "orders-.*")
        text += f"twinlog.reports.folder = {folder}/reports\n"
        config.write_text(guarded(text, source, config) if mode == GUARDED else text)
        return measure(config, source, mode, given.topics, given.groups)


def guarded(text: str, source: EmbeddedKafka, config: Path) -> str:
    """Return the file of a flow that reads the source as a user, writes heartbeats, and has a hook."""
    for was, now in (
        (source.bootstrap_servers, source.address(LOGIN)),
        ("emit.heartbeats.enabled = false", "emit.heartbeats.enabled = true"),
    ):
        text = text.replace(was, now)
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    return f"""{text}A.security.protocol = {LOGIN}
A.sasl.mechanism = PLAIN
A.sasl.jaas.config = {login} username="twinlog" password="{USERS["twinlog"]}";
twinlog.failover.hook.command = cp /dev/stdin {sent_to(config)}
"""


def sent_to(config: Path) -> Path:
    """Return the file by which the hook tells the application where to write."""
    return config.with_name("clients.json")


def measure(config: Path, source: EmbeddedKafka, mode: str, topics: int, groups: int) -> list[Row]:
    """Return a row for each step, and one for the command as a whole.

    Raises SystemExit if it was not promoted, or if a record that the application wrote is not on the target once.
    """
    servers = source.bootstrap_servers
    names = [f"orders-{number:02d}" for number in range(topics)]
    for name in names:
        load.create_topic(servers, name, PARTITIONS, **{"retention.ms": "604800000"})
    produce(servers, names, RECORDS)
    commit(servers, names, groups)
    command(config, "run", "--once")
    command(config, "audit")
    silent: Row = {}
    if mode == "source-dead":
        source.kill()
    else:
        produce(servers, names, TAIL)
    began = time.monotonic()
    if mode == GUARDED:
        writes = Application(source, names[0], sent_to(config))
        writes.start()
        report = command(config, "failover", "--mode", "planned", asked=True)
        seconds = time.monotonic() - began
        writes.wait()
        silent = {"written": writes.numbers, "silent": round(writes.silent, 1)}
    else:
        report = command(config, "failover", "--mode", mode, "--yes")
        seconds = time.monotonic() - began
    if report["state"] != "promoted":
        raise SystemExit(json.dumps(report["steps"], indent=1))
    placed = {(it["group"], it["topic"], it["partition"]): it["again"] for it in report["groups"]}
    return [
        *(
            {
                "mode": mode,
                "step": it["name"],
                "seconds": it["seconds"],
                "message": it["message"].replace(f"{config.parent}/", ""),
            }
            for it in report["steps"]
        ),
        {
            "mode": mode,
            "step": "",
            "seconds": round(seconds, 3),
            "message": "",
            "positions": len(placed),
            "again": sum(it or 0 for it in placed.values()),
            **silent,
        },
    ]


class Application(threading.Thread):
    """A producer that writes numbers to A until it is denied, and goes on where the hook sends it.

    `silent` is how long nothing was acknowledged, in seconds.
    """

    def __init__(self, source: EmbeddedKafka, topic: str, told: Path) -> None:
        super().__init__(daemon=True)
        self.numbers, self.silent, self._source, self._topic, self._told = 0, 0.0, source, topic, told
        self._servers, self._over = "", threading.Event()

    def run(self) -> None:
        """Write until a record is acknowledged on B."""
        login = {
            "security.protocol": LOGIN,
            "sasl.mechanism": "PLAIN",
            "sasl.username": "shop",
            "sasl.password": USERS["shop"],
        }
        here = Producer({"bootstrap.servers": self._source.address(LOGIN), "log_level": 2, **login})
        while self._wrote(here, self._topic):
            time.sleep(0.02)
        last = time.monotonic()
        while not self._told.exists():
            time.sleep(0.02)
        time.sleep(0.1)  # the hook has written all of it
        self._servers = json.loads(self._told.read_text())["target_bootstrap_servers"]
        there = Producer({"bootstrap.servers": self._servers, "log_level": 2})
        while not self._wrote(there, f"A.{self._topic}"):
            time.sleep(0.02)
        self.silent = time.monotonic() - last
        self._over.set()

    def _wrote(self, producer: Producer, topic: str) -> bool:
        """Write the next number; say whether it was acknowledged."""
        errors = list[Any]()
        producer.produce(
            topic, b"shop-%d" % self.numbers, partition=0, on_delivery=lambda it, _: errors.append(it)
        )
        producer.flush(30)
        acknowledged = bool(errors) and errors[0] is None
        self.numbers += acknowledged
        return acknowledged

    def wait(self) -> None:
        """Wait for the first record on B, and see that each number is there once.  Raises SystemExit if not."""
        if not self._over.wait(60):
            raise SystemExit("the application was not sent to B")
        place = TopicPartition(f"A.{self._topic}", 0, 0)
        consumer = Consumer({
            "bootstrap.servers": self._servers,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        })
        consumer.assign([place])
        found = Counter[bytes]()
        while (record := consumer.poll(30)) is not None and record.error() is None:
            found[record.value()] += record.value().startswith(b"shop-")
        consumer.close()
        wrong = [it for it in range(self.numbers) if found[b"shop-%d" % it] != 1]
        if wrong or found.total() != self.numbers:
            raise SystemExit(
                f"of {self.numbers} records {len(wrong)} are not there once, {found.total()} in all"
            )


def produce(servers: str, topics: Sequence[str], records: int) -> None:
    """Write some records to every partition."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "log_level": 4})
    for number in range(records):
        for topic in topics:
            for partition in range(PARTITIONS):
                producer.produce(topic, b"%d" % number * 20, partition=partition)
        producer.poll(0)
    if producer.flush(60):
        raise SystemExit("the source does not take the records")


def commit(servers: str, topics: Sequence[str], groups: int) -> None:
    """Let each group stand in the middle of some topics."""
    for number in range(groups):
        consumer = Consumer({"bootstrap.servers": servers, "group.id": f"app-{number:03d}", "log_level": 4})
        read = [topics[(number + more) % len(topics)] for more in range(min(TOPICS_A_GROUP, len(topics)))]
        where = [
            TopicPartition(topic, partition, RECORDS // 2)
            for topic in read
            for partition in range(PARTITIONS)
        ]
        consumer.commit(offsets=where, asynchronous=False)
        consumer.close()


def command(config: Path, *words: str, asked: bool = False) -> Row:
    """Run a command line; return its JSON document, of whatever exit code.

    If it is `asked`, it runs at a terminal, and a person says yes at once.
    """
    ours, theirs = pty.openpty()
    line: list[str | Path] = [twinlog(), *words, "--config", config, "--output", "json"]
    with subprocess.Popen(
        line,
        stdin=theirs if asked else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        said, more = b"", b" "
        while asked and b"[y/N]" not in said and more:
            more = os.read(process.stderr.fileno(), 4096)
            said += more
        os.write(ours, b"y\n")
        out, rest = process.communicate()
    os.close(ours)
    os.close(theirs)
    if not out.strip():
        raise SystemExit(f"twinlog {' '.join(words)}: {(said + rest).decode()}")
    document: Row = json.loads(out)
    return document


def markdown(rows: Sequence[Row], given: argparse.Namespace) -> str:
    """Make the page's table: a column for each mode, and what each step says, guarded if it was measured so."""
    by = {mode: {row["step"]: row for row in rows if row["mode"] == mode} for mode in MODES}
    by = {mode: steps for mode, steps in by.items() if steps}
    said = {step: row["message"] for steps in by.values() for step, row in steps.items()}
    for mode in ("planned", GUARDED):
        said |= {step: row["message"] for step, row in by.get(mode, {}).items()}
    order = sorted(
        said, key=lambda step: (not step, [list(steps).index(step) for steps in by.values() if step in steps])
    )

    def seconds(step: str) -> list[str]:
        """Return what a step took in each mode."""
        return [f"{steps[step]['seconds']:.1f}" if step in steps else "" for steps in by.values()]

    positions, tail = rows[-1]["positions"], TAIL * PARTITIONS * given.topics
    return "\n".join([
        f"{given.topics:,} topics of {PARTITIONS} partitions, {given.groups:,} groups with {positions:,} positions,"
        f" {tail:,} records to drain; seconds. guarded: planned, from a source where twinlog is no super user; it"
        " denies WRITE to an application, a person says yes at once, a hook sends the application to B.",
        "",
        f"| step | {' | '.join(by)} | what it says |",
        f"|---|{'---:|' * len(by)}---|",
        *(f"| {' | '.join([step or 'in all', *seconds(step), said[step]])} |" for step in order),
        "",
        *(
            f"{row['written']:,} records of the application are on B once; it could not write for {row['silent']} s."
            for row in rows
            if "written" in row
        ),
        "",
    ])


if __name__ == "__main__":
    main()
