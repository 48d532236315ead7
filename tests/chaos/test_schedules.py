"""Schedules of trouble on real brokers: whatever happens meanwhile, in the end both sides are equal.

Each fault of `faults/` is inflicted in CI, half of them in turn, from a seed that stands in the test's name; about a
minute with the clusters.  `make chaos` goes on drawing faults and seeds for TWINLOG_CHAOS_MINUTES.  What else is hurt,
and how, is in test_kills.py (drivers, lanes, Spark) and docs/chaos.md.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults import FAULTS, Fault, leaders, network
from stage import LARGE, SLOW, Stage
from wired import MINUTES, Wired, wired_broker

from twinlog.lab.kafka.jars import OLDER_KAFKA_VERSION

pytestmark = [pytest.mark.chaos, pytest.mark.integration]


def play(fault: Fault, seed: int, stage: Callable[..., Stage], source: Wired, target: Wired) -> None:
    """Traffic, a copy on its way, trouble in the middle of it, more traffic; then all has to be equal.

    About every second schedule is a large one, and those that freeze a transaction are: it is open most of the time.
    """
    own = f"{fault.name} {seed}"
    large = fault.alone or random.Random(f"{own} size").random() < 0.5
    on = stage(own, large=large, properties=LARGE if large else SLOW)
    if not fault.alone:
        on.copy_midway(0.8)
    try:
        fault.inflict(on, source, target)
    finally:
        for wired in (source, target):
            wired.proxy.faults.calm()
    on.traffic(200)
    on.check(fault.name)


@pytest.mark.parametrize("seed", [20261123])
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, marks=[pytest.mark.long] if fault.in_turn else [], id=fault.name)
        for fault in FAULTS
        if MINUTES or not fault.costly
    ],
)
def test_once(fault: Fault, seed: int, stage: Callable[..., Stage], wired: tuple[Wired, Wired]) -> None:
    """Nothing is lost, nothing doubled, nothing out of order; the map knows where everything went."""
    play(fault, seed, stage, *wired)


@pytest.mark.skipif(not MINUTES, reason="make chaos")
def test_for_minutes(
    stage: Callable[..., Stage], wired: tuple[Wired, Wired], record_property: Callable[[str, Any], None]
) -> None:
    """Faults in random order, each with a seed of its own, until time is up."""
    seed = int(os.environ.get("TWINLOG_CHAOS_SEED", time.time()))
    chance = random.Random(seed)
    record_property("seed", seed)
    deadline = time.monotonic() + MINUTES * 60
    while time.monotonic() < deadline:
        own = chance.randrange(1 << 30)
        fault = chance.choice(FAULTS)
        print(f"{fault.name} {own} (of {seed})", flush=True)
        play(fault, own, stage, *wired)


@pytest.mark.long
@pytest.mark.parametrize("version", [OLDER_KAFKA_VERSION, "2.8.2"])
def test_late_requests_on_older_brokers(
    version: str, wired: tuple[Wired, Wired], unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Brokers that give no new epoch with each transaction (3.9), or check no partition (2.8), lose nothing either."""
    source = wired[0]
    target = wired_broker(f"wired-{version}", tmp_path / "kafka", version)
    with target.cluster:
        try:
            for seed in range(3 if MINUTES else 1):
                own = tmp_path / f"{seed}"
                own.mkdir()
                addresses = {"A": source.address, "B": target.address}
                topic = unique_topic("late")
                on = Stage(own, source.cluster, target.cluster, topic, seed, addresses, properties=SLOW)
                on.copy_midway(0.8)
                network.delivered_late(on, source, target)
                on.traffic(200)
                on.check(f"delivered_late on {version}")
        finally:
            target.proxy.close()


MOVES = [
    leaders.leaders_move,
    leaders.the_coordinator_dies,
    *([leaders.replicas_move, leaders.a_leader_dies] if MINUTES else []),
]


@pytest.mark.long
@pytest.mark.parametrize("seed", [20261124])
@pytest.mark.parametrize("trouble", MOVES, ids=lambda move: move.__name__)
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
