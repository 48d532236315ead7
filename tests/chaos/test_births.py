"""Topics are born while a flow is followed, is taken by rivals, and loses its connections: each record arrives once.

A born topic gets a lane of the last fence (twinlog.follow.births), so nobody looks for what another writer may have
left behind.  Costs about a minute; `make chaos` plays for TWINLOG_CHAOS_MINUTES.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from checks import assert_equal_and_mapped, ends
from copier import Copier
from report import PLAYED
from traffic import PARTITIONS, Traffic
from wired import MINUTES, Wired

from lab import ThreadRunner, configure, create_topic, topic_names, wait_until
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, TwinlogError
from twinlog.follow import follow

pytestmark = [pytest.mark.chaos, pytest.mark.integration, pytest.mark.long]

TOPICS = 10
BESIDE = "has one more lane, for "


class Follower:
    """Follows, and begins anew whenever a rival or trouble has ended that, as a supervisor does."""

    def __init__(self, flow: FlowSettings) -> None:
        self._flow, self._stop = flow, threading.Event()
        self.begun, self.births, self.failed = 0, 0, ""

    def __call__(self) -> None:
        while not self._stop.is_set():
            self.begun += 1
            try:
                with open_clusters(self._flow) as clusters:
                    follow.run(
                        self._flow,
                        clusters,
                        ThreadRunner(slots=8),
                        run_id=uuid.uuid4().hex,
                        seconds=600,
                        on_refresh=self._hear,
                        stop=self._stop,
                    )
            except TerminalError as error:
                if error.code not in {"relieved", "fenced"}:
                    self.failed = f"{error.code}: {error}"
                    return
            except TwinlogError:
                time.sleep(0.2)

    def _hear(self, line: str) -> None:
        self.births += BESIDE in line

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow in the background."""
        thread = threading.Thread(target=self)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(120)
            assert not thread.is_alive()


def play(seed: int, folder: Path, source: Wired, target: Wired) -> None:
    """Topics one after the other, with records at once; trouble while they are born, or none; then all is compared."""
    chance = random.Random(seed)
    stem = f"births-{uuid.uuid4().hex[:6]}"
    config = configure(
        folder,
        {"A": source.address, "B": target.address},
        ["A->B"],
        topics=f"{stem}-.*",
        heartbeats__replication__enabled="false",
        twinlog__follow__seconds="2",
        twinlog__transaction__timeout__ms="1500",
    )
    flow = load(config).flows["A->B"]
    topics = [Traffic(source.cluster, f"{stem}-{number}", chance, 600) for number in range(TOPICS)]
    create_topic(source.cluster, topics[0].topic, PARTITIONS)
    topics[0].write(40)
    assert Copier(flow).drain()
    follower = Follower(flow)
    with follower.following():
        for number, born in enumerate(topics[1:], 1):
            create_topic(source.cluster, born.topic, PARTITIONS)
            born.write(chance.randrange(20, 120))
            time.sleep(chance.uniform(0.0, 3.0))
            match chance.randrange(4):
                case 0:
                    assert Copier(flow).drain()
                case 1:
                    chance.choice([source, target]).proxy.cut_all()
            wait_until(lambda born=born: arrived(target, f"A.{born.topic}") or follower.failed, seconds=60)
            for again in chance.sample(topics[: number + 1], 2):
                again.write(40)
    assert "" == follower.failed
    assert Copier(flow).drain()
    for it in topics:
        assert_equal_and_mapped(flow, source.cluster, target.cluster, it.topic, it.written)
    print(f"{seed}: {follower.births} births, {follower.begun} runs", flush=True)
    assert follower.births > 0
    PLAYED["births"] += 1


def arrived(target: Wired, topic: str) -> bool:
    """Whether the copy of a topic is there and has records."""
    return topic in topic_names(target.cluster, topic) and sum(ends(target.cluster, topic)) > 0


@pytest.mark.parametrize("seed", [20261127])
def test_once(seed: int, tmp_path: Path, wired: tuple[Wired, Wired]) -> None:
    """Nothing is lost, nothing doubled, nothing out of order, in any of the topics."""
    play(seed, tmp_path, *wired)


@pytest.mark.skipif(not MINUTES, reason="make chaos")
def test_for_minutes(tmp_path: Path, wired: tuple[Wired, Wired]) -> None:
    """One seed after the other, until time is up."""
    chance, deadline = random.Random(time.time()), time.monotonic() + MINUTES * 60
    while time.monotonic() < deadline:
        play(chance.randrange(1 << 30), tmp_path, *wired)
