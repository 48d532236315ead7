"""Measure the cost of a flow with nothing new, without the start of a JVM.

python -m bench.idle [PARTITIONS ...]        a cycle on 100, 1,000 and 10,000 partitions
python -m bench.idle [PARTITIONS ...] --follow [--minutes 2]
                                             a flow of 20, then of 1,000, that is followed: cores, the JVM apart
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import load, pages
from bench.contenders import TWINLOG, WARM
from bench.lane import InProcess
from bench.latency import wait_for
from bench.process_tree import DRIVER, JVM, WORKERS
from twinlog.cli.replication.cycle import Request, run_cycle
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load as load_configuration
from twinlog.config.flow.settings import FlowSettings
from twinlog.garbage import collect_rarely
from twinlog.lab.kafka.broker import EmbeddedKafka

SIZES = (100, 1_000, 10_000)
PER_TOPIC = 100
CYCLES = 3
FOLLOWED_SIZES = 20, 1_000
WARM_UP_S = 30
BROKER = {"log.index.size.max.bytes": "4096"}
"""Small index files: otherwise ten thousand partitions would map ten MiB each."""

Row = dict[str, Any]


def main() -> None:
    """Measure cycles, or a followed flow."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("partitions", nargs="*", type=int)
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--minutes", type=float, default=2.0)
    pages.add_arguments(parser)
    given = parser.parse_args()
    collect_rarely()  # as the command does
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        EmbeddedKafka("A", settings=BROKER) as source,
        EmbeddedKafka("B", settings=BROKER) as target,
    ):
        if given.follow:
            sizes = given.partitions or FOLLOWED_SIZES
            rows = [followed(source, target, Path(folder), it, given.minutes * 60) for it in sizes]
            pages.write("idle-follow", rows, followed_markdown(rows), given)
            return
        rows = []
        for row in cycles(source, target, Path(folder), given.partitions or SIZES):
            rows.append(row)
            print(row, flush=True)
    pages.write("idle", rows, cycles_markdown(rows), given)


def cycles(source: EmbeddedKafka, target: EmbeddedKafka, folder: Path, sizes: Sequence[int]) -> Iterator[Row]:
    """Grow the source step by step, and time cycles that find nothing: the best of three, in seconds."""
    config = folder / "idle.properties"
    config.write_text(TWINLOG.properties(source, target, "idle-.*"))
    flow = load_configuration(config).flows["A->B"]
    made = 0
    for size in sizes:
        grow(source.bootstrap_servers, made, size)
        made = size
        first = cycle(flow)
        idle = [cycle(flow) for _ in range(CYCLES)]
        yield {
            "partitions": size,
            "first_s": first[0],
            "idle_s": min(it[0] for it in idle),
            "cpu_s": min(it[1] for it in idle),
        }


def cycles_markdown(rows: Sequence[Row]) -> str:
    """Return a table."""
    lines = [
        "A cycle that finds nothing new, every step in one process (best of three):",
        "",
        "| partitions | first cycle, s | idle cycle, s | CPU-s | CPU-ms a partition |",
        "|---:|---:|---:|---:|---:|",
        *(
            f"| {row['partitions']:,} | {row['first_s']:.1f} | {row['idle_s']:.2f} | {row['cpu_s']:.2f} |"
            f" {1000 * row['cpu_s'] / row['partitions']:.2f} |"
            for row in rows
        ),
    ]
    return "\n".join(lines) + "\n"


def grow(servers: str, made: int, size: int) -> None:
    """Create topics until there are `size` partitions, with a record in each."""
    batch = load.batch_of(1, 100, 0)
    for number in range(made // PER_TOPIC, size // PER_TOPIC):
        topic = f"idle-{number}"
        load.create_topic(servers, topic, PER_TOPIC)
        load.produce(servers, iter([{(topic, partition): batch for partition in range(PER_TOPIC)}]))


def cycle(flow: FlowSettings) -> tuple[float, float]:
    """Run one cycle; return wall and CPU seconds of this process."""
    wall, cpu = time.monotonic(), time.process_time()
    with open_clusters(flow) as clusters:
        run_cycle(flow, clusters, Request(uuid.uuid4().hex, None, None), InProcess, lambda _: None)
    return time.monotonic() - wall, time.process_time() - cpu


def followed(
    source: EmbeddedKafka, target: EmbeddedKafka, folder: Path, partitions: int, seconds: float
) -> Row:
    """Follow topics into which nothing is written.  Returns CPU in cores, by role."""
    servers = source.bootstrap_servers
    warm, quiet = f"{WARM}-{partitions}", f"quiet-{partitions}"
    load.create_topic(servers, warm, 1)
    load.create_topic(servers, quiet, partitions - 1)
    ready = [(warm, 0), *((quiet, number) for number in range(partitions - 1))]
    load.produce(servers, iter([dict.fromkeys(ready, load.batch_of(10, 100, 0))]))
    properties = TWINLOG.properties(source, target, f"{warm}, {quiet}").replace(
        "emit.heartbeats.enabled = false", "emit.heartbeats.enabled = true"
    )  # a heartbeat per second, the default
    with TWINLOG.running(properties, folder / quiet) as tree:
        wait_for(target.bootstrap_servers, TWINLOG.remote(warm))
        print("copied; now nothing is new", flush=True)
        time.sleep(WARM_UP_S)
        used, began = tree.cpu_s(), time.monotonic()
        time.sleep(seconds)
        cpu = tree.cpu_s() - used
        wall = time.monotonic() - began
    return {
        "partitions": partitions,
        "seconds": round(wall),
        **{role: cpu[role] / wall for role in (DRIVER, WORKERS, JVM)},
    }


def followed_markdown(rows: Sequence[Row]) -> str:
    """Return a table."""
    lines = [
        "A followed flow with nothing new, in percent of a core:",
        "",
        "| partitions | seconds | driver | workers | both | Spark's JVM |",
        "|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {row['partitions']:,} | {row['seconds']} | {100 * row[DRIVER]:.2f} | {100 * row[WORKERS]:.2f} |"
            f" {100 * (row[DRIVER] + row[WORKERS]):.2f} | {100 * row[JVM]:.2f} |"
            for row in rows
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
