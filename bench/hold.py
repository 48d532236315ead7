"""Measure what a copy keeps to, through Spark: its throttle, quiet partitions beside a hot one, a worker's memory.

python -m bench.hold [--seconds 36] [--scale 1.0]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import load, pages
from bench.contenders import CORES, TWINLOG
from bench.lane import data_folder
from bench.process_tree import ProcessTree
from bench.topics import LARGE, Kind
from twinlog.batches.codec import ZSTD
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load as load_configuration
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import copy
from twinlog.copying.result import CopyResult
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lane.spec import LaneReport, LaneSpec
from twinlog.lifecycle import sync_topics
from twinlog.spark.runner import SparkRunner, open_runner

RATE = 10_000_000
"""Bytes per second of the throttled copy."""

HOT_BATCHES, QUIET_BATCHES, QUIET = 2_000, 8, 19
LARGE_RECORDS, SMALL_RECORDS = 800_000, 400_000
WORKER_GOAL_MIB = 256

Row = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """The clusters, Spark, and the folder for files."""

    source: EmbeddedKafka
    target: EmbeddedKafka
    runner: SparkRunner[LaneSpec, LaneReport]
    folder: Path

    def flow(self, topics: str, extra: str = "") -> FlowSettings:
        """Return a flow of some topics."""
        config = self.folder / f"{uuid.uuid4().hex[:6]}.properties"
        config.write_text(TWINLOG.properties(self.source, self.target, topics) + extra)
        return load_configuration(config).flows["A->B"]

    def copied(self, flow: FlowSettings) -> CopyResult:
        """Copy everything there is."""
        with open_clusters(flow) as clusters:
            sync_topics.run(flow, clusters)
            return copy.run(flow, clusters, self.runner, run_id=uuid.uuid4().hex)


def main() -> None:
    """Measure all three, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=36.0, help="of the throttled copy")
    parser.add_argument("--scale", type=float, default=1.0, help="of the other volumes")
    pages.add_arguments(parser)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        EmbeddedKafka("A") as source,
        EmbeddedKafka("B") as target,
        open_runner(f"local[{CORES}]") as runner,
        ProcessTree(os.getpid()) as tree,
    ):
        bench = Bench(source, target, runner, Path(folder))
        rows: list[Row] = []
        measures: tuple[Callable[[], Row], ...] = (
            lambda: memory(bench, tree, given.scale),
            lambda: hot_partition(bench, given.scale),
            lambda: throttle(bench, given.seconds),
        )
        for measure in measures:
            rows.append(measure())
            print(rows[-1], flush=True)
    pages.write("hold", rows, markdown(rows), given)


def throttle(bench: Bench, seconds: float) -> Row:
    """Copy as much as the rate allows in `seconds`, by two lanes; measure the middle of it."""
    kind = Kind("throttle", 1000, partitions=8)
    topic = f"throttled-{uuid.uuid4().hex[:6]}"
    servers = bench.source.bootstrap_servers
    load.create(servers, kind, topic)
    load.fill(servers, kind, topic, int(RATE * seconds / 1016), data_folder(bench.source))
    flow = bench.flow(topic, f"A->B.twinlog.bytes.per.second = {RATE}\n")
    copy_topic = TWINLOG.remote(topic)
    samples = sampled(
        lambda: load.stored_bytes(data_folder(bench.target), copy_topic), lambda: bench.copied(flow)
    )
    grows = [it for it in samples if 0.05 < it[1] / samples[-1][1] < 0.95]
    (first, before), (last, after) = grows[0], grows[-1]
    rate = (after - before) / (last - first)
    return {
        "what": f"`twinlog.bytes.per.second` = {RATE:,}, {CORES} lanes, {last - first:.0f} s of it",
        "measured": f"{rate:,.0f} bytes a second ({100 * rate / RATE - 100:+.1f} %)",
        "held to": "10 %",
        "rate": rate,
    }


def hot_partition(bench: Bench, scale: float) -> Row:
    """Copy one partition that has a hundred times the records of each of its neighbours in the same lane."""
    topic = f"hot-{uuid.uuid4().hex[:6]}"
    servers = bench.source.bootstrap_servers
    load.create_topic(servers, topic, 1 + QUIET)
    batch = load.batch_of(LARGE // 1016, 1000, 0)
    hot = int(HOT_BATCHES * scale)
    plan = (
        {(topic, number): batch for number in range(1 + QUIET if turn < QUIET_BATCHES else 1)}
        for turn in range(hot)
    )
    load.produce(servers, plan)
    flow = bench.flow(topic, "A->B.twinlog.lanes = 1\n")
    folder, name = data_folder(bench.target), TWINLOG.remote(topic)

    def sizes() -> tuple[int, int]:
        """Return the bytes of the hot copy, and of the smallest quiet one."""
        found = [
            sum(file.stat().st_size for file in (folder / f"{name}-{number}").glob("*.log"))
            for number in range(1 + QUIET)
        ]
        return found[0], min(found[1:])

    samples = sampled(sizes, lambda: bench.copied(flow))
    began = next(at for at, size in samples if size[0] or size[1])
    quiet = next(at for at, size in samples if size[1] >= QUIET_BATCHES * len(batch)) - began
    whole = next(at for at, size in samples if size[0] >= hot * len(batch)) - began
    return {
        "what": f"one lane: a partition with {hot * len(batch) / 1e6:,.0f} MB beside {QUIET} with"
        f" {QUIET_BATCHES * len(batch) / 1e6:,.0f} MB each",
        "measured": f"the quiet ones are copied after {quiet:.1f} s, the hot one after {whole:.1f} s",
        "held to": "the hot one holds up nobody",
        "quiet_s": quiet,
        "hot_s": whole,
    }


def memory(bench: Bench, tree: ProcessTree, scale: float) -> Row:
    """Copy a backlog of large, small and compressed batches at once; measure the largest Python worker."""
    stem = f"backlog-{uuid.uuid4().hex[:6]}"
    kinds = (
        (Kind("large", 1000, partitions=20), LARGE_RECORDS),
        (Kind("small", 1000, 1, partitions=20), SMALL_RECORDS),
        (Kind("zstd", 1000, codec=ZSTD, partitions=20), LARGE_RECORDS),
    )
    servers = bench.source.bootstrap_servers
    for kind, records in kinds:
        load.create(servers, kind, f"{stem}-{kind.name}")
        load.fill(servers, kind, f"{stem}-{kind.name}", int(records * scale), data_folder(bench.source))
    tree.take_peaks()
    result = bench.copied(bench.flow(f"{stem}-.*"))
    worker = tree.take_peaks().worker
    return {
        "what": f"a backlog of {result.records:,} records, {result.bytes / 1e6:,.0f} MB, in large,"
        " single-record and zstd batches",
        "measured": f"largest Python worker {worker:.0f} MiB",
        "held to": f"{WORKER_GOAL_MIB} MiB",
        "worker_mib": worker,
    }


def sampled(look: Callable[[], Any], work: Callable[[], Any]) -> list[tuple[float, Any]]:
    """Look ten times a second during some work, and once after it: (seconds, what was seen)."""
    samples: list[tuple[float, Any]] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            samples.append((time.monotonic(), look()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        over.set()
        watcher.join()
    samples.append((time.monotonic(), look()))
    return samples


def markdown(rows: Sequence[Row]) -> str:
    """Return a table."""
    lines = ["| what | measured | goal |", "|---|---|---|"]
    lines += [f"| {row['what']} | {row['measured']} | {row['held to']} |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
