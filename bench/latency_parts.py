"""Break the way of one record from A to B into parts: `python -m bench.latency --parts`.

twinlog's flow is followed in one process without Spark, so that its steps can be timed: the lane's methods are wrapped
and behave as before.  The parts of a record follow each other without gaps, so their means add up.

    produced -> on A | waits for the commit before | rests | fetch | cut and sent | answers | EndTxn | reader -> visible

MM2 is seen from outside: its copy gets the time of B's broker (LogAppendTime, ms), which tells two parts apart.
"""

from __future__ import annotations

import argparse
import multiprocessing
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np

from bench import latency, load, pages
from bench.contenders import MM2, TWINLOG, WARM
from bench.lane import InProcess
from twinlog.lab.kafka.broker import EmbeddedKafka

Row = dict[str, Any]

PARTS = (
    "on A",
    "commit before",
    "rest",
    "fetch",
    "cut and sent",
    "answers",
    "EndTxn",
    "reader",
)
MM2_PARTS = ("on A", "on B", "reader")
_WARM_UP_S = 30


@dataclass(frozen=True, slots=True)
class Tick:
    """One transaction of a lane: when its steps were over (epoch seconds), and the upstream ends it reached.

    `steps` are the end of the commit before, the fetch asked, the fetch answered, all records sent, all answered, the
    commit answered.
    """

    steps: tuple[float, ...]
    reached: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Ways:
    """Records of one partition, one array each: upstream offset, and epoch seconds: produced, on A, seen on B.

    `on_target` is the record's timestamp.
    """

    offset: Any
    produced: Any
    on_source: Any
    seen: Any
    on_target: Any

    def mm2_parts(self) -> Any:
        """Return the seconds of each record's parts (records x MM2_PARTS), of a copy with LogAppendTime."""
        return np.column_stack((
            self.on_source - self.produced,
            self.on_target - self.on_source,
            self.seen - self.on_target,
        ))

    def parts(self, ticks: Sequence[Tick], partition: int) -> Any:
        """Return the seconds of each record's parts (records x PARTS), without records that no tick has."""
        ends = np.array([tick.reached[partition] for tick in ticks])
        tick = np.searchsorted(ends, self.offset, side="right")
        known = (tick < len(ends)) & (tick > 0)
        steps = np.array([tick.steps for tick in ticks])[tick[known]]
        # A fetch may be answered before the producer.
        on_source = np.minimum(self.on_source[known], steps[:, 2])
        reached = np.maximum.accumulate(np.column_stack((on_source, steps)), axis=1)
        return np.column_stack((
            on_source - self.produced[known],
            np.diff(reached, axis=1),
            self.seen[known] - steps[:, -1],
        ))


@dataclass(slots=True)
class Clock:
    """Notes the steps of the lane of this process; its classes stay wrapped."""

    topic: str
    ticks: list[Tick] = field(default_factory=list)
    at: dict[str, float] = field(default_factory=dict)

    def start(self) -> None:
        """Wrap the lane's steps."""
        from twinlog.lane.copy.copy_lane import LaneCopy
        from twinlog.lane.copy.copy_transaction import CopyTransaction
        from twinlog.lane.producer import Lane

        self._note(LaneCopy, "ask", before="asked")
        self._note(LaneCopy, "take", before="taken")
        self._note(CopyTransaction, "send", after="sent")
        self._note(Lane, "commit", before="answered", after="ended")
        commit = CopyTransaction.commit

        def committed(transaction: CopyTransaction) -> bool:
            count, before = transaction.count, self.at.get("ended", 0.0)
            done = commit(transaction)
            if transaction.count > count:
                reached = {
                    it.spec.partition: it.committed
                    for it in transaction._by_target.values()
                    if it.spec.topic == self.topic
                }
                names = ("asked", "taken", "sent", "answered", "ended")
                self.ticks.append(Tick((before, *(self.at[name] for name in names)), reached))
            return done

        CopyTransaction.commit = committed  # type: ignore[method-assign,assignment]

    def _note(self, of: type, name: str, before: str = "", after: str = "") -> None:
        call: Callable[..., Any] = getattr(of, name)

        def noted(*args: Any, **more: Any) -> Any:
            if before:
                self.at[before] = time.time()
            result = call(*args, **more)
            if after:
                self.at[after] = time.time()
            return result

        setattr(of, name, noted)


def follow(properties: str, folder: Path, topic: str, over: Event, ticks: Connection) -> None:
    """Follow a flow in this process until told to stop; then tell the ticks, and the CPU seconds used meanwhile."""
    from twinlog.cluster.api import open_clusters
    from twinlog.config.flow.load import load as load_configuration
    from twinlog.follow import follow as following
    from twinlog.lifecycle import sync_topics

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "twinlog.properties"
    path.write_text(properties)
    flow = load_configuration(path).flows["A->B"]
    clock = Clock(topic)
    clock.start()
    used: list[float] = []

    def measure() -> None:
        time.sleep(_WARM_UP_S)
        began, cpu = time.monotonic(), time.process_time()
        over.wait()
        used.append((time.process_time() - cpu) / (time.monotonic() - began))

    threading.Thread(target=measure, daemon=True).start()
    stop = threading.Event()

    def end() -> None:
        over.wait()
        stop.set()

    threading.Thread(target=end, daemon=True).start()
    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
        following.run(
            flow, clusters, InProcess(), run_id=uuid.uuid4().hex, seconds=36_000, on_refresh=print, stop=stop
        )
    ticks.send((clock.ticks, used[0] if used else 0.0))


