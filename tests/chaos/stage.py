"""Where schedules are played: a flow that copies slowly, a copier that never gives up, and the final comparison."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import Seen, ThreadRunner, configure, create_topic, cycle, produce, read_partitions

from twinlog.cluster.clusters import open_clusters
from twinlog.cluster.progress import read_maps, read_progress
from twinlog.config.load import load
from twinlog.config.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.steps import sync_topics

PARTITIONS = 3
PATIENCE_SECONDS = 150.0

PLAYED: Counter[str] = Counter()
"""Schedules played in this session, by kind; printed at its end."""


@dataclass
class Stage:
    """One topic of one flow.  `seed` decides everything that is left to chance."""

    folder: Path
    source: Any
    target: Any
    topic: str
    seed: int
    addresses: dict[str, str] = field(default_factory=dict)
    replication: int = 1
    properties: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self._copier: threading.Thread | None = None
        self.lost = ""
        self.last_error: TwinlogError | None = None
        self.begun = threading.Event()
        create_topic(self.source, self.topic, PARTITIONS)
        clusters = {
            "A": self.addresses.get("A", self.source.bootstrap_servers),
            "B": self.addresses.get("B", self.target.bootstrap_servers),
        }
        settings = {
            "heartbeats__replication__enabled": "false",
            "twinlog__transaction__bytes": "15000",
            "twinlog__fetch__bytes": "60000",
            "twinlog__lanes": "2",
            "replication__factor": str(self.replication),
            "offset__storage__replication__factor": str(self.replication),
        }
        self.config = configure(
            self.folder, clusters, ["A->B"], topics=self.topic, **settings | self.properties
        )
        self.flow: FlowSettings = load(self.config).flows["A->B"]
        with open_clusters(self.flow) as opened:
            sync_topics.run(self.flow, opened)

    def traffic(self, records: int = 1500) -> None:
        """More records of differing sizes, in small batches so that copying them takes a while."""
        now = int(time.time() * 1000)
        for partition in range(PARTITIONS):
            begin = self.chance.randrange(1 << 30)
            seen = [
                Seen(b"%d" % (begin + n), b"%d" % n + b"x" * self.chance.randrange(300), now + n)
                for n in range(records)
            ]
            produce(self.source, self.topic, seen, partition, linger_ms=0, batch_num_messages=8)

    def copy(self) -> None:
        """Copy in the background, cycle after cycle, until one says that there is nothing left."""
        self._copier = threading.Thread(target=self._until_done)
        self._copier.start()

    def join(self) -> None:
        """Wait for the copier."""
        if self._copier is not None:
            self._copier.join(PATIENCE_SECONDS)

    @property
    def copying(self) -> bool:
        """Whether the copier is still at it."""
        return self._copier is not None and self._copier.is_alive()

    def _until_done(self) -> bool:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                result = cycle(self.flow, ThreadRunner(before=lambda _: self.begun.set()))
                if lost := [it for it in result.stopped if it.code == "lost-marker"]:
                    self.lost = lost[0].message
                    return True
                if result.state in {"done", "nothing"}:
                    return True
            except TwinlogError as error:
                if error.code == "lost-marker":
                    self.lost = str(error)
                    return True
                self.last_error = error
                time.sleep(0.2)
        return False

    def check(self, kind: str) -> None:
        """Drain, then compare both sides record by record; map and progress have to agree with the log.

        A target may lose ends of transactions: nobody is asked to mend them.
        """
        self.join()
        assert self._until_done(), f"not drained within {PATIENCE_SECONDS:g} s: {self.last_error!r}"
        assert not self.lost
        assert_equal_and_mapped(self.flow, self.source, self.target, self.topic)
        PLAYED[kind] += 1


def assert_equal_and_mapped(flow: FlowSettings, cluster_a: Any, cluster_b: Any, topic: str) -> None:
    """Both sides equal under read_committed, in order; map and progress agree with the log."""
    with open_clusters(flow) as clusters:
        maps = {
            life.partition: found
            for life, found in read_maps(flow, clusters.target).items()
            if life.topic == topic
        }
        progress = read_progress(flow, clusters.target)
    upstreams = read_partitions(cluster_a, topic, range(PARTITIONS), seconds=90)
    downstreams = read_partitions(cluster_b, f"A.{topic}", range(PARTITIONS), seconds=90)
    for partition in range(PARTITIONS):
        upstream, downstream = upstreams[partition], downstreams[partition]
        assert upstream, "a schedule without records proves nothing"
        assert [seen for _, seen in downstream] == [seen for _, seen in upstream]
        known = maps[partition]
        known.check()
        found = [known.translate(offset) for offset, _ in upstream]
        assert [item.offset for item in found if item] == [offset for offset, _ in downstream]
        assert progress[topic, partition] == upstream[-1][0]
