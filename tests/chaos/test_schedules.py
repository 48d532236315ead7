"""Schedules of trouble on real brokers: whatever happens meanwhile, in the end both sides are equal.

Each kind is played once in CI, from a seed that stands in the test's name; about two minutes with the clusters.
`make chaos` goes on drawing kinds and seeds for TWINLOG_CHAOS_MINUTES.  What else is hurt, and how, is in
test_kills.py (drivers, lanes, Spark) and docs/chaos.md.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from copier import Copier
from proxy import DOWN, UP
from stage import Stage, until
from traffic import PARTITIONS
from wired import MINUTES, Wired, start_driver

from twinlog.lane.fence.fence import transactional_id
from twinlog.protocol import kafka_python, wire
from twinlog.protocol.brokers import Brokers

pytestmark = [pytest.mark.chaos, pytest.mark.integration]

Kind = Callable[[Stage, Wired, Wired], None]

END_TXN = int(kafka_python.END_TXN.request.API_KEY)


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
    faults = [source.proxy.faults, target.proxy.faults]
    before = [it.held_up for it in faults]
    for it in faults:
        it.delay_seconds = stage.chance.uniform(0.001, 0.01)
        it.bytes_per_second = 400_000 if stage.large else 100_000
    time.sleep(1.5)
    assert stage.copying
    for wired in (source, target):
        wired.proxy.faults.calm()
        wired.proxy.cut_all()
    assert all(it.held_up > old for it, old in zip(faults, before, strict=True))


def lost_commits(stage: Stage, source: Wired, target: Wired) -> None:
    """The target commits and the answer never comes: asked again until it is answered, it says committed."""
    lost = target.proxy.faults.lost_answers
    before = lost[END_TXN]
    target.proxy.faults.lose_answers_of[END_TXN] = 6
    until(lambda: lost[END_TXN] >= before + 6 or not stage.copying)
    assert lost[END_TXN] > before


def lost_answers(stage: Stage, source: Wired, target: Wired) -> None:
    """Answers lost of every other kind of request, on either side.

    That of a produce request makes the driver fence again, which asks what only a fence asks.
    """
    fencing = [kafka_python.INIT_PRODUCER_ID, kafka_python.ADD_PARTITIONS, kafka_python.FIND_COORDINATOR]
    keys = [wire.PRODUCE, *(int(api.request.API_KEY) for api in fencing)]
    asked = [(target.proxy.faults, key) for key in keys] + [(source.proxy.faults, wire.FETCH)]
    before = [faults.lost_answers[key] for faults, key in asked]
    for faults, key in asked:
        faults.lose_answers_of[key] = 2
    until(lambda: not any(faults.lose_answers_of[key] for faults, key in asked) or not stage.copying)
    hits = [faults.lost_answers[key] - old for (faults, key), old in zip(asked, before, strict=True)]
    assert all(hits), hits


def a_source_that_stops_answering(stage: Stage, source: Wired, target: Wired) -> None:
    """SIGSTOP and SIGCONT: connections stay open."""
    stop_answering(stage, source)


def a_target_that_stops_answering(stage: Stage, source: Wired, target: Wired) -> None:
    """The same on the other side: commits and their answers are on their way meanwhile."""
    stop_answering(stage, target)


def stop_answering(stage: Stage, wired: Wired) -> None:
    wired.cluster.pause()
    try:
        time.sleep(stage.chance.uniform(0.5, 2.0))
        assert stage.copying
    finally:
        wired.cluster.resume()


def a_killed_source(stage: Stage, source: Wired, target: Wired) -> None:
    """SIGKILL and a restart on the same address."""
    die_midway(stage, source)


def a_killed_target(stage: Stage, source: Wired, target: Wired) -> None:
    """With it die its open transactions' producers' states, to be read from the log again."""
    die_midway(stage, target)


def both_killed(stage: Stage, source: Wired, target: Wired) -> None:
    """A power cut."""
    die_midway(stage, source, target)


def die_midway(stage: Stage, *wired: Wired) -> None:
    """Other schedules need the brokers, whatever comes out of this one: they are started before it is judged."""
    for it in wired:
        it.cluster.kill()
    copying = stage.copying
    with ThreadPoolExecutor(len(wired)) as pool:
        list(pool.map(lambda it: it.cluster.start(), wired))
    assert copying


def two_copiers(stage: Stage, source: Wired, target: Wired) -> None:
    """A second driver that never gives way for long: they fence each other again and again."""
    rival = Copier(stage.flow)
    rival.start()
    rival.join()
    assert stage.copier.fenced + rival.fenced > 0


def commits_lost_to_a_rival(stage: Stage, source: Wired, target: Wired) -> None:
    """Answers to commits are lost while another driver fences: whether they counted, progress says."""
    lost = target.proxy.faults.lost_answers
    before = lost[END_TXN]
    target.proxy.faults.lose_answers_of[END_TXN] = 12
    two_copiers(stage, source, target)
    assert lost[END_TXN] > before


def clock_jumps(stage: Stage, source: Wired, target: Wired) -> None:
    """The wall clock jumps by up to an hour with every look at it; waiting is done by the monotonic one."""
    real, jumps, looks = time.time, random.Random(stage.seed), Counter[str]()

    def jumping() -> float:
        looks["jumped"] += 1
        return real() + jumps.uniform(-3000, 3000)

    with mock.patch("time.time", jumping):
        until(lambda: not stage.copying)
    assert looks["jumped"] > 0


def zombies(stage: Stage, source: Wired, target: Wired) -> None:
    """A driver and its lanes frozen in a transaction, while another one copies: they find that it runs the flow."""
    code, out, err = frozen(stage, another_meanwhile=True)
    assert code == 1, out + err
    assert "FencedError" in err


def sleepers(stage: Stage, source: Wired, target: Wired) -> None:
    """The same with nobody else: their transactions time out, they find themselves fenced, and fence again."""
    code, out, err = frozen(stage, another_meanwhile=False)
    assert code == 0, out + err
    state, _, rounds = out.splitlines()[-1].split()
    assert state == "done"
    assert int(rounds) > 1


def frozen(stage: Stage, *, another_meanwhile: bool) -> tuple[int, str, str]:
    """Freeze a driver and its lanes, or the lanes alone, for longer than their transaction; return how it ended."""
    stage.traffic()
    before = stage.size()
    driver = start_driver(stage.config)
    try:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "copying\n"
        until(lambda: stage.size() > before)
        time.sleep(stage.chance.uniform(0.0, 0.5))
        family = [psutil.Process(driver.pid), *psutil.Process(driver.pid).children(recursive=True)]
        victims = family if stage.chance.random() < 0.5 else family[1:]
        stop_in_a_transaction(stage, driver, victims)
        until(lambda: not stage.in_a_transaction)  # its time-out is 1.5 s
        if another_meanwhile:
            stage.traffic(300)
            stage.copy()
            stage.copier.join()
        for process in victims:
            process.send_signal(signal.SIGCONT)
        out, err = driver.communicate(timeout=90)
        return driver.returncode, out, err
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)


def stop_in_a_transaction(
    stage: Stage, driver: subprocess.Popen[str], victims: Sequence[psutil.Process]
) -> None:
    """SIGSTOP, and once more a little later where it met none between a begin and an end."""
    while True:
        assert driver.poll() is None
        for process in victims:
            process.send_signal(signal.SIGSTOP)
        time.sleep(0.1)  # an end that was under way is done by then
        if stage.in_a_transaction:
            return
        for process in victims:
            process.send_signal(signal.SIGCONT)
        time.sleep(0.05)


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


def play(kind: Kind, seed: int, stage: Callable[..., Stage], source: Wired, target: Wired) -> None:
    """Traffic, a copy on its way, trouble in the middle of it, more traffic; then all has to be equal.

    About every second schedule is a large one, and those that freeze a transaction are: it is open most of the time.
    """
    own = f"{kind.__name__} {seed}"
    large = kind in ALONE or random.Random(f"{own} size").random() < 0.5
    on = stage(own, large=large, properties=LARGE if large else SLOW)
    if kind not in ALONE:
        on.copy_midway(0.8)
    try:
        kind(on, source, target)
    finally:
        for wired in (source, target):
            wired.proxy.faults.calm()
    on.traffic(200)
    on.check(kind.__name__)


@pytest.mark.parametrize("seed", [20261123])
@pytest.mark.parametrize(
    "kind", [it for it in KINDS if MINUTES or it not in COSTLY], ids=lambda it: it.__name__
)
def test_once(kind: Kind, seed: int, stage: Callable[..., Stage], wired: tuple[Wired, Wired]) -> None:
    """Nothing is lost, nothing doubled, nothing out of order; the map knows where everything went."""
    play(kind, seed, stage, *wired)


SLOW = {
    "twinlog__bytes__per__second": "500000",
    "twinlog__transaction__timeout__ms": "1500",
    "twinlog__transaction__ms": "1000",
}
"""A copy of a megabyte and a half then takes about three seconds, and trouble meets it on its way."""

LARGE = SLOW | {"twinlog__bytes__per__second": "5000000"}
"""The same for ten times as much."""


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
        play(kind, own, stage, *wired)


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
    stage.copy_midway(0.0)
    trouble(stage, three_brokers)
    stage.traffic(200)
    stage.check(trouble.__name__)
