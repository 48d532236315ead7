"""Measure the relay alone: one lane in this process, without Spark, on real brokers.

    python -m bench.lane ["1 KB" ...] [--profile] [--records N] [--compression zstd] [--tls]

Prints records and MB per CPU-second of this process for each kind of topic, commits included.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench import load
from bench.contenders import LISTENERS, access
from bench.topics import BROKER, KINDS, MANY_PARTITIONS, Kind
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load as load_configuration
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.flow.values import Compression
from twinlog.copying import copy
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lane.copy.copy_lane import copy_lane
from twinlog.lane.spec import LaneReport, LaneSpec
from twinlog.lifecycle import sync_topics


@dataclass
class InProcess:
    """Runs lanes here, one after the other."""

    slots: int = 1
    profile: cProfile.Profile | None = None

    def run(self, lanes: Sequence[LaneSpec]) -> tuple[LaneReport, ...]:
        """Copy every lane."""
        if self.profile is None:
            return tuple(copy_lane(lane) for lane in lanes)
        return tuple(self.profile.runcall(copy_lane, lane) for lane in lanes)

    def cancel(self, flow: str | None = None) -> None:
        """Nothing: nobody cancels a measurement."""


def flow_of(
    folder: Path, source: EmbeddedKafka, target: EmbeddedKafka, topic: str, *, tls: bool = False
) -> FlowSettings:
    """Return a flow of one topic."""
    path = folder / f"{topic}.properties"
    path.write_text(
        f"clusters = A, B\n{access('A', source, tls=tls)}{access('B', target, tls=tls)}"
        f"A->B.enabled = true\nA->B.topics = {topic}\n"
        "replication.factor = 1\noffset.storage.replication.factor = 1\n"
        "heartbeats.replication.enabled = false\n"
    )
    return load_configuration(path).flows["A->B"]


def main() -> None:
    """Load each kind, copy it, and print the cost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kinds", nargs="*", help="kinds of topics; default: all")
    parser.add_argument("--records", type=int, help="instead of each kind's own number")
    parser.add_argument("--compression", type=Compression, default=Compression.PRODUCER, help="on the way")
    parser.add_argument("--tls", action="store_true", help="on both sides")
    parser.add_argument("--profile", action="store_true", help="print the functions that take most")
    given = parser.parse_args()
    kinds = [kind for kind in (*KINDS, MANY_PARTITIONS) if not given.kinds or kind.name in given.kinds]
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        EmbeddedKafka("A", settings=BROKER, listeners=LISTENERS[given.tls]) as source,
        EmbeddedKafka("B", settings=BROKER, listeners=LISTENERS[given.tls]) as target,
    ):
        for kind in kinds:
            records = given.records or kind.twinlog_records
            measure(kind, records, Path(folder), source, target, given)


def measure(
    kind: Kind,
    records: int,
    folder: Path,
    source: EmbeddedKafka,
    target: EmbeddedKafka,
    given: argparse.Namespace,
) -> None:
    """Copy one kind and print a line."""
    topic = f"{kind.slug}-{uuid.uuid4().hex[:6]}"
    load.create(source.bootstrap_servers, kind, topic)
    began = time.monotonic()
    count = load.fill(source.bootstrap_servers, kind, topic, records, data_folder(source))
    loading = time.monotonic() - began
    found = flow_of(folder, source, target, topic, tls=given.tls)
    flow = replace(found, copy=replace(found.copy, compression=given.compression))
    runner = InProcess(profile=cProfile.Profile() if given.profile else None)
    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
        before = resource.getrusage(resource.RUSAGE_SELF)
        result = copy.run(flow, clusters, runner, run_id=uuid.uuid4().hex)
        after = resource.getrusage(resource.RUSAGE_SELF)
    assert result.records == count, (result.state, result.records, count, result.error)
    cpu = result.lane_cpu_seconds
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    kernel = system / (user + system)
    peak = after.ru_maxrss / 1024
    rewritten = sum(item.rewritten_batches for item in result.partitions)
    print(
        f"{kind.name:18} {count:>9,} records {result.bytes / 1e6:>7,.0f} MB  cpu {cpu:6.2f} s ({kernel:.0%} kernel)"
        f"  {count / cpu:>10,.0f} rec/cpu-s {result.bytes / cpu / 1e6:>6,.0f} MB/cpu-s  wall {result.seconds:5.1f} s"
        f"  {result.transactions} commits, {rewritten:,} rewritten, {peak:.0f} MB peak, loaded in {loading:.1f} s",
        flush=True,
    )
    if runner.profile is not None:
        pstats.Stats(runner.profile).sort_stats("tottime").print_stats(28)
    load.delete_topics(source.bootstrap_servers, [topic])
    load.delete_topics(target.bootstrap_servers, [f"A.{topic}"])


def data_folder(cluster: EmbeddedKafka) -> Path:
    """Return the log folder of the first broker of a cluster."""
    return cluster.folder / "node-1" / "data"


if __name__ == "__main__":
    main()
