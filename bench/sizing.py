"""Measure what `twinlog size` is fed with, and check its model against copies with 1, 2 and 4 lanes.

    python -m bench.sizing [--megabytes 1000]

First one lane in this process copies topics of few and many partitions, in transactions of 1 MiB: time and CPU that do
not go with the bytes are those of transactions and of the partitions in them.  Then Spark's lanes copy one topic.
"""

from __future__ import annotations

import argparse
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from bench import load, pages
from bench.lane import InProcess, data_folder, flow_of
from bench.topics import BROKER, Kind
from twinlog.cluster.open import Clusters, open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import copy
from twinlog.copying.result import CopyResult
from twinlog.kafka_types import TopicPartition
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lifecycle import sync_topics
from twinlog.protocol.brokers import LATEST, Brokers
from twinlog.sizing.costs import MEASURED
from twinlog.sizing.cycles import cycle
from twinlog.sizing.load import Load, Rules
from twinlog.spark.runner import open_runner

PARTITIONS = (1, 10, 100, 300, 1000)
ROUNDS = (2, 8)
"""Batches in each partition: the difference is what partitions cost in transactions, not once."""

BATCH_RECORDS = 16
BATCH_BYTES = 16_384
TRANSACTION_BYTES = 1 << 20
LANES = (1, 2, 4)
CORES = psutil.cpu_count() or 1

Row = dict[str, Any]


def main() -> None:
    """Measure costs, then lanes, and print both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1000, help="what the lanes of Spark copy")
    pages.add_arguments(parser)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        EmbeddedKafka("A", settings=BROKER) as source,
        EmbeddedKafka("B", settings=BROKER) as target,
    ):
        points = list(transactions(source, target, Path(folder)))
        fitted = fit(points)
        lanes = list(copies(source, target, Path(folder), given.megabytes))
    pages.write("sizing", [*points, fitted, *lanes], markdown(points, fitted, lanes), given)


def transactions(source: EmbeddedKafka, target: EmbeddedKafka, folder: Path) -> Iterator[Row]:
    """Copy topics of more and more partitions in small transactions."""
    for number in PARTITIONS:
        for rounds in ROUNDS:
            kind = Kind(f"{number}-{rounds}", 1000, BATCH_RECORDS, partitions=number)
            topic, flow = filled(source, target, folder, kind, BATCH_RECORDS * number * rounds)
            small = replace(
                flow,
                copy=replace(
                    flow.copy, transaction_bytes=TRANSACTION_BYTES, fetch_bytes=TRANSACTION_BYTES, lanes=1
                ),
            )
            with open_clusters(small) as clusters:
                result = copied(small, clusters, InProcess())
            yield {
                "partitions": number,
                "rounds": rounds,
                "bytes": result.bytes,
                "seconds": result.seconds,
                "lane_cpu_s": result.lane_cpu_seconds,
                "transactions": result.transactions,
                "touched": markers(target, f"A.{topic}", result),
            }
            print(result.seconds, result.lane_cpu_seconds, result.transactions, flush=True)


def copies(source: EmbeddedKafka, target: EmbeddedKafka, folder: Path, megabytes: int) -> Iterator[Row]:
    """Copy the same bytes with 1, 2 and 4 lanes of one Spark, and set the model beside each."""
    kind = Kind("lanes", 1000, BATCH_RECORDS, partitions=8)
    brokers = [psutil.Process(it) for it in (*source.pids, *target.pids)]

    def cpu_s() -> float:
        return sum(sum(it.cpu_times()[:2]) for it in brokers)

    with open_runner(f"local[{max(LANES)}]") as runner:
        for turn, lanes in enumerate((LANES[0], *LANES)):
            _, flow = filled(source, target, folder, replace(kind, name=f"lanes-{turn}"), megabytes * 1000)
            fixed = replace(flow, copy=replace(flow.copy, lanes=lanes))
            before = cpu_s()
            with open_clusters(fixed) as clusters:
                result = copied(fixed, clusters, runner)
            if not turn:
                continue  # Python workers and brokers were warmed up
            spent = cpu_s() - before
            model = modelled(lanes, result.bytes)
            all_cpu = spent + model["model_lane_cpu_s"]
            yield {
                "lanes": lanes,
                "bytes": result.bytes,
                "seconds": result.seconds,
                "lane_cpu_s": result.lane_cpu_seconds,
                "brokers_cpu_s": spent,
                "transactions": result.transactions,
                **model,
                "model_seconds_here": max(model["model_seconds"], all_cpu / CORES),
            }


def modelled(lanes: int, size: int) -> Row:
    """Return the model's copy of so many bytes, each lane on a core of its own."""
    rules = Rules(lane_bytes=1)
    seen = cycle(
        Load(partitions=8, mb_per_second=size / 1e6 / 60, batch_bytes=BATCH_BYTES, brokers=1),
        lanes,
        MEASURED,
        rules,
    )
    return {
        "model_seconds": seen.copy_seconds,
        "model_transactions": round(seen.transactions_per_second * seen.every_seconds),
        "model_lane_cpu_s": size / 1e9 * MEASURED.lane_cpu.at(BATCH_BYTES),
    }


