"""Measure the growth of a flow's state over a year, in a quarter of an hour, and its bounds.

    python -m bench.year                  a year of 1,000 partitions, 2,000 groups, 300 new groups a day
    python -m bench.year --years 3 --partitions 200 --groups 500

The clock is moved, everything else is real: two embedded brokers, records that are copied by real cycles, groups that
are made and deleted on A, topics that come and go (their copies go a week later), the broker's own cleaner.  A step
stands for `--step-days` days: as many groups and topics come and go as in all of them.  Results of Spark jobs (audits)
are written directly in their own format.  Each quarter every topic of the flow is read afresh, without a cache.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from bench import load, pages
from bench.lane import InProcess
from twinlog import clock
from twinlog.airflow.operators.copy import for_xcom
from twinlog.airflow.xcom import shortened
from twinlog.cli.replication.cycle import Request, run_cycle
from twinlog.cluster.admin.groups import OffsetChange
from twinlog.cluster.api import Cluster, Clusters, open_clusters
from twinlog.config.flow.load import load as load_configuration
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import ranges
from twinlog.copying.result import CopyResult, PartitionCopy
from twinlog.facts.observe import observe
from twinlog.formats.ledger.audit import PartitionAudit
from twinlog.formats.ledger.records import LedgerRecord
from twinlog.garbage import collect_rarely
from twinlog.gate import ask, record
from twinlog.gate.evidence import Seal
from twinlog.groups import checkpoints
from twinlog.jsonable import to_json
from twinlog.judge import validate
from twinlog.judge.check import Mode
from twinlog.judge.data_docs import reports_folder
from twinlog.kafka_types import TopicPartition
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.state.ledger import read_ledger, write_ledger
from twinlog.steps import discover
from twinlog.topics.snapshot import FlowSnapshot

DAY_MS = 24 * 3600 * 1000
PER_TOPIC = 50
CHURNED_PARTITIONS = 5
CHURNED_TOPICS_A_STEP = 2
GROUPS_AT_ONCE = 500
LEAVES_AFTER_DAYS = 7
BROKER = {"log.index.size.max.bytes": "4096", "log.cleaner.backoff.ms": "1000"}
"""Small index files, and a cleaner that looks often: a year passes in minutes."""

Row = dict[str, Any]

BOUNDED_BY = {
    "ledger": "topics and partitions of now; a day of risk samples",
    "offset map": "runs of what the copies still hold (`map_compaction`)",
    "progress": "partitions of now",
    "checkpoints": "groups of now, and those that ended in the last 30 days",
    "heartbeats": "one key",
    "offset syncs (on A)": "partitions that ever were: MM2 has no tombstones there",
}


@dataclass
class World:
    """Both clusters, the flow, and its present topics and groups; `day` is the simulated one."""

    source: EmbeddedKafka
    target: EmbeddedKafka
    flow: FlowSettings
    config: Path
    begin_ms: int
    alive: deque[str] = field(default_factory=deque)
    churned: deque[str] = field(default_factory=deque)
    number: Iterator[int] = field(default_factory=count)

    def at(self, day: float) -> None:
        """Move the clock."""
        now = self.begin_ms + round(day * DAY_MS)
        clock.now_ms = lambda: now


def main() -> None:
    """Let the time pass, and measure each quarter."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--years", type=float, default=1.0)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=2_000)
    parser.add_argument("--new-groups", type=int, default=300, help="a day")
    parser.add_argument("--step-days", type=int, default=15)
    pages.add_arguments(parser)
    given = parser.parse_args()
    collect_rarely()
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        EmbeddedKafka("A", settings=BROKER) as source,
        EmbeddedKafka("B", settings=BROKER) as target,
    ):
        os.environ["XDG_CACHE_HOME"] = str(Path(folder, "cache"))
        world = begin(source, target, Path(folder), given)
        rows = [*pass_time(world, given)]
        rows.append(files(world))
    pages.write("year", rows, markdown(rows, given), given)


