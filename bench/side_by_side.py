"""The comparison: each contender copies a backlog of each kind, one after the other, several times over.

A contender is started, copies a little to warm up, is paused (SIGSTOP) while a topic is filled, and resumed.  The
measured CPU time is that of all its processes from then until everything has arrived, and a second more.  Memory for
the copy is at hand (bench/memory.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from bench import load, memory
from bench.contenders import WARM, Contender
from bench.process_tree import DRIVER, JVM, WORKERS, ProcessTree
from bench.topics import KINDS, Kind
from twinlog.kafka_types import TopicPartition
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.protocol.brokers import Brokers

START_WITHIN_S = 180
GIVE_UP_AFTER_S = 900
QUIET_S = 1.0
"""Seconds without a new record after which a copy is over."""

SPARE_BYTES = 256 << 20
"""Memory that a copy needs besides the target's logs."""

WARM_UP = Kind("warm up", 1000)
FIRST = Kind(WARM, 10, 1, partitions=1)
WARM_UP_RECORDS = 300_000
WARM_UPS = 8
"""The most warm-up copies of a contender before it is measured: replicators run for months."""

LESS = 0.95
"""Share of the least CPU so far: who twice in a row takes more than that is warm."""


@dataclass(frozen=True)
class Copied:
    """One copy of one topic.  CPU in seconds, by role; memory in MiB; bytes as they were read and written.

    `brokers_cpu_s` is that of both clusters, which is in no other.
    """

    contender: str
    kind: str
    repetition: int
    records: int
    read_bytes: int
    written_bytes: int
    wall_s: float
    cpu_s: float
    brokers_cpu_s: float
    jvm_cpu_s: float
    driver_cpu_s: float
    workers_cpu_s: float
    memory_mib: float
    worker_mib: float


@dataclass(frozen=True)
class Started:
    """The cost until the first record had arrived."""

    contender: str
    repetition: int
    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Clusters:
    """Both brokers, and the folders of their logs."""

    source: EmbeddedKafka
    target: EmbeddedKafka

    @property
    def source_data(self) -> Path:
        return self.source.folder / "node-1" / "data"

    @property
    def target_data(self) -> Path:
        return self.target.folder / "node-1" / "data"

    def cpu_s(self) -> float:
        """Return the user and system seconds of the brokers so far."""
        times = [psutil.Process(pid).cpu_times() for pid in (*self.source.pids, *self.target.pids)]
        return sum(it.user + it.system for it in times)


class ContenderStoppedError(Exception):
    """A contender died, or copied nothing more for too long."""


def run(
    clusters: Clusters,
    contenders: Sequence[Contender],
    kinds: Sequence[Kind],
    *,
    repetitions: int,
    scale: float,
    folder: Path,
) -> Iterator[dict[str, Any]]:
    """Yield a row for each start and each copy, contenders in turn."""
    for repetition in range(repetitions):
        for contender in contenders:
            yield from _one(clusters, contender, kinds, repetition, scale, folder)


def _one(
    clusters: Clusters,
    contender: Contender,
    kinds: Sequence[Kind],
    repetition: int,
    scale: float,
    folder: Path,
) -> Iterator[dict[str, Any]]:
    """Start a contender, and let it copy one topic of each kind."""
    source = clusters.source.bootstrap_servers
    prefix = f"{contender.alias}{repetition}"
    warm_ups = [f"{prefix}-{WARM_UP.slug}-{number}" for number in range(WARM_UPS)]
    topics = {kind: f"{prefix}-{kind.slug}" for kind in kinds}
    of_kind = [*((WARM_UP, it) for it in warm_ups), *topics.items()]
    first = f"{prefix}-{WARM}"
    # Before the start: MM2 looks for new topics every ten minutes.
    for kind, topic in [(FIRST, first), *of_kind]:
        load.create(source, kind, topic)
        if not contender.creates_topics:
            load.create(clusters.target.bootstrap_servers, kind, contender.remote(topic))
    load.produce(source, iter([{(first, 0): load.batch_of(1, 10, 0)}]))
    properties = contender.properties(clusters.source, clusters.target, f"{prefix}-.*")
    began = time.monotonic()
    with contender.running(properties, folder / prefix) as tree:
        watch = _Watch(clusters.target.bootstrap_servers, tree, contender.name)
        try:
            watch.wait_for_first(contender.remote(first))
            yield asdict(
                Started(contender.name, repetition, time.monotonic() - began, sum(tree.cpu_s().values()))
            )
            for copied in _warm_up(clusters, contender, warm_ups, tree, watch, repetition):
                print(f"{contender.name} warms up: {copied.cpu_s:.1f} cpu-s", flush=True)
            for kind, topic in topics.items():
                volume = int(scale * contender.volume(kind))
                yield asdict(_copy(clusters, contender, kind, topic, volume, tree, watch, repetition))
                if not kind.compacted:
                    _forget(clusters, contender, topic)
        except ContenderStoppedError as stopped:
            print(f"{stopped}; its other kinds are left out", flush=True)
    made = [first, *(topic for _, topic in of_kind)]
    load.delete_topics(source, made)
    load.delete_topics(clusters.target.bootstrap_servers, [contender.remote(it) for it in made])


