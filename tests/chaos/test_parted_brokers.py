"""Brokers that no longer reach each other while clients reach them all: a leader goes on that others have replaced."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from parted import NODES, Parted
from stage import SLOW, Stage, until
from wired import MINUTES

pytestmark = [pytest.mark.chaos, pytest.mark.integration, pytest.mark.long]

SEEDS = range(5 if MINUTES else 1)


@pytest.fixture(scope="module")
def parted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parted]:
    made = Parted("parted", tmp_path_factory.mktemp("parted") / "kafka")
    try:
        made.start()
        yield made
    finally:
        made.stop()


def seen_by(cluster: Any, node: int, topic: str) -> tuple[int, list[int]]:
    """Return the leader of a topic's first partition, and its replicas in sync, as one node knows them."""
    address = cluster.bootstrap_servers.split(",")[node - 1]
    try:
        found = AdminClient({"bootstrap.servers": address}).list_topics(topic, timeout=5).topics[topic]
    except KafkaException:
        return -1, []
    return found.partitions[0].leader, sorted(found.partitions[0].isrs)


def leader_of(parted: Parted, topic: str) -> int:
    """Return the leader of a topic's first partition, once all of its replicas are in sync."""
    until(lambda: seen_by(parted.cluster, 1, topic)[1] == [*NODES])
    return seen_by(parted.cluster, 1, topic)[0]


def part_a_leader(stage: Stage, parted: Parted, topic: str, *, from_controllers: bool) -> None:
    """Part the leader of a partition in the middle of a copy, until the others have noticed and a while longer."""

    def part() -> bool:
        leader = leader_of(parted, topic)
        other = 1 + leader % 3
        with parted.parted(leader, from_controllers=from_controllers):
            if from_controllers:
                until(lambda: seen_by(parted.cluster, other, topic)[0] not in {-1, leader})
                assert leader not in seen_by(parted.cluster, other, topic)[1]
                assert leader == seen_by(parted.cluster, leader, topic)[0]  # it does not know of the other
            else:
                until(lambda: seen_by(parted.cluster, other, topic) == (leader, [leader]), 10)
                alone = seen_by(parted.cluster, other, topic) == (leader, [leader])
                assert alone or stage.copying  # no end of a transaction reaches it, and the copy waits
            copying = stage.copying
            time.sleep(stage.chance.uniform(0, 6))
        return copying

    stage.hurt(part)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("from_controllers", [False, True], ids=["from_followers", "from_controllers_too"])
def test_a_leader_of_the_target_is_parted(
    seed: int,
    from_controllers: bool,
    cluster_a: Any,
    parted: Parted,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Records that only the parted leader took are refused or truncated, and copied again: none is lost or doubled."""
    topic = unique_topic("parted")
    stage = Stage(tmp_path, cluster_a, parted.cluster, topic, seed, replication=3, properties=SLOW)
    stage.copy_midway(0.8)
    part_a_leader(stage, parted, f"A.{topic}", from_controllers=from_controllers)
    stage.traffic(200)
    stage.check("a_parted_target")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("from_controllers", [False, True], ids=["from_followers", "from_controllers_too"])
def test_a_leader_of_the_source_is_parted(
    seed: int,
    from_controllers: bool,
    cluster_a: Any,
    parted: Parted,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Producers go on meanwhile, with the leader that was parted or with the new one: what counts is copied, once."""
    topic = unique_topic("parted")
    stage = Stage(tmp_path, parted.cluster, cluster_a, topic, seed, source_replication=3, properties=SLOW)
    stage.copy_midway(0.8)
    leader = leader_of(parted, topic)
    with ThreadPoolExecutor(1) as pool:
        with parted.parted(leader, from_controllers=from_controllers):
            written = pool.submit(stage.traffic, 300)
            time.sleep(stage.chance.uniform(4, 12))
            late = not written.done()
        written.result(180)
    stage.traffic(200)
    assert late, "no producer noticed"
    stage.check("a_parted_source")
