"""What a cycle costs when there is nothing new: on 100, 1,000 and 10,000 partitions, without the start of a JVM.

python -m bench.idle [PARTITIONS ...]
"""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from pathlib import Path

from bench import load
from bench.contenders import TWINLOG
from bench.lane import InProcess
from twinlog.cli.cycle import Request, run_cycle
from twinlog.cluster.clusters import open_clusters
from twinlog.config.load import load as load_configuration
from twinlog.config.settings import FlowSettings
from twinlog.embedded.broker import EmbeddedKafka

SIZES = (100, 1_000, 10_000)
PER_TOPIC = 100
CYCLES = 3
BROKER = {"log.index.size.max.bytes": "4096"}
"""Small index files: ten thousand partitions of ten MiB each would be mapped otherwise."""


def main() -> None:
    """Grow the source step by step, and time cycles that find nothing."""
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    print("| partitions | first cycle, s | idle cycle, s | CPU-s |\n|---:|---:|---:|---:|")
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        EmbeddedKafka("A", settings=BROKER) as source,
        EmbeddedKafka("B", settings=BROKER) as target,
    ):
        config = Path(folder, "idle.properties")
        config.write_text(TWINLOG.properties(source, target, "idle-.*"))
        flow = load_configuration(config).flows["A->B"]
        made = 0
        for size in sizes:
            grow(source.bootstrap_servers, made, size)
            made = size
            wall, _ = cycle(flow)
            idle = [cycle(flow) for _ in range(CYCLES)]
            print(
                f"| {size:,} | {wall:.2f} | {min(it[0] for it in idle):.2f} | {min(it[1] for it in idle):.2f} |",
                flush=True,
            )


def grow(servers: str, made: int, size: int) -> None:
    """Create topics until there are `size` partitions, with a record in each."""
    batch = load.batch_of(1, 100, 0)
    for number in range(made // PER_TOPIC, size // PER_TOPIC):
        topic = f"idle-{number}"
        load.create_topic(servers, topic, PER_TOPIC)
        load.produce(servers, iter([{(topic, partition): batch for partition in range(PER_TOPIC)}]))


def cycle(flow: FlowSettings) -> tuple[float, float]:
    """Run one; return wall and CPU seconds of this process."""
    wall, cpu = time.monotonic(), time.process_time()
    with open_clusters(flow) as clusters:
        run_cycle(flow, clusters, Request(uuid.uuid4().hex, None, None), InProcess)
    return time.monotonic() - wall, time.process_time() - cpu


if __name__ == "__main__":
    main()
