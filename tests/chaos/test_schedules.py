"""Schedules of trouble on real brokers: whatever happens meanwhile, in the end both sides are equal.

Each kind is played once in CI, from a seed that stands in the test's name; about two minutes with the clusters.
`make chaos` goes on drawing kinds and seeds for TWINLOG_CHAOS_MINUTES.  What else is hurt, and how, is in
test_kills.py (drivers, lanes, Spark) and docs/chaos.md.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from proxy import DOWN, UP
from stage import PARTITIONS, Stage
from wired import MINUTES, Wired, start_driver

from twinlog.relay import kafka_python, wire
from twinlog.relay.brokers import Brokers
from twinlog.relay.fence import transactional_id

pytestmark = [pytest.mark.chaos, pytest.mark.integration]

Kind = Callable[[Stage, Wired, Wired], None]


def cuts(stage: Stage, source: Wired, target: Wired) -> None:
    """Connections reset in the middle of requests and of answers, on either side."""
    faults = [source.proxy.faults, target.proxy.faults]
    before = sum(it.cuts for it in faults)

    def enough() -> bool:
        chosen = stage.chance.choice(faults)
        chosen.cut_after.setdefault(stage.chance.choice([UP, DOWN]), stage.chance.randrange(60_000))
        return sum(it.cuts for it in faults) >= before + 6 or not stage.copying

    until(enough)
    assert sum(it.cuts for it in faults) > before


def a_slow_network(stage: Stage, source: Wired, target: Wired) -> None:
    """Late answers, little bandwidth, then every connection gone at once."""
    for wired in (source, target):
        wired.proxy.faults.delay_seconds = stage.chance.uniform(0.001, 0.01)
        wired.proxy.faults.bytes_per_second = 400_000
    time.sleep(2.0)
    for wired in (source, target):
        wired.proxy.faults.calm()
        wired.proxy.cut_all()


def lost_commits(stage: Stage, source: Wired, target: Wired) -> None:
    """The target commits and the answer never comes: asked again until it is answered, it says committed."""
    faults = target.proxy.faults
    before = faults.lost_answers
    faults.lose_answers_of[kafka_python.END_TXN.request.API_KEY] = 6
    until(lambda: faults.lost_answers >= before + 6 or not stage.copying)
    assert faults.lost_answers > before


def lost_answers(stage: Stage, source: Wired, target: Wired) -> None:
    """Answers lost of every other kind of request, on either side."""
    apis = [kafka_python.INIT_PRODUCER_ID, kafka_python.ADD_PARTITIONS, kafka_python.FIND_COORDINATOR]
    for key in (wire.PRODUCE, *(api.request.API_KEY for api in apis)):
        target.proxy.faults.lose_answers_of[key] = 2
    source.proxy.faults.lose_answers_of[wire.FETCH] = 2
    time.sleep(2.0)


def a_source_that_stops_answering(stage: Stage, source: Wired, target: Wired) -> None:
    """SIGSTOP and SIGCONT: connections stay open."""
    source.cluster.pause()
    time.sleep(stage.chance.uniform(0.5, 2.0))
    source.cluster.resume()


def a_target_that_stops_answering(stage: Stage, source: Wired, target: Wired) -> None:
    """The same on the other side: commits and their answers are on their way meanwhile."""
    target.cluster.pause()
    time.sleep(stage.chance.uniform(0.5, 2.0))
    target.cluster.resume()


def a_killed_source(stage: Stage, source: Wired, target: Wired) -> None:
    """SIGKILL and a restart on the same address."""
    source.cluster.kill()
    source.cluster.start()


def a_killed_target(stage: Stage, source: Wired, target: Wired) -> None:
    """With it die its open transactions' producers' states, to be read from the log again."""
    target.cluster.kill()
    target.cluster.start()


def both_killed(stage: Stage, source: Wired, target: Wired) -> None:
    """A power cut."""
    for wired in (source, target):
        wired.cluster.kill()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda wired: wired.cluster.start(), (source, target)))


def two_copiers(stage: Stage, source: Wired, target: Wired) -> None:
    """A second driver that never gives way for long: they fence each other again and again."""
    rival = Stage.__new__(Stage)
    rival.flow, rival.begun = stage.flow, stage.begun
    rival.copy()
    rival.join()


def commits_lost_to_a_rival(stage: Stage, source: Wired, target: Wired) -> None:
    """Answers to commits are lost while another driver fences: whether they counted, progress says."""
    target.proxy.faults.lose_answers_of[kafka_python.END_TXN.request.API_KEY] = 12
    two_copiers(stage, source, target)


def clock_jumps(stage: Stage, source: Wired, target: Wired) -> None:
    """The wall clock jumps by up to an hour with every look at it; waiting is done by the monotonic one."""
    real = time.time
    with mock.patch("time.time", lambda: real() + random.Random(real()).uniform(-3000, 3000)):
        until(lambda: not stage.copying)


def zombies(stage: Stage, source: Wired, target: Wired) -> None:
    """A driver and its lanes frozen for longer than their transactions may last, while another one copies."""
    frozen(stage, another_meanwhile=True)


def sleepers(stage: Stage, source: Wired, target: Wired) -> None:
    """The same with nobody else: their transactions time out, they find themselves fenced, and fence again."""
    frozen(stage, another_meanwhile=False)


def frozen(stage: Stage, *, another_meanwhile: bool) -> None:
    driver = start_driver(stage.config)
    assert driver.stdout is not None
    driver.stdout.readline()
    time.sleep(stage.chance.uniform(0.0, 0.5))
    family = [psutil.Process(driver.pid), *psutil.Process(driver.pid).children(recursive=True)]
    victims = family if stage.chance.random() < 0.5 else family[1:]
    for process in victims:
        process.send_signal(signal.SIGSTOP)
    time.sleep(2.5)  # the transactions' time-out is 1.5 s
    if another_meanwhile:
        stage.traffic(300)
        stage.copy()
        stage.join()
    for process in victims:
        process.send_signal(signal.SIGCONT)
    driver.communicate(timeout=90)


ALONE: tuple[Kind, ...] = (zombies, sleepers)
"""Kinds that start drivers of their own."""

KINDS: tuple[Kind, ...] = (
    cuts,
    a_slow_network,
    lost_commits,
    lost_answers,
    a_source_that_stops_answering,
    a_target_that_stops_answering,
    two_copiers,
    commits_lost_to_a_rival,
    clock_jumps,
    zombies,
    sleepers,
    a_killed_source,
    a_killed_target,
    both_killed,
)
"""The cheap ones first: what a restarted broker leaves behind slows down what follows."""

COSTLY: tuple[Kind, ...] = (both_killed,)
"""Kinds for `make chaos` alone."""


def until(happened: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.05)


def play(kind: Kind, stage: Stage, source: Wired, target: Wired) -> None:
    """Traffic, a copy on its way, trouble in the middle of it, more traffic; then all has to be equal."""
    stage.traffic()
    if kind not in ALONE:
        stage.copy()
        stage.begun.wait(60)
        time.sleep(stage.chance.uniform(0.0, 0.8))
    try:
        kind(stage, source, target)
    finally:
        for wired in (source, target):
            wired.proxy.faults.calm()
    stage.traffic(200)
    stage.check(kind.__name__)


@pytest.mark.parametrize("seed", [20261123])
@pytest.mark.parametrize(
    "kind", [it for it in KINDS if MINUTES or it not in COSTLY], ids=lambda it: it.__name__
)
def test_once(kind: Kind, seed: int, stage: Callable[..., Stage], wired: tuple[Wired, Wired]) -> None:
    """Nothing is lost, nothing doubled, nothing out of order; the map knows where everything went."""
    play(kind, stage(seed, properties=SLOW), *wired)


SLOW = {
    "twinlog__bytes__per__second": "600000",
    "twinlog__transaction__timeout__ms": "1500",
    "twinlog__transaction__ms": "1000",
}
"""A copy of a megabyte then takes about two seconds, and trouble meets it on its way."""


@pytest.mark.skipif(not MINUTES, reason="make chaos")
def test_for_minutes(
    stage: Callable[..., Stage], wired: tuple[Wired, Wired], record_property: Callable[[str, Any], None]
) -> None:
    """Kinds in random order, each with a seed of its own, until time is up."""
    seed = int(os.environ.get("TWINLOG_CHAOS_SEED", time.time()))
    chance = random.Random(seed)
    record_property("seed", seed)
    deadline = time.monotonic() + MINUTES * 60
    while time.monotonic() < deadline:
        own = chance.randrange(1 << 30)
        kind = chance.choice(KINDS)
        print(f"{kind.__name__} {own} (of {seed})", flush=True)
        play(kind, stage(own, properties=SLOW), *wired)


# --- three brokers -----------------------------------------------------------------------------------------------


def leaders_move(stage: Stage, cluster: Any) -> None:
    """Replicas are put in another order and the first one elected, for the copy and twinlog's own topics."""
    topics = [f"A.{stage.topic}", stage.flow.offsets_topic, stage.flow.offset_map_topic]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for turn in range(6):
        known = admin.list_topics(timeout=10).topics
        parts = [(name, number) for name in topics for number in known[name].partitions]
        reassign(cluster, {part: [(turn + n + part[1]) % 3 + 1 for n in range(3)] for part in parts})
        admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(*part) for part in parts]).result(10)
        time.sleep(0.3)


