"""A source that dies amid transactions: groups go on where none of them is split, on real brokers.

Cost: 70 s for each client, of which the brokers take half.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaException, Producer
from test_audit import forget_map
from test_failover import PARTITIONS, Pair, start_again

from lab import (
    Seen,
    commit_group,
    create_topic,
    cycle,
    delete_topic,
    flow_of,
    produce,
    read_partitions,
    wait_until,
)
from twinlog.cluster.open import open_clusters
from twinlog.cut.plan import NoCut
from twinlog.kafka_types import TopicPartition
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lab.kafka.jars import class_path, tools_jars
from twinlog.lab.kafka.java import find_java
from twinlog.recovery.steps.consistent_cut import FoundCut, read_cut
from twinlog.state.ledger import read_ledger
from twinlog.topics.discover import all_partitions

TOPICS = ("orders", "payments")
HERE = Path(__file__).parent


class Transactions:
    """A producer that writes one transaction after the other to some partitions, in pauses of its own."""

    def __init__(self, cluster: Any, name: str, topics: tuple[str, ...] = TOPICS) -> None:
        self._stop = Event()
        self._dice = random.Random(name)
        self._topics = topics
        self._thread = Thread(target=self._write, args=(cluster, name), daemon=True)
        self._thread.start()

    def _write(self, cluster: Any, name: str) -> None:
        producer = Producer({
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": uuid.uuid4().hex,
        })
        producer.init_transactions(30)
        dice = self._dice
        with suppress(KafkaException):  # its broker is killed
            for number in count():
                if self._stop.is_set():
                    return
                producer.begin_transaction()
                for _ in range(dice.randint(1, 6)):
                    producer.produce(
                        dice.choice(self._topics),
                        value=f"{name}-{number}",
                        partition=dice.randrange(PARTITIONS),
                    )
                    if dice.random() < 0.3:
                        producer.flush(4)
                if dice.random() < 0.2:
                    producer.flush(4)
                    producer.abort_transaction(4)
                else:
                    producer.commit_transaction(4)
                time.sleep(dice.uniform(0, 0.4))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)


@contextmanager
def confluent_clients(cluster: Any) -> Iterator[None]:
    """Three producers, whose transactions have no epochs of their own; each pauses now and then."""
    writers = [Transactions(cluster, f"py{number}") for number in range(3)]
    try:
        yield
    finally:
        for it in writers:
            it.stop()


@contextmanager
def java_clients(cluster: Any) -> Iterator[None]:
    """Three producers without a pause; each of their transactions has an epoch of its own (KIP-890)."""
    words = [find_java().path, "-Xmx128m", "-cp", class_path(tools_jars()), HERE / "WriteTransactions.java"]
    words += [cluster.bootstrap_servers, 3, PARTITIONS, *TOPICS]
    process = subprocess.Popen([*map(str, words)], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def followed(pair: Pair) -> Iterator[None]:
    """The flow is followed by a process that is killed in the end."""
    words = [sys.executable, HERE / "follow_process.py", "run", "--follow", "--config", pair.file]
    with (pair.file.parent / "follow.log").open("wb") as log:
        process = subprocess.Popen([*map(str, words)], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def transactions_of(cluster: Any, topics: dict[str, str]) -> dict[str, list[tuple[str, int, int]]]:
    """Where the records of each transaction are: topic by its name on the source, partition, offset."""
    found: defaultdict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for topic, name in topics.items():
        for partition, rows in read_partitions(cluster, name, range(PARTITIONS)).items():
            for offset, it in rows:
                found[(it.value or b"").decode()].append((topic, partition, offset))
    return found


@pytest.mark.parametrize("clients", [confluent_clients, java_clients])
def test_a_consistent_cut_splits_no_transaction_of_a_source_that_was_killed(
    clients: Callable[[Any], Any], cluster_b, tmp_path: Path
) -> None:
    """Counted by what the source's log holds afterwards; what lies behind the cut is named and in files."""
    with EmbeddedKafka("east", tmp_path / "kafka") as source:
        pair = Pair(
            tmp_path,
            source,
            cluster_b,
            topics=",".join(TOPICS),
            heartbeats__replication__enabled="false",
            twinlog__consistent__cut="true",
            twinlog__audit__percent="1",
            emit__checkpoints__interval__seconds="1",
        )
        create_topic(source, "payments", PARTITIONS, retention_ms="604800000")
        remote = {it: pair.flow.policy.format_remote_topic(pair.flow.source.alias, it) for it in TOPICS}
        pair.cycle()
        with clients(source), followed(pair):
            wait_until(lambda: ends_of(pair, remote) > 300, 90)
            pair.audit()
            commit_group(source, "billing", "orders", 20, 1)
            time.sleep(8)
            commit_group(source, "billing", "orders", end_of(pair, "orders"), 0)
            time.sleep(3)
            killed_ms = time.time() * 1000
            source.kill()
            time.sleep(1)
        code, dry = pair.command("failover", "--mode", "source-dead", "--consistent-cut", "--dry-run")
        assert 0 == code, dry
        code, report = pair.command("failover", "--mode", "source-dead", "--consistent-cut", "--yes")
        assert (0, "promoted") == (code, report["state"]), json.dumps(report["steps"], indent=1)
        print("CUT AGE", killed_ms - report["cut"]["as_of_ms"])
        print([it["message"] for it in report["steps"] if it["name"] == "consistent-cut"])
        cut = {
            (topic["topic"], it["partition"]): (it["cut_upstream"], it["cut_downstream"])
            for topic in report["topics"]
            for it in topic["partitions"]
        }
        start_again(source)

        there = transactions_of(source, {it: it for it in TOPICS})
        split = [
            name
            for name, places in there.items()
            if len({offset < cut[topic, partition][0] for topic, partition, offset in places}) > 1
        ]
        assert [] == split
        copied = transactions_of(cluster_b, remote)
        before_cut = {
            name
            for name, places in copied.items()
            if all(offset < cut[topic, partition][1] for topic, partition, offset in places)
        }
        behind_cut = sorted(
            (topic, partition, offset)
            for places in copied.values()
            for topic, partition, offset in places
            if offset >= cut[topic, partition][1]
        )
        assert all(len(there[name]) == len(copied[name]) for name in before_cut)
        assert len(before_cut) > 50
        torn = [name for name in copied if len(there[name]) != len(copied[name])]
        print(
            f"{len(copied)} transactions copied, {len(before_cut)} before the cut, torn in the copy: {len(torn)}"
        )
        assert len(behind_cut) == report["cut"]["records"]
        in_files = sorted(
            (next(name for name, it in remote.items() if it == row["topic"]), row["partition"], row["offset"])
            for file in report["cut"]["files"]
            for row in pq.read_table(file["path"]).to_pylist()
        )
        assert behind_cut == in_files
        assert {0, 1} == {it["partition"] for it in report["groups"]}
        with open_clusters(pair.flow) as clusters:
            placed = clusters.target.committed_offsets(["billing"]).require()["billing"]
        mine = {at.partition: it.offset for at, it in placed.items() if at.topic == remote["orders"]}
        assert {0, 1} == mine.keys()  # other tests have a group of this name, too
        assert all(offset <= cut["orders", partition][1] for partition, offset in mine.items())


