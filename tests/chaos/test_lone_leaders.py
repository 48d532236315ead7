"""A target whose topics have one replica, and a broker of it dies: transactions end while partitions have no leader.

The coordinator then leaves out their markers and calls the transaction complete (KAFKA-20734).  What lies open in such
a partition must neither come to count with the next transaction, nor stop counting with it; and nobody has to look.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from faults.leaders import leader_of_the_copy
from in_turn import in_turn
from stage import SLOW, Stage, until
from wired import MINUTES

from lab import Seen, ThreadRunner, create_topic, flow_of, produce, read, wait_until
from twinlog.cluster.api import open_clusters
from twinlog.follow import follow

pytestmark = [pytest.mark.chaos, pytest.mark.integration]

TURNS = int(os.environ.get("TWINLOG_LONE_TURNS", "10" if MINUTES else "1"))
"""How often each is played."""

ONE_TRANSACTION = {
    "twinlog__bytes__per__second": "200000",
    "twinlog__transaction__bytes": "100000000",
    "offset__storage__replication__factor": "3",
}
"""All that is copied in about six seconds is open when the broker dies; progress and map live on."""


@pytest.mark.parametrize("seed", range(TURNS))
@pytest.mark.parametrize("properties", [*in_turn(ONE_TRANSACTION), SLOW], ids=["one_transaction", "many"])
def test_a_lone_leader_dies(
    seed: int,
    properties: dict[str, str],
    cluster_a: Any,
    three_brokers: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """A broker is killed in the middle of a copy, and comes back before or after the cluster knows that it is dead."""
    stage = Stage(tmp_path, cluster_a, three_brokers, unique_topic("lone"), seed, properties=properties)
    stage.copy_midway(2.0)

    def die() -> bool:
        three_brokers.kill(leader_of_the_copy(stage))
        copying = stage.copying
        time.sleep(stage.chance.uniform(0, 12))
        three_brokers.start()
        return copying

    stage.hurt(die)
    stage.traffic(200)
    stage.check("a_lone_leader_dies")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(TURNS))
def test_a_lone_leader_dies_while_it_is_followed(
    seed: int, cluster_a: Any, three_brokers: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Records come all the while; a lane goes on in the same epoch, or its driver fences: either way they are equal."""
    stage = Stage(
        tmp_path,
        cluster_a,
        three_brokers,
        unique_topic("lone"),
        seed,
        properties={"twinlog__follow__seconds": "15", "offset__storage__replication__factor": "3"},
    )
    stop, enough = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        followed = pool.submit(_follow, stage, stop)
        producing = pool.submit(_produce_until, stage, enough)
        try:
            time.sleep(6.0 + stage.chance.uniform(0, 2))
            three_brokers.kill(leader_of_the_copy(stage))
            time.sleep(stage.chance.uniform(0, 12))
            three_brokers.start()
            time.sleep(5.0)
        finally:
            enough.set()
            try:
                producing.result()
                until(lambda: followed.done() or stage.copied_all, 90)
                by_itself = stage.copied_all
            finally:
                stop.set()  # else the pool would wait for the one that follows
            followed.result(120)
    assert by_itself  # a drain would copy past a lane that hangs
    stage.check("a_lone_leader_dies_while_it_is_followed")


def _follow(stage: Stage, stop: threading.Event) -> None:
    with open_clusters(stage.flow) as clusters:
        follow.run(
            stage.flow,
            clusters,
            ThreadRunner(),
            run_id=uuid.uuid4().hex,
            seconds=300,
            stop=stop,
            on_generation=lambda window: print(window.line),
        )


def _produce_until(stage: Stage, enough: threading.Event) -> None:
    while not enough.wait(0.05):
        stage.traffic(20)


@pytest.mark.long
def test_a_copy_without_a_leader_holds_up_no_other(
    cluster_a: Any, three_brokers: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Its lane sets it aside; it used to wait for a leader for 30 s, and all its partitions with it."""
    topic = create_topic(cluster_a, unique_topic("aside"), 3)
    admin = AdminClient({"bootstrap.servers": three_brokers.bootstrap_servers})
    copies = NewTopic(f"A.{topic}", 3, replica_assignment=[[1], [2], [3]], config={"retention.ms": "-1"})
    admin.create_topics([copies])[copies.topic].result(30)
    durable = {"offset__storage__replication__factor": "3", "twinlog__lanes": "1"}
    flow = flow_of(tmp_path, cluster_a, three_brokers, [topic], **durable)
    before, after = ([Seen(None, b"%d" % n, 1_700_000_000_000) for n in range(at, at + 5)] for at in (0, 5))

    def written(records: list[Seen]) -> None:
        for partition in range(3):
            produce(cluster_a, topic, records, partition)

    def copied(count: int, *partitions: int) -> bool:
        return all(len(read(three_brokers, copies.topic, it)) == count for it in partitions)

    def leaderless() -> bool:
        found = admin.list_topics(copies.topic, timeout=10).topics[copies.topic]
        return bool(found.partitions[0].leader == -1)

    stop = threading.Event()
    written(before)
    with ThreadPoolExecutor(1) as pool, open_clusters(flow) as clusters:
        followed = pool.submit(
            follow.run, flow, clusters, ThreadRunner(), run_id=uuid.uuid4().hex, seconds=300, stop=stop
        )
        try:
            wait_until(lambda: copied(5, 0, 1, 2), 90)
            three_brokers.kill(1)
            wait_until(leaderless, 60)
            began = time.monotonic()
            written(after)
            wait_until(lambda: copied(10, 1, 2), 60)
            took = time.monotonic() - began
            three_brokers.start()
            wait_until(lambda: copied(10, 0), 90)
        finally:
            three_brokers.start()
            stop.set()
            result = followed.result(120)
    print(f"the others were copied after {took:.1f} s")
    assert ("done", 30, True) == (result.state, result.records, took < 20)
    assert [*before, *after] == read(three_brokers, copies.topic)