def replicas_move(stage: Stage, cluster: Any) -> None:
    """Partitions leave a broker altogether, and come back."""
    parts = [(f"A.{stage.topic}", number) for number in range(PARTITIONS)]
    for turn in range(3):
        reassign(cluster, {part: [(turn + part[1]) % 3 + 1] for part in parts})
        time.sleep(0.5)
    reassign(cluster, {part: [1, 2, 3] for part in parts})


def the_coordinator_dies(stage: Stage, cluster: Any) -> None:
    """SIGKILL for the broker that coordinates lane 0's transactions; later it comes back."""
    kill_then_start(cluster, node_of(stage, lambda brokers: brokers.coordinator(transactional_id("A->B", 0))))


def a_leader_dies(stage: Stage, cluster: Any) -> None:
    """SIGKILL for a broker that leads a partition of the copy."""
    kill_then_start(cluster, leader_of_the_copy(stage))


def leader_of_the_copy(stage: Stage) -> int:
    return node_of(stage, lambda brokers: brokers.node(brokers.leader(f"A.{stage.topic}", 0), "fetch"))


def node_of(stage: Stage, connection: Callable[[Brokers], Any]) -> int:
    with Brokers(stage.flow.target.connection) as brokers:
        address = connection(brokers).address
        return 1 + stage.target.bootstrap_servers.split(",").index(address)