def begin(source: EmbeddedKafka, target: EmbeddedKafka, folder: Path, given: argparse.Namespace) -> World:
    """Create the topics that stay."""
    config = folder / "year.properties"
    config.write_text(
        f"clusters = A, B\nA.bootstrap.servers = {source.bootstrap_servers}\n"
        f"B.bootstrap.servers = {target.bootstrap_servers}\nA->B.enabled = true\nA->B.topics = year-.*\n"
        "groups = job-.*\nsync.group.offsets.enabled = true\nreplication.factor = 1\n"
        "offset.storage.replication.factor = 1\ncheckpoints.topic.replication.factor = 1\n"
        "offset-syncs.topic.replication.factor = 1\nheartbeats.topic.replication.factor = 1\n"
        f"twinlog.on.deleted = delete-after:{LEAVES_AFTER_DAYS}d\ntwinlog.reports.folder = {folder / 'reports'}\n"
    )
    flow = load_configuration(config).flows["A->B"]
    begin_ms = clock.now_ms() - round((given.years * 365 + 1) * DAY_MS)
    world = World(source, target, flow, config, begin_ms)
    for number in range(given.partitions // PER_TOPIC):
        load.create_topic(source.bootstrap_servers, f"year-{number}", PER_TOPIC)
    return world


def pass_time(world: World, given: argparse.Namespace) -> Iterator[Row]:
    """Run all steps; yield the sizes after each quarter."""
    days, quarter = given.years * 365, given.years * 365 / 4
    due = quarter
    with open_clusters(world.flow) as clusters:
        day = 0.0
        while day < days:
            day = min(day + given.step_days, days)
            began = time.monotonic()
            step(world, clusters, day, given)
            print(f"day {day:.0f}: {time.monotonic() - began:.1f} s", flush=True)
            if day >= due - given.step_days / 2:
                row = {"day": round(day), **measure(world)}
                print(row, flush=True)
                yield row
                due += quarter


def step(world: World, clusters: Clusters, day: float, given: argparse.Namespace) -> None:
    """Simulate the events of some days, and twinlog's work on them."""
    world.at(day - 0.5)
    churn_topics(world)
    produce(world, clusters)
    cycle(world, clusters)
    churn_groups(world, clusters, given)
    checkpoints.run(world.flow, clusters)
    world.at(day)
    cycle(world, clusters)
    audit(world, clusters)


def cycle(world: World, clusters: Clusters) -> None:
    """Run all steps in this process."""
    run_cycle(world.flow, clusters, Request(uuid.uuid4().hex), InProcess, lambda _: None)


def churn_topics(world: World) -> None:
    """Delete some topics, and create as many."""
    servers = world.source.bootstrap_servers
    gone = [world.churned.popleft() for _ in range(len(world.churned) // 2)]
    if gone:
        load.delete_topics(servers, gone)
    for _ in range(CHURNED_TOPICS_A_STEP):
        world.churned.append(topic := f"year-churn-{next(world.number)}")
        load.create_topic(servers, topic, CHURNED_PARTITIONS)


def produce(world: World, clusters: Clusters) -> None:
    """Write a record into every partition."""
    names = [it for it in clusters.source.topic_names() if it.startswith("year-")]
    batch = load.batch_of(1, 100, 0)
    for name, topic in clusters.source.describe_topics(names).found.items():
        plan: Mapping[tuple[str, int], Any] = {(name, it.partition): batch for it in topic.partitions}
        load.produce(world.source.bootstrap_servers, iter([plan]))


def churn_groups(world: World, clusters: Clusters, given: argparse.Namespace) -> None:
    """Create as many groups as in all days of a step, and end those that are too many."""
    made = given.new_groups * given.step_days if world.alive else given.groups
    names = [f"job-{next(world.number)}" for _ in range(made)]
    for start in range(0, made, GROUPS_AT_ONCE):
        clusters.source.alter_offsets({
            name: {place_of(number, given.partitions): OffsetChange(1, None)}
            for number, name in enumerate(names[start : start + GROUPS_AT_ONCE])
        })
    world.alive.extend(names)
    gone = [world.alive.popleft() for _ in range(max(0, len(world.alive) - given.groups))]
    clusters.source.delete_groups(gone)


def place_of(number: int, partitions: int) -> TopicPartition:
    """Choose the partition that a group reads, of those that stay."""
    return TopicPartition(f"year-{number // PER_TOPIC % (partitions // PER_TOPIC)}", number % PER_TOPIC)


def audit(world: World, clusters: Clusters) -> None:
    """Note an audit and a sample of every partition that is copied now."""
    now = clock.now_ms()
    records: list[LedgerRecord] = []
    for topic in discover.run(world.flow, clusters).topics:
        for it in topic.partitions:
            end, remote = it.source.end, topic.remote.topic_id if topic.remote is not None else ""
            place = (topic.topic, topic.topic_id, it.partition)
            records += [
                PartitionAudit(*place, topic.remote_topic, remote, 0, end, end, end, end, 0, (), 0, (), now),
            ]
    write_ledger(world.flow, clusters.target, records)


def measure(world: World) -> Row:
    """Read every topic of the flow afresh; also count the ledger's keys by kind, and its orphaned topics."""
    flow = world.flow
    state = {
        "ledger": (flow.target, flow.ledger_topic),
        "offset map": (flow.target, flow.offset_map_topic),
        "progress": (flow.target, flow.offsets_topic),
        "checkpoints": (flow.target, flow.policy.checkpoints_topic("A")),
        "heartbeats": (flow.target, flow.policy.heartbeats_topic()),
        "offset syncs (on A)": (flow.source, flow.policy.offset_syncs_topic("B")),
    }
    row: Row = {}
    for name, (settings, topic) in state.items():
        shutil.rmtree(os.environ["XDG_CACHE_HOME"], ignore_errors=True)
        cluster = Cluster(settings)
        sizes = cluster.log_dirs().sizes
        wall, cpu = time.monotonic(), time.process_time()
        latest = cluster.latest(topic)
        row[name] = {
            "keys": len(latest),
            "bytes": sum(size for it, size in sizes.items() if it.topic == topic),
            "read_s": time.monotonic() - wall,
            "read_cpu_s": time.process_time() - cpu,
        }
        if name == "ledger":
            row["kinds"] = dict(Counter(json.loads(key)[0] for key in latest))
    return row


def files(world: World) -> Row:
    """Make a gate's and a cycle's report once, and measure what they leave here and in Airflow's database."""
    flow = world.flow
    with open_clusters(flow) as clusters:
        answer = ask.run(flow, clusters, ask.GateRequest(Mode.PLANNED, still_writing=True))
        kept = record.keep(flow, clusters.target, answer, Seal(world.config.name, ""))
        facts = observe(FlowSnapshot(flow, clusters))
        validated = validate.judge_with_pages(flow, facts, "a-run")
        found, planned = discover.run(flow, clusters), ranges.run(flow, clusters)
        report = run_cycle(flow, clusters, Request("weighed"), InProcess, lambda _: None).report
        partitions = [it for topic in found.topics for it in topic.partitions]
        copied = copy_of([(topic.topic, it.partition) for topic in found.topics for it in topic.partitions])
        gaps = len(read_ledger(flow, clusters.target).gaps)
    results = (found, planned, validated, report)
    left = [shortened(to_json(it), "") for it in results] + [for_xcom(to_json(copied))]
    cut = sum(len(json.dumps(it)) for it in left)
    whole = sum(len(json.dumps(to_json(it))) for it in (*results, copied))
    return {
        "partitions": len(partitions),
        "gaps": gaps,
        "evidence_bytes": Path(kept.evidence).stat().st_size,
        "gate_bytes": folder_bytes(Path(kept.page).parent),
        "validate_bytes": folder_bytes(Path(validated.data_docs).parent) if validated.data_docs else 0,
        "reports_kept": flow.gate.reports_kept,
        "xcom_bytes": cut,
        "xcom_whole_bytes": whole,
        "cache_bytes": folder_bytes(Path(os.environ["XDG_CACHE_HOME"])),
        "reports": str(reports_folder(flow, "gate").name),
    }


def copy_of(places: list[tuple[str, int]]) -> CopyResult:
    """Return a result that says of every partition that a record was copied."""
    partitions = tuple(PartitionCopy(topic, f"A.{topic}", number, 1, 100, 9, 0) for topic, number in places)
    empty = CopyResult("A->B", "run", "done", 0, 0, 1.0, ())
    return replace(empty, records=len(places), partitions=partitions)


def folder_bytes(folder: Path) -> int:
    """Add up the files below a folder."""
    return sum(it.stat().st_size for it in folder.rglob("*") if it.is_file())


def markdown(rows: list[Row], given: argparse.Namespace) -> str:
    """Return two tables: the sizes in Kafka, and those elsewhere."""
    *quarters, weighed = rows
    heads = " | ".join(f"day {row['day']}" for row in quarters)
    lines = [
        f"{given.years:g} year(s) of {given.partitions:,} partitions and {given.groups:,} groups,"
        f" {given.new_groups:,} new ones a day, {CHURNED_TOPICS_A_STEP} new topics in {given.step_days} days;"
        " live keys and MB in the log:",
        "",
        f"| topic | {heads} | read anew at the end | bounded by |",
        "|---|" + "---:|" * len(quarters) + "---:|---|",
    ]
    for name, bound in BOUNDED_BY.items():
        cells = [f"{row[name]['keys']:,} / {row[name]['bytes'] / 1e6:.1f}" for row in quarters]
        last = quarters[-1][name]
        cells.append(f"{last['read_s']:.2f} s, {last['read_cpu_s']:.2f} CPU-s")
        lines.append(f"| {name} | {' | '.join(cells)} | {bound} |")
    kept, runs = weighed["reports_kept"], 365 * 24 * 60
    lines += [
        "",
        "Elsewhere (one gate a day, a cycle a minute):",
        "",
        "| what | each | in a year | bounded by |",
        "|---|---:|---:|---|",
        f"| evidence of the gate | {kb(weighed['evidence_bytes'])} | {mb(365 * weighed['evidence_bytes'])}"
        " | nothing, on purpose: delete it by your own rules |",
        f"| page and Data Docs of a gate | {kb(weighed['gate_bytes'])} | {mb(kept * weighed['gate_bytes'])}"
        f" | the newest {kept} |",
        f"| Data Docs of a cycle | {kb(weighed['validate_bytes'])} | {mb(kept * weighed['validate_bytes'])}"
        f" | the newest {kept} |",
        f"| XCom of a run's largest tasks (whole: {kb(weighed['xcom_whole_bytes'])}) | {kb(weighed['xcom_bytes'])}"
        f" | {mb(runs * weighed['xcom_bytes'])} | 48 KiB a task; `airflow db clean` deletes old runs |",
        f"| cache of state topics | {kb(weighed['cache_bytes'])} | the same | one file a topic |",
    ]
    return "\n".join(lines) + "\n"


def kb(size: int) -> str:
    """Write a size in KB."""
    return f"{size / 1e3:,.0f} KB"


def mb(size: int) -> str:
    """Write a size in MB."""
    return f"{size / 1e6:,.0f} MB"


if __name__ == "__main__":
    main()
