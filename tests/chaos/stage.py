"""Where schedules are played: a flow that copies slowly, a copier in the midst of it, and the final comparison."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checks import assert_equal_and_mapped, ends
from copier import PATIENCE_SECONDS, Copier
from report import PLAYED
from traffic import PARTITIONS, Traffic

from lab import configure, create_topic
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.lifecycle import sync_topics
from twinlog.state.progress import read_progress

SMALL = {"twinlog__transaction__bytes": "15000", "twinlog__fetch__bytes": "60000"}
"""Many little transactions, one for nearly every fetch."""

SLOW = {
    "twinlog__bytes__per__second": "500000",
    "twinlog__transaction__timeout__ms": "1500",
}
"""A copy of a megabyte and a half then takes about three seconds, and trouble meets it on its way."""

LARGE = SLOW | {"twinlog__bytes__per__second": "5000000"}
"""The same for ten times as much."""


@dataclass
class Stage:
    """One topic of one flow.  `seed` decides everything that is left to chance.

    `large`: with values ten times as large, and fetches and transactions as large as they are by default.
    """

    folder: Path
    source: Any
    target: Any
    topic: str
    seed: int | str
    addresses: dict[str, str] = field(default_factory=dict)
    replication: int = 1
    source_replication: int = 1
    properties: dict[str, str] = field(default_factory=dict)
    large: bool = False

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        create_topic(self.source, self.topic, PARTITIONS, self.source_replication)
        clusters = {
            "A": self.addresses.get("A", self.source.bootstrap_servers),
            "B": self.addresses.get("B", self.target.bootstrap_servers),
        }
        settings = {
            "heartbeats__replication__enabled": "false",
            "twinlog__lanes": "2",
            "replication__factor": str(self.replication),
            "offset__storage__replication__factor": str(self.replication),
        } | ({} if self.large else SMALL)
        self.config = configure(
            self.folder, clusters, ["A->B"], topics=self.topic, **settings | self.properties
        )
        self.flow: FlowSettings = load(self.config).flows["A->B"]
        self.copier = Copier(self.flow)
        self._traffic = Traffic(self.source, self.topic, self.chance, 6_000 if self.large else 600)
        with open_clusters(self.flow) as opened:
            sync_topics.run(self.flow, opened)

    def traffic(self, records: int = 1500) -> None:
        """More records in each partition."""
        self._traffic.write(records)

    def copy(self) -> None:
        """Copy in the background, cycle after cycle, until one says that there is nothing left."""
        self.copier.start()

    @property
    def copying(self) -> bool:
        """Whether the copier is still at it."""
        return self.copier.copying

    def copy_midway(self, seconds: float, records: int = 1500) -> None:
        """Copy in the background, and return up to `seconds` after it began to write, while it still does.

        A machine that slept through the copy gets another, twice as large.
        """
        for attempt in range(3):
            self.traffic(records << attempt)
            before = self.size()
            self.copy()
            assert self.copier.begun.wait(60), "the copy never began"
            until(lambda: self.size() > before or not self.copying)  # noqa: B023
            time.sleep(self.chance.uniform(0.0, seconds))
            if self.copying:
                return
            self.copier.join()
        raise AssertionError("every copy was over before trouble could begin")

    def hurt(self, harm: Callable[[], bool]) -> None:
        """Do harm.  If it says that the copy was over before, do it again in the midst of a larger one."""
        for attempt in range(1, 4):
            if harm():
                return
            self.copier.join()
            self.copy_midway(0.0, 3_000 * attempt)
        raise AssertionError("every copy was over before the harm was done")

    def size(self) -> int:
        """How many offsets of the copy are taken."""
        return sum(ends(self.target, f"A.{self.topic}"))

    @property
    def in_a_transaction(self) -> bool:
        """Whether records of the copy are neither committed nor aborted yet."""
        stable = ends(self.target, f"A.{self.topic}", stable=True)
        return stable != ends(self.target, f"A.{self.topic}")

    @property
    def copied_all(self) -> bool:
        """Whether progress is where the source ends."""
        with open_clusters(self.flow) as clusters:
            progress = read_progress(self.flow, clusters.target)
        expected = enumerate(ends(self.source, self.topic))
        return all(end - 1 == progress.get((self.topic, number)) for number, end in expected)

    def check(self, kind: str) -> None:
        """Drain, then compare both sides record by record; map and progress have to agree with the log.

        A target may lose ends of transactions: nobody is asked to mend them.
        """
        self.copier.join()
        assert self.copier.drain(), f"not drained within {PATIENCE_SECONDS:g} s: {self.copier.last_error!r}"
        assert not self.copier.lost
        assert_equal_and_mapped(self.flow, self.source, self.target, self.topic, self._traffic.written)
        PLAYED[kind] += 1


def until(happened: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for it, and go on without it when it takes too long."""
    deadline = time.monotonic() + seconds
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.05)