def filled(
    source: EmbeddedKafka, target: EmbeddedKafka, folder: Path, kind: Kind, records: int
) -> tuple[str, FlowSettings]:
    """Fill a topic, create its copy, and return its name and its flow."""
    topic = f"{kind.slug}-{uuid.uuid4().hex[:6]}"
    load.create(source.bootstrap_servers, kind, topic)
    load.fill(source.bootstrap_servers, kind, topic, records, data_folder(source))
    flow = flow_of(folder, source, target, topic)
    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
    return topic, flow


def copied(flow: FlowSettings, clusters: Clusters, runner: Any) -> CopyResult:
    """Copy a flow once; everything must arrive."""
    result = copy.run(flow, clusters, runner, run_id=uuid.uuid4().hex)
    if result.state != "done" or not result.records:
        raise SystemExit(f"the copy ended as {result.state}: {result.error}")
    return result


def markers(target: EmbeddedKafka, topic: str, result: CopyResult) -> int:
    """Count the markers in a copy: one for each partition in a transaction."""
    with Brokers(load.settings(target.bootstrap_servers)) as brokers:
        numbers = brokers.metadata([topic])[topic].leaders
        ends = brokers.offsets([TopicPartition(topic, number) for number in numbers], LATEST)
    return sum(ends.values()) - result.records


def fit(points: Sequence[Row]) -> Row:
    """Return what is left beside the bytes: for a copy, for each of its partitions, a transaction, a partition in one.

    Least squares without negative costs.
    """
    facts = np.array([[1, it["partitions"], it["transactions"], it["touched"]] for it in points], dtype=float)
    fitted: Row = {}
    for name, curve in (("seconds", MEASURED.lane), ("lane_cpu_s", MEASURED.lane_cpu)):
        rest = [it[name] - it["bytes"] / 1e9 * curve.at(BATCH_BYTES) for it in points]
        once, partition, transaction, touch = (1000 * it for it in not_negative(facts, np.array(rest)))
        fitted |= {
            f"{name}: ms a copy": once,
            f"{name}: ms a partition": partition,
            f"{name}: ms a transaction": transaction,
            f"{name}: ms a partition in a transaction": touch,
        }
    return fitted


def not_negative(facts: Any, rest: Any) -> Any:
    """Fit by least squares; a cost that would be negative is none."""
    used = np.ones(facts.shape[1], dtype=bool)
    while True:
        costs = np.zeros(facts.shape[1])
        costs[used] = np.linalg.lstsq(facts[:, used], rest, rcond=None)[0]
        if (costs >= 0).all():
            return costs
        used &= costs >= 0


def header(names: Sequence[str]) -> str:
    """Return the head of a table of numbers."""
    return f"| {' | '.join(names)} |\n|{'---:|' * len(names)}\n"


def markdown(points: Sequence[Row], fitted: Row, lanes: Sequence[Row]) -> str:
    """Return the tables."""
    head: Sequence[str] = (
        "partitions",
        "batches in each",
        "MB",
        "s",
        "CPU-s",
        "transactions",
        "partitions in them",
    )
    text = f"One lane, transactions of 1 MiB:\n\n{header(head)}"
    for it in points:
        text += (
            f"| {it['partitions']:,} | {it['rounds']} | {it['bytes'] / 1e6:,.1f} | {it['seconds']:.2f}"
            f" | {it['lane_cpu_s']:.2f} | {it['transactions']:,} | {it['touched']:,} |\n"
        )
    text += "\nWhat is left beside the bytes, by least squares:\n\n| cost | ms |\n|---|---:|\n"
    text += "".join(f"| {name.replace(': ms', ',')} | {value:.3f} |\n" for name, value in fitted.items())
    head = (
        *("lanes", "MB", "s", "model, s", "model here, s", "measured / model here", "lanes' CPU-s", "model"),
        *("brokers' CPU-s", "transactions", "model"),
    )
    text += (
        "\nLanes of one Spark on this machine, beside both brokers; the model of lanes with cores of their own, and"
        f" with these cores:\n\n{header(head)}"
    )
    for it in lanes:
        text += (
            f"| {it['lanes']} | {it['bytes'] / 1e6:,.0f} | {it['seconds']:.2f} | {it['model_seconds']:.2f}"
            f" | {it['model_seconds_here']:.2f} | {it['seconds'] / it['model_seconds_here']:.2f}"
            f" | {it['lane_cpu_s']:.2f} | {it['model_lane_cpu_s']:.2f} | {it['brokers_cpu_s']:.2f}"
            f" | {it['transactions']} | {it['model_transactions']} |\n"
        )
    return text


if __name__ == "__main__":
    main()
