"""Measure the audit beside MirrorMaker 2: records compared per CPU-second, and records of that kind MM2 copies.

Besides, records of the same copy matched by their contents, as a flow that observes another engine does.

    python -m bench.audit ["1 KB" ... | all] [--profile] [--records N] [--out FOLDER]

The audit is a full one of a good copy, one lane in this process without Spark, in the same run as MM2's copy.  The CPU
time is that of this process, including reading the state and remembering the outcome.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import load, memory, pages, side_by_side
from bench.contenders import MM2
from bench.lane import InProcess, data_folder, flow_of
from bench.topics import BROKER, KINDS, Kind
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.audit.request import AuditMode, AuditRequest
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import copy
from twinlog.formats.ledger.audit import Unproved
from twinlog.kafka_types import TopicPartition
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lifecycle import sync_topics
from twinlog.logs.partition_reader import PartitionReader
from twinlog.observe.align import match
from twinlog.observe.side import Log
from twinlog.observe.values import Carried
from twinlog.protocol.brokers import LATEST, Brokers

DEFAULT = ("1 KB", "100 B", "1 KB, 1 a batch")

GOAL = 5
"""The goal: this many times the records that MM2 copies per CPU-second."""


def main() -> None:
    """Let MM2 copy each kind; then load, copy and audit each, and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kinds", nargs="*", help=f"kinds of topics, or all; default: {', '.join(DEFAULT)}")
    parser.add_argument("--records", type=int, help="instead of each kind's own number")
    parser.add_argument("--profile", action="store_true", help="print the functions that take most")
    pages.add_arguments(parser)
    given = parser.parse_args()
    wanted = given.kinds or DEFAULT
    kinds = [kind for kind in KINDS if kind.name in wanted or "all" in wanted]
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        EmbeddedKafka("A", settings=BROKER) as source,
        EmbeddedKafka("B", settings=BROKER) as target,
    ):
        copied = mirror_maker(side_by_side.Clusters(source, target), kinds, Path(folder))
        rows = []
        for kind in kinds:
            records = given.records or kind.twinlog_records
            row = measure(kind, records, Path(folder), source, target, given.profile)
            rows.append(row | {"mm2_per_cpu_s": copied[kind.name]})
    pages.write("audit", rows, table(rows), given)


def mirror_maker(clusters: side_by_side.Clusters, kinds: Sequence[Kind], folder: Path) -> Mapping[str, float]:
    """Return the records per CPU-second that MM2 copies, by kind."""
    rows = side_by_side.run(clusters, [MM2], kinds, repetitions=1, scale=1.0, folder=folder)
    return {row["kind"]: row["records"] / row["cpu_s"] for row in rows if "kind" in row}


def table(rows: Sequence[pages.Row]) -> str:
    """Return a table with one line for each kind."""
    lines = [
        "Records per CPU-second, and MiB of the largest process; the audit without Spark, whose start takes some 15"
        " CPU-seconds:\n",
        f"| topic | audited | MM2 copies | x MM2 (goal {GOAL}) | proved as bytes | memory | matched | x MM2 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        audited, copied = row["per_cpu_s"], row["mm2_per_cpu_s"]
        lines.append(
            f"| {row['kind']} | {audited:,.0f} | {copied:,.0f} | **{audited / copied:.1f}** |"
            f" {row['as_bytes']:.0%} | {row['peak_mib']:.0f} | {row['matched_per_cpu_s']:,.0f} |"
            f" **{row['matched_per_cpu_s'] / copied:.1f}** |"
        )
    return "\n".join(lines) + "\n"


def measure(
    kind: Kind, records: int, folder: Path, source: EmbeddedKafka, target: EmbeddedKafka, profiled: bool
) -> dict[str, Any]:
    """Copy one kind, audit it, print a line and return it as a row."""
    topic = f"{kind.slug}-{uuid.uuid4().hex[:6]}"
    load.create(source.bootstrap_servers, kind, topic)
    load.fill(source.bootstrap_servers, kind, topic, records, data_folder(source))
    flow = flow_of(folder, source, target, topic)
    profile = cProfile.Profile() if profiled else None
    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
        copied = copy.run(flow, clusters, InProcess(), run_id=uuid.uuid4().hex)
        memory.forget_peak()
        began, cpu = time.monotonic(), time.process_time()
        asked = AuditRequest(AuditMode.FULL)
        if profile is None:
            result = audit.run(flow, clusters, LocalAuditRunner(), asked)
        else:
            result = profile.runcall(audit.run, flow, clusters, LocalAuditRunner(), asked)
        cpu, wall = time.process_time() - cpu, time.monotonic() - began
    assert result.equal and result.coverage == 1.0, result
    by_bytes = sum(it.equal_bytes for it in result.partitions)
    peak = memory.peak_mib()
    memory.forget_peak()
    matched, matching = observe(flow, topic)
    assert matched == result.records, matched
    print(
        f"{kind.name:18} {matched:>9,} records matched  cpu {matching:6.2f} s"
        f"  {matched / matching:>10,.0f} rec/cpu-s, {memory.peak_mib():.0f} MB peak",
        flush=True,
    )
    print(
        f"{kind.name:18} {result.records:>9,} records audited  cpu {cpu:6.2f} s"
        f"  {result.records / cpu:>10,.0f} rec/cpu-s"
        f"  wall {wall:5.1f} s  {100 * by_bytes / result.records:3.0f} % as bytes"
        f"  (copied at {copied.records / copied.lane_cpu_seconds:,.0f} rec/cpu-s), {peak:.0f} MB peak",
        flush=True,
    )
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(20)
    load.delete_topics(source.bootstrap_servers, [topic])
    load.delete_topics(target.bootstrap_servers, [f"A.{topic}"])
    return {
        "kind": kind.name,
        "records": result.records,
        "cpu_s": cpu,
        "wall_s": wall,
        "per_cpu_s": result.records / cpu,
        "matched_per_cpu_s": matched / matching,
        "as_bytes": by_bytes / result.records,
        "peak_mib": peak,
    }


def _log(reader: PartitionReader, place: TopicPartition, end: int) -> Log:
    """Read one side of a partition, up to its end."""
    return lambda start: reader.read(*place, start, end)


def observe(flow: FlowSettings, topic: str) -> tuple[int, float]:
    """Match a topic's partitions; return the equal records, and the CPU seconds."""
    began, equal = time.process_time(), 0
    with Brokers(flow.source.connection) as source, Brokers(flow.target.connection) as target:
        readers = [
            PartitionReader(it, Unproved.SOURCE_RETENTION, fetch_bytes=flow.copy.fetch_bytes)
            for it in (source, target)
        ]
        for partition in source.metadata([topic])[topic].leaders:
            places = TopicPartition(topic, partition), TopicPartition(flow.remote_name(topic), partition)
            ends = [
                brokers.offsets([it], LATEST)[it]
                for brokers, it in zip((source, target), places, strict=True)
            ]
            logs = [_log(*it) for it in zip(readers, places, ends, strict=True)]
            found = match(logs[0], logs[1], Carried(0, 0), now_ms=0)
            assert not found.findings, found.findings
            equal += found.equal
    return equal, time.process_time() - began


if __name__ == "__main__":
    main()
