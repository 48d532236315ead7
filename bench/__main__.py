"""Side by side with MirrorMaker 2: the same records, the same machine, one after the other.

    make bench            (python -m bench [RECORDS])

Both copy a backlog of 1 KB records in large uncompressed batches, 4 partitions, between the same two brokers.  What
is counted is the CPU time of the replicating processes with all of their children (Spark's JVM included), brokers
and the producer of the records not.  Starting up is reported apart: until the first record has arrived, and 20 s more
in which everything is loaded.  Both run already when the backlog appears, and what twinlog's other steps cost while
it is copied counts.

Cost: about three minutes with the default 1,000,000 records.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.load import create_topic, produce, records_in
from bench.process_tree import ProcessTree
from twinlog.embedded.broker import EmbeddedKafka
from twinlog.embedded.mirror_maker import MirrorMaker

RECORDS = 1_000_000
GIVE_UP_AFTER_S = 600
SETTLE_S = 20

COMMON = """
{alias}->B.enabled = true
{alias}->B.topics = warm, {alias}
B->{alias}.enabled = false
clusters = {alias}, B
{alias}.bootstrap.servers = {source}
B.bootstrap.servers = {target}
emit.heartbeats.enabled = false
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
"""


@dataclass(frozen=True)
class Measured:
    """CPU-seconds of starting and of copying, and wall seconds of copying."""

    name: str
    start_cpu_s: float
    copy_cpu_s: float
    copy_wall_s: float

    def row(self, records: int) -> str:
        """One line of the table."""
        per_cpu_s, per_s = records / self.copy_cpu_s, records / self.copy_wall_s
        return f"| {self.name} | {self.start_cpu_s:.1f} | {self.copy_cpu_s:.2f} | {per_cpu_s:,.0f} | {per_s:,.0f} |"


def main(records: int) -> None:
    """Run both and print a table."""
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        EmbeddedKafka("A") as source,
        EmbeddedKafka("B") as target,
    ):
        servers = {"source": source.bootstrap_servers, "target": target.bootstrap_servers}
        for topic in ("warm", "M", "A"):
            create_topic(source.bootstrap_servers, topic)
        produce(source.bootstrap_servers, "warm", 1)
        results = [
            measure_mm2(COMMON.format(alias="M", **servers), Path(folder), servers, records),
            measure_twinlog(COMMON.format(alias="A", **servers), Path(folder), servers, records),
        ]
    print(
        "| | start and 20 s, CPU s | copy, CPU s | records per CPU s | records per s |\n|---|---|---|---|---|"
    )
    for result in results:
        print(result.row(records))
    mm2, twinlog = results
    print(f"\n{records:,} records of 1 KB: {mm2.copy_cpu_s / twinlog.copy_cpu_s:.1f}x per CPU-second")


def measure_mm2(properties: str, folder: Path, servers: dict[str, str], records: int) -> Measured:
    """Measure the dedicated mode of MM2."""
    with MirrorMaker(properties, folder / "mm2") as mirror_maker, ProcessTree(mirror_maker.pid) as tree:
        return measure("MM2 4.3.1", tree, "M", servers, records)


def measure_twinlog(properties: str, folder: Path, servers: dict[str, str], records: int) -> Measured:
    """Measure `twinlog run --for`: cycle after cycle on a session that stays warm."""
    config, log = folder / "twinlog.properties", folder / "twinlog.log"
    config.write_text(properties)
    command = [Path(sys.executable).with_name("twinlog"), "run", "--for", "1h", "--config", config]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            with ProcessTree(process.pid) as tree:
                return measure("twinlog", tree, "A", servers, records)
        finally:
            process.terminate()


def measure(name: str, tree: ProcessTree, alias: str, servers: dict[str, str], records: int) -> Measured:
    """Let it start and load all it needs, pause it, produce the backlog, and count until that has arrived."""
    wait_for(name, tree, servers["target"], f"{alias}.warm", 1)
    time.sleep(SETTLE_S)
    tree.pause()
    produce(servers["source"], alias, records)
    started, began = tree.cpu_s(), time.monotonic()
    tree.resume()
    wait_for(name, tree, servers["target"], f"{alias}.{alias}", records)
    return Measured(name, started, tree.cpu_s() - started, time.monotonic() - began)


def wait_for(name: str, tree: ProcessTree, servers: str, topic: str, count: int) -> None:
    """Return when the topic has `count` records."""
    deadline = time.monotonic() + GIVE_UP_AFTER_S
    while records_in(servers, topic) < count:
        if not tree.is_running() or time.monotonic() > deadline:
            sys.exit(f"{name} did not copy {count} records to {topic} within {GIVE_UP_AFTER_S} s")
        time.sleep(0.1)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS)
