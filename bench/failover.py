"""Measure a failover by its command, step by step: what an operator waits for between the gate and B.

    python -m bench.failover                      50 topics of 10 partitions, 200 groups, both modes
    python -m bench.failover --topics 5 --groups 10 --mode source-dead

Planned: records come until the failover begins, so that it has a tail to drain.  The producers then stop by themselves:
the brokers keep no ACLs, so the command watches the ends of the source (`twinlog.gate.fence.seconds`).  Source-dead:
the source is killed behind the last cycle.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
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
MODES = ("planned", "source-dead")

Row = dict[str, Any]


def main() -> None:
    """Fill the source, copy it, prove it, fail over, and print the steps."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--mode", choices=MODES, action="append", help="one of them alone")
    pages.add_arguments(parser)
    given = parser.parse_args()
    rows, text = list[Row](), ""
    for mode in given.mode or MODES:
        found = one(mode, given)
        table = markdown(mode, found, given)
        print(table, flush=True)
        rows, text = [*rows, *found], text + table
    pages.write("failover", rows, text, given)


def one(mode: str, given: argparse.Namespace) -> list[Row]:
    """Measure one mode on brokers of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        EmbeddedKafka("A") as source,
        EmbeddedKafka("B") as target,
    ):
        config = Path(folder, "mm2.properties")
        reports = f"twinlog.reports.folder = {folder}/reports\n"
        config.write_text(TWINLOG.properties(source, target, "orders-.*") + reports)
        return measure(config, source, mode, given.topics, given.groups)


def measure(config: Path, source: EmbeddedKafka, mode: str, topics: int, groups: int) -> list[Row]:
    """Return a row for each step, and one for the command as a whole.  Raises SystemExit if it was not promoted."""
    servers = source.bootstrap_servers
    names = [f"orders-{number:02d}" for number in range(topics)]
    for name in names:
        load.create_topic(servers, name, PARTITIONS, **{"retention.ms": "604800000"})
    produce(servers, names, RECORDS)
    commit(servers, names, groups)
    command(config, "run", "--once")
    command(config, "audit")
    if mode == "planned":
        produce(servers, names, TAIL)
    else:
        source.kill()
    began = time.monotonic()
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
        },
    ]


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


def command(config: Path, *words: str) -> Row:
    """Run a command line; return its JSON document, of whatever exit code."""
    done = subprocess.run(
        [twinlog(), *words, "--config", config, "--output", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout.strip():
        raise SystemExit(f"twinlog {' '.join(words)}: {done.stderr}")
    document: Row = json.loads(done.stdout)
    return document


def markdown(mode: str, rows: Sequence[Row], given: argparse.Namespace) -> str:
    """Make the page's table."""
    whole, tail = rows[-1], TAIL * PARTITIONS * given.topics
    drained = f", {tail:,} records to drain" if mode == "planned" else ""
    lines = [f"| {it['step']} | {it['seconds']:.1f} | {it['message']} |" for it in rows[:-1]]
    return "\n".join([
        f"`twinlog failover --mode {mode} --yes`: {given.topics:,} topics of {PARTITIONS} partitions, {given.groups:,}"
        f" groups with {whole['positions']:,} positions{drained}; {whole['seconds']:.1f} s in all:",
        "",
        "| step | s | what it says |",
        "|---|---:|---|",
        *lines,
        "",
    ])


if __name__ == "__main__":
    main()