def kill_then_start(cluster: Any, node: int) -> None:
    cluster.kill(node)
    time.sleep(5.0)  # longer than a broker's session
    cluster.start()


def reassign(cluster: Any, replicas: dict[tuple[str, int], list[int]]) -> None:
    """AlterPartitionReassignments, by kafka-python."""
    from kafka import KafkaAdminClient
    from kafka import TopicPartition as Partition

    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        admin.alter_partition_reassignments({Partition(*part): nodes for part, nodes in replicas.items()})
    finally:
        admin.close()


MOVES = [leaders_move, the_coordinator_dies, *([replicas_move, a_leader_dies] if MINUTES else [])]


@pytest.mark.parametrize("seed", [20261124])
@pytest.mark.parametrize("trouble", MOVES, ids=lambda it: it.__name__)
def test_on_three_brokers(
    trouble: Callable[[Stage, Any], None],
    seed: int,
    cluster_a: Any,
    three_brokers: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Leaders, replicas and coordinators of the target move while it is written to."""
    stage = Stage(
        tmp_path, cluster_a, three_brokers, unique_topic("moves"), seed, replication=3, properties=SLOW
    )
    stage.traffic()
    stage.copy()
    stage.begun.wait(60)
    trouble(stage, three_brokers)
    stage.traffic(200)
    stage.check(trouble.__name__)