def _warm_up(
    clusters: Clusters,
    contender: Contender,
    topics: Sequence[str],
    tree: ProcessTree,
    watch: _Watch,
    repetition: int,
) -> Iterator[Copied]:
    """Let a contender copy until its CPU and the brokers' together have not fallen twice in a row."""
    least, no_less = math.inf, 0
    for topic in topics:
        copied = _copy(clusters, contender, WARM_UP, topic, WARM_UP_RECORDS, tree, watch, repetition)
        yield copied
        _forget(clusters, contender, topic)
        used = copied.cpu_s + copied.brokers_cpu_s
        no_less = no_less + 1 if used > LESS * least else 0
        least = min(least, used)
        if no_less == 2:
            return


def _forget(clusters: Clusters, contender: Contender, topic: str) -> None:
    """Free the memory of a topic and its copy."""
    load.forget_records(clusters.source.bootstrap_servers, topic)
    load.forget_records(clusters.target.bootstrap_servers, contender.remote(topic))


def _copy(
    clusters: Clusters,
    contender: Contender,
    kind: Kind,
    topic: str,
    volume: int,
    tree: ProcessTree,
    watch: _Watch,
    repetition: int,
) -> Copied:
    tree.pause()
    try:
        records = load.fill(clusters.source.bootstrap_servers, kind, topic, volume, clusters.source_data)
        stored = load.stored_bytes(clusters.source_data, topic)
        memory.touch(int(1.2 * max(stored, records * kind.record_bytes)) + SPARE_BYTES)
        time.sleep(0.3)  # until the sampler has seen the time before the pause
        tree.take_peaks()
        before, brokers_before, began = tree.cpu_s(), clusters.cpu_s(), time.monotonic()
    finally:
        tree.resume()
    remote = contender.remote(topic)
    seen: list[_Look] = []
    deadline = began + GIVE_UP_AFTER_S
    while True:
        watch.until_quiet(remote, records, seen, deadline)
        used = tree.cpu_s()
        count, ends = load.found_records(clusters.target.bootstrap_servers, remote)
        if count >= records and _shows(seen[-1], ends):  # else markers were counted, or a transaction is open
            break
        if time.monotonic() > deadline:
            raise ContenderStoppedError(
                f"{contender.name} copied {count} of {records} records to {remote},"
                f" up to {sum(ends.values())}; consumers see it up to {sum(seen[-1][1].values())}"
            )
    used.subtract(before)
    peaks = tree.take_peaks()
    arrived = next(look[0] for look in seen if _shows(look, ends))
    return Copied(
        contender=contender.name,
        kind=kind.name,
        repetition=repetition,
        records=records,
        read_bytes=stored,
        written_bytes=load.stored_bytes(clusters.target_data, remote),
        wall_s=arrived - began,
        cpu_s=sum(used.values()),
        brokers_cpu_s=clusters.cpu_s() - brokers_before,
        jvm_cpu_s=used[JVM],
        driver_cpu_s=used[DRIVER],
        workers_cpu_s=used[WORKERS],
        memory_mib=peaks.total,
        worker_mib=peaks.worker,
    )


_Look = tuple[float, dict[TopicPartition, int]]
"""The time of a look at the target, and up to where consumers saw each partition."""


def _shows(look: _Look, ends: Mapping[TopicPartition, int]) -> bool:
    """Say whether consumers saw every partition up to its end."""
    return all(look[1].get(it, 0) >= end for it, end in ends.items())


@dataclass
class _Watch:
    """Watches what read_committed consumers of the target see."""

    servers: str
    tree: ProcessTree
    name: str

    def wait_for_first(self, topic: str) -> None:
        """Return once a topic has a record."""
        self.until_quiet(topic, 1, [], time.monotonic() + START_WITHIN_S, quiet_s=0.0)

    def until_quiet(
        self, topic: str, count: int, seen: list[_Look], deadline: float, quiet_s: float = QUIET_S
    ) -> None:
        """Look again and again until at least `count` offsets are visible and no more arrive; note the changes.

        After the deadline (monotonic) it does not wait for quiet.  Raises ContenderStoppedError if fewer have come by
        then, or the contender has died.
        """
        at = time.monotonic()
        visible: dict[TopicPartition, int] = {}
        with Brokers(load.settings(self.servers)) as brokers:
            while True:
                now = load.visible_ends(brokers, topic)
                if now != visible:
                    at, visible = time.monotonic(), now
                    seen.append((at, now))
                short, over = sum(visible.values()) < count, time.monotonic() > deadline
                if not short and (over or time.monotonic() - at >= quiet_s):
                    return
                if over or not self.tree.is_running():
                    why = "did not copy" if self.tree.is_running() else "died and did not copy"
                    raise ContenderStoppedError(
                        f"{self.name} {why} {count} records to {topic} (it came to {sum(visible.values())})"
                    )
                time.sleep(0.02)


def kinds_named(names: Sequence[str]) -> list[Kind]:
    """Find kinds by name; all if none is named."""
    unknown = set(names) - {kind.name for kind in KINDS}
    if unknown:
        raise SystemExit(
            f"no such kind: {', '.join(sorted(unknown))}; there are {[kind.name for kind in KINDS]}"
        )
    return [kind for kind in KINDS if not names or kind.name in names]