def run(source: EmbeddedKafka, target: EmbeddedKafka, folder: Path, given: argparse.Namespace) -> None:
    """Measure twinlog and MM2 one after the other, and write a table."""
    seconds = given.minutes * 60
    found: list[Row] = []
    for contender, measure in ((TWINLOG, twinlog_rows), (MM2, mm2_rows)):
        if given.only in {None, contender.name}:
            found += measure(source, target, folder, seconds)
            print(markdown(found, seconds), flush=True)
    pages.write("latency-parts", found, markdown(found, seconds), given)


def twinlog_rows(source: EmbeddedKafka, target: EmbeddedKafka, folder: Path, seconds: float) -> Sequence[Row]:
    """Follow a flow under the stream; return the parts of its records."""
    topic = "parts-a"
    load.create_topic(source.bootstrap_servers, topic, latency.PARTITIONS)
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    here, there = context.Pipe()
    properties = TWINLOG.properties(source, target, f"{WARM}, {topic}.*")
    follower = context.Process(target=follow, args=(properties, folder / "a", topic, over, there))
    follower.start()
    there.close()  # so that its death is heard of
    latency.wait_for(target.bootstrap_servers, TWINLOG.remote(WARM))
    ways = watched(source, target, topic, TWINLOG.remote(topic), seconds)
    over.set()
    ticks, cores = here.recv()
    follower.join()
    ticks = [it for it in ticks if it.reached]
    parts = np.concatenate([way.parts(ticks, number) for number, way in ways.items()])
    ticking = (len(ticks) - 1) / (ticks[-1].steps[-1] - ticks[0].steps[-1])
    print(f"{ticking:.1f} transactions a second, {cores:.3f} of a core with the driver's threads", flush=True)
    return rows("twinlog", PARTS, parts)


def mm2_rows(source: EmbeddedKafka, target: EmbeddedKafka, folder: Path, seconds: float) -> Sequence[Row]:
    """Run MM2 under the stream, with a copy whose records get their time from B's broker."""
    topic = "parts-m"
    load.create_topic(source.bootstrap_servers, topic, latency.PARTITIONS)
    load.create_topic(
        target.bootstrap_servers,
        MM2.remote(topic),
        latency.PARTITIONS,
        **{"message.timestamp.type": "LogAppendTime"},
    )
    properties = MM2.properties(source, target, f"{WARM}, {topic}.*") + "sync.topic.configs.enabled = false\n"
    with MM2.running(properties, folder / "m"):
        latency.wait_for(target.bootstrap_servers, MM2.remote(WARM))
        ways = watched(source, target, topic, MM2.remote(topic), seconds)
    return rows("MM2", MM2_PARTS, np.concatenate([way.mm2_parts() for way in ways.values()]))


def watched(
    source: EmbeddedKafka, target: EmbeddedKafka, topic: str, remote: str, seconds: float
) -> dict[int, Ways]:
    """Produce the stream, read its copy for `seconds`; return its records by partition."""
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    here, there = context.Pipe()
    producer = context.Process(target=latency.stream, args=(source.bootstrap_servers, topic, over, there))
    producer.start()
    there.close()
    time.sleep(_WARM_UP_S)
    seen = latency.watch(target.bootstrap_servers, remote, seconds)
    over.set()
    on_source = here.recv()
    producer.join()
    found: dict[int, Ways] = {}
    for number in range(latency.PARTITIONS):
        rows = np.array([(it.offset, it.produced, it.seen, it.on_b) for it in seen if it.partition == number])
        offset = rows[:, 0].astype(int)
        found[number] = Ways(offset, rows[:, 1], np.array(on_source[number])[offset], rows[:, 2], rows[:, 3])
    return found


def rows(name: str, names: Sequence[str], parts: Any) -> list[Row]:
    """Return mean, median and p99 of each part and of their sum, in ms."""
    whole = np.column_stack((parts, parts.sum(axis=1))) * 1000
    p50, p99 = np.percentile(whole, (50, 99), axis=0)
    figures = zip((*names, "in all"), whole.mean(axis=0), p50, p99, strict=True)
    return [
        {"contender": name, "part": part, "mean": float(mean), "p50": float(middle), "p99": float(late)}
        for part, mean, middle, late in figures
    ]


def markdown(rows: Sequence[Row], seconds: float) -> str:
    """Return a table."""
    lines = [
        f"{latency.RATE:,} records of {latency.RECORD_BYTES} bytes a second over {latency.PARTITIONS} partitions for"
        f" {seconds:g} seconds; milliseconds of each part of a record's way from A to B:",
        "",
        "| | part | mean | p50 | p99 |",
        "|---|---|---:|---:|---:|",
    ]
    lines += [
        f"| {it['contender']} | {it['part']} | {it['mean']:.1f} | {it['p50']:.1f} | {it['p99']:.1f} |"
        for it in rows
    ]
    return "\n".join(lines) + "\n"