def test_a_copy_by_cycles_is_offered_up_to_where_it_is_whole(cluster_a, cluster_b, tmp_path: Path) -> None:
    """The last cycle copies one of two topics, so transactions are torn in the copy; the cut tears none."""
    topics = {it: create_topic(cluster_a, f"{it}-{uuid.uuid4().hex[:6]}", PARTITIONS) for it in TOPICS}
    noting = {"twinlog__consistent__cut": "true"}
    # The flow does not copy these any more: one has no copy, of the other nobody knows where its records are.
    gone, unmapped = before = [
        create_topic(cluster_a, f"{it}-{uuid.uuid4().hex[:6]}") for it in ("gone", "unmapped")
    ]
    for name in before:
        produce(cluster_a, name, [Seen(b"k", b"v", 1)])
    earlier = flow_of(tmp_path, cluster_a, cluster_b, before, **noting)
    cycle(earlier)
    delete_topic(cluster_b, f"A.{gone}")
    forget_map(earlier, unmapped)
    flow = flow_of(tmp_path, cluster_a, cluster_b, topics.values(), **noting)
    remote = {name: flow.policy.format_remote_topic("A", name) for name in topics.values()}
    writers = [Transactions(cluster_a, f"py{number}", tuple(topics.values())) for number in range(3)]
    for _ in range(4):
        time.sleep(1)
        cycle(flow)
    time.sleep(2)
    cycle(flow, topics=[topics["orders"]])
    for it in writers:
        it.stop()
    with open_clusters(flow) as clusters:
        found = read_cut(flow, clusters.target, read_ledger(flow, clusters.target))
    assert isinstance(found, FoundCut), found
    there = transactions_of(cluster_a, {it: it for it in remote})
    copied = transactions_of(cluster_b, remote)
    assert [] != [name for name in copied if len(there[name]) != len(copied[name])], "no copy is torn"
    at = {it.source: it for it in found.places}
    whole = [
        name
        for name, places in there.items()
        if {True} == {offset < at[TopicPartition(topic, number)].upstream for topic, number, offset in places}
    ]
    split = [
        name
        for name, places in there.items()
        if 2 == len({offset < at[TopicPartition(topic, number)].upstream for topic, number, offset in places})
    ]
    assert ([], True) == (split, len(whole) > 5)
    assert sorted(whole) == sorted(
        name
        for name, places in copied.items()
        if all(offset < at[TopicPartition(topic, number)].downstream for topic, number, offset in places)
    )
    delete_topic(cluster_b, remote[topics["payments"]])
    with open_clusters(flow) as clusters:
        found = read_cut(flow, clusters.target, read_ledger(flow, clusters.target))
    assert isinstance(found, NoCut)
    assert f"{remote[topics['payments']]}, the copy of {topics['payments']}, was deleted" in found.reason


def end_of(pair: Pair, topic: str) -> int:
    """Where the first partition of a topic ends on the source."""
    at = TopicPartition(topic, 0)
    with open_clusters(pair.flow) as clusters:
        return clusters.source.offsets([at]).require()[at].stable_end


def ends_of(pair: Pair, remote: dict[str, str]) -> int:
    """How many records are copied."""
    with open_clusters(pair.flow) as clusters:
        described = clusters.target.describe_topics(remote.values()).found
        return sum(
            it.end for it in clusters.target.offsets(all_partitions(described.values())).found.values()
        )
