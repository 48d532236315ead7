"""Every offset and every group lands on the right record, on real brokers: told by the records themselves.

Costs about 40 s.  TWINLOG_LONG=1 makes it the whole proof: 50 switches, lags up to 100,000, the source stopped for
good, 5,000 groups.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from lab import (
    Seen,
    commit_group,
    configure,
    create_topic,
    cycle,
    flow_of,
    produce,
    produce_transaction,
    read_with_offsets,
)
from twinlog.cluster.admin.groups import OffsetChange
from twinlog.cluster.api import Cluster, Clusters, open_clusters
from twinlog.config.flow.copying import PoisonPolicy
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import Ownership
from twinlog.errors import FencedError, TransientError
from twinlog.groups import checkpoints
from twinlog.groups.report import SyncReason, SyncState
from twinlog.kafka_types import TopicPartition as Place
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lane.fence.fence import GrantedLane, init_writer, write_fenced
from twinlog.lifecycle.records import piece
from twinlog.offset_sync import emit, map_compaction
from twinlog.offset_sync.map_compaction import WORTH_IT
from twinlog.offset_sync.map_compaction import make_plan as planned
from twinlog.protocol.brokers import Brokers
from twinlog.state.progress import read_maps, read_packed

LONG = bool(os.environ.get("TWINLOG_LONG"))
NOW = int(time.time() * 1000)


def some(first: int, count: int) -> list[Seen]:
    return [Seen(b"%d" % n, b"value %d" % n, NOW + n) for n in range(first, first + count)]


def sync(flow: FlowSettings) -> checkpoints.CheckpointsResult:
    with open_clusters(flow) as clusters:
        emit.run(flow, clusters)
        return checkpoints.run(flow, clusters)


def group_flow(folder: Path, a: Any, b: Any, topics: Sequence[str], groups: str, **more: str) -> FlowSettings:
    settings = {"sync__group__offsets__enabled": "true", "groups": groups} | more
    return flow_of(folder, a, b, topics, **settings)


def read_as(cluster: Any, group: str, topic: str, most: int | None = None) -> list[bytes]:
    """Read keys as a member of a group, from where it stands to the end (or `most`), and commit."""
    consumer = Consumer({
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": group,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
    })
    consumer.assign([TopicPartition(topic, 0)])
    keys: list[bytes] = []
    deadline = time.monotonic() + 300
    last = None
    while most is None or len(keys) < most:
        assert time.monotonic() < deadline
        messages = consumer.consume(1000 if most is None else min(1000, most - len(keys)), 0.2)
        for message in messages:
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                most = len(keys)
                break
            keys.append(message.key())
            last = message
    if last is not None:
        consumer.commit(last, asynchronous=False)
    consumer.close()
    return keys


@pytest.fixture
def with_gaps(cluster_a, cluster_b, tmp_path, unique_topic) -> Iterator[tuple[FlowSettings, str]]:
    """A topic with aborted and committed transactions and a record too large, copied in several cycles."""
    topic = create_topic(cluster_a, unique_topic("gaps"), max_message_bytes="3000000")
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    flow = replace(flow, copy=replace(flow.copy, poison=PoisonPolicy.QUARANTINE, transaction_bytes=2000))
    remote = f"A.{topic}"
    create_topic(cluster_b, remote, max_message_bytes="100000")
    at = 0
    for number in range(6):
        produce(cluster_a, topic, some(at, 40))
        produce_transaction(cluster_a, topic, some(at + 40, 7), commit=number % 2 == 0)
        produce_transaction(cluster_a, topic, some(at + 47, 3), commit=number % 3 == 0)
        at += 50
        if number == 2:
            big = Seen(b"too big", b"x" * 200_000, NOW)
            produce(cluster_a, topic, [big], message_max_bytes="3000000", compression_type="none")
        if number % 2:
            cycle(flow)
    cycle(flow)
    yield flow, topic


def test_every_offset_translates_to_the_right_record_both_ways(with_gaps, cluster_a, cluster_b):
    """By record identity: the first record read there is the first one here that was copied and not yet read."""
    flow, topic = with_gaps
    here = read_with_offsets(cluster_a, topic)
    there = read_with_offsets(cluster_b, f"A.{topic}")
    copied = {seen.key for _, seen in there}
    assert {seen.key for _, seen in here} - copied == {b"too big"}
    with open_clusters(flow) as clusters:
        (packed,) = (it for life, it in read_packed(flow, clusters.target).items() if life.topic == topic)
    ends = here[-1][0] + 1, there[-1][0] + 1
    found = packed.translate_many(range(ends[0] + 1))
    assert found.exact.all() and not found.ahead[: ends[0]].any()
    for offset in range(ends[0] + 1):
        due = next((seen.key for at, seen in here if at >= offset and seen.key in copied), None)
        got = next((seen.key for at, seen in there if at >= int(found.offset[offset])), None)
        assert due == got, offset
    back = packed.reverse_many(range(ends[1] + 1))
    assert back.exact[there[0][0] :].all()
    for offset in range(ends[1] + 1):
        due = next((seen.key for at, seen in there if at >= offset), None)
        got = next(
            (seen.key for at, seen in here if at >= int(back.offset[offset]) and seen.key in copied), None
        )
        assert due == got, offset


def test_a_group_that_changes_sides_reads_each_record_once(cluster_a, cluster_b, tmp_path, unique_topic):
    """Stopped anywhere on A, started on B: nothing twice, nothing lost, whatever its lag."""
    count, switches = (150_000, 50) if LONG else (6_000, 8)
    topic = create_topic(cluster_a, unique_topic("switch"))
    groups = [f"g,{n}:{topic}" for n in range(switches)]
    flow = group_flow(tmp_path, cluster_a, cluster_b, [topic], rf".*{topic}")
    chance = random.Random(7)
    produced = 0
    for part in range(5):
        produce(cluster_a, topic, some(produced, count // 10))
        produce_transaction(cluster_a, topic, some(produced + count // 10, count // 10), commit=part != 2)
        produced += count // 5
        cycle(flow)
    everything = [seen.key for _, seen in read_with_offsets(cluster_a, topic, seconds=180)]
    stops = [chance.randint(0, len(everything) if not LONG else 100_000) for _ in groups]
    stops[:2] = [0, len(everything)]
    read_here = {}
    for group, stop in zip(groups, stops, strict=True):
        commit_group(cluster_a, group, topic, 0)
        lag = min(stop, len(everything))
        read_here[group] = (
            read_as(cluster_a, group, topic, len(everything) - lag) if lag < len(everything) else []
        )
    result = sync(flow)
    assert {(SyncState.SYNCED, 0)} == {(row.state, row.expected_duplicates) for row in result.rows}
    assert len(groups) == len(result.rows)
    for group in groups:
        there = read_as(cluster_b, group, f"A.{topic}")
        assert everything == read_here[group] + there, group


@pytest.mark.long
def test_after_the_source_is_gone_groups_go_on_all_the_same(cluster_b, tmp_path, unique_topic):
    """What recovery needs lives on the target."""
    topic = unique_topic("gone")
    with EmbeddedKafka("gone", tmp_path / "gone") as source:
        create_topic(source, topic)
        flow = group_flow(tmp_path, source, cluster_b, [topic], rf".*{topic}", alias="gone")
        produce(source, topic, some(0, 20_000))
        produce_transaction(source, topic, some(20_000, 20_000), commit=False)
        produce(source, topic, some(40_000, 20_000))
        cycle(flow)
        everything = [seen.key for _, seen in read_with_offsets(source, topic)]
        groups = {f"{n}-{topic}": random.Random(n).randint(1, len(everything)) for n in range(10)}
        here = {}
        for group, stop in groups.items():
            commit_group(source, group, topic, 0)
            here[group] = read_as(source, group, topic, stop)
        assert {0} == {row.expected_duplicates for row in sync(flow).rows}
    for group in groups:
        assert everything == here[group] + read_as(cluster_b, group, f"gone.{topic}")


def test_rewound_active_deleted_and_unknown_groups(cluster_a, cluster_b, tmp_path, unique_topic):
    """Each is reported as what it is; nobody who reads on B is touched."""
    topic = create_topic(cluster_a, unique_topic("fates"))
    flow = group_flow(
        tmp_path,
        cluster_a,
        cluster_b,
        [topic],
        rf".*{topic}",
        **{"twinlog__group__sync__policy__follow": "follows.*"},
    )
    remote = f"A.{topic}"
    produce(cluster_a, topic, some(0, 100))
    cycle(flow)
    names = ["rewound", "follows", "active", "deleted", "beyond"]
    rewound, follows, active, deleted, beyond = (f"{name}-{topic}" for name in names)
    for group in (rewound, follows, active, deleted):
        commit_group(cluster_a, group, topic, 80)
    commit_group(cluster_a, beyond, topic, 500)
    first = {row.group: row for row in sync(flow).rows}
    assert {SyncReason.WRITTEN} == {first[group].reason for group in (rewound, follows, active, deleted)}
    assert (SyncState.WRONGLY_NOT, SyncReason.INVALID_OFFSET) == (first[beyond].state, first[beyond].reason)
    commit_group(cluster_a, rewound, topic, 10)
    commit_group(cluster_a, follows, topic, 10)
    commit_group(cluster_a, active, topic, 90)
    member = Consumer({
        "bootstrap.servers": cluster_b.bootstrap_servers,
        "group.id": active,
        "enable.auto.commit": False,
    })
    member.subscribe([remote])
    deadline = time.monotonic() + 60
    while not member.assignment():
        assert time.monotonic() < deadline
        member.poll(0.2)
    source = Cluster(flow.source)
    source.delete_groups([deleted]).require()
    result = sync(flow)
    member.close()
    assert {
        rewound: (SyncState.INTENTIONALLY_NOT, SyncReason.NEVER_REWIND),
        follows: (SyncState.SYNCED, SyncReason.WRITTEN),
        active: (SyncState.INTENTIONALLY_NOT, SyncReason.ACTIVE_THERE),
        beyond: (SyncState.WRONGLY_NOT, SyncReason.INVALID_OFFSET),
    } == {row.group: (row.state, row.reason) for row in result.rows}
    assert 1 == result.ended
    target = Cluster(flow.target)
    standing = target.committed_offsets([rewound, follows, active]).require()
    assert {rewound: 80, follows: 10, active: 80} == {
        group: it[remote, 0].offset for group, it in standing.items()
    }


@contextmanager
def once_upkeep_has_read(monkeypatch: pytest.MonkeyPatch, do: Callable[[], Any]) -> Iterator[None]:
    """Do something between an upkeep's reading and its writing."""
    plans = []

    def make_plan(*given: Any) -> Any:
        plans.append(plan := planned(*given))
        if len(plans) == 2:  # the first one looked whether there is anything to do
            do()
        return plan

    with monkeypatch.context() as patch:
        patch.setattr(map_compaction, "make_plan", make_plan)
        yield
    assert 2 == len(plans)


def refuses_what_it_read(
    flow: FlowSettings, clusters: Clusters, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upkeep that has read what a rewind or a rebuild then changes, whichever of the two began first."""

    def rewrite(owned: Ownership) -> None:
        ((life, packed),) = (
            (it, known) for it, known in read_packed(flow, clusters.target).items() if it.topic == topic
        )
        oldest = piece(owned.state, life, int(packed.first[0]), None)
        owned.write([replace(oldest, value=bytes(packed.values[0]))])

    def change() -> None:
        rewrite(Ownership.taken(flow, clusters, "change"))

    came_between = "somebody else wrote in between; the next one compacts"
    with once_upkeep_has_read(monkeypatch, change):
        assert came_between == map_compaction.run(flow, clusters).note
    owned = Ownership.taken(flow, clusters, "change")

    def not_now() -> None:
        with pytest.raises(TransientError, match="was changed while it was to be changed"):
            rewrite(owned)

    with once_upkeep_has_read(monkeypatch, not_now):
        assert came_between == map_compaction.run(flow, clusters).note


def test_upkeep_joins_pieces_and_changes_no_answer(cluster_a, cluster_b, tmp_path, unique_topic, monkeypatch):
    """After many small cycles; the copy goes on; one that was overtaken writes nothing."""
    topic = create_topic(cluster_a, unique_topic("upkeep"))
    aliases = {f"A{topic[-6:]}": cluster_a, f"B{topic[-6:]}": cluster_b}
    path = configure(
        tmp_path, aliases, ["->".join(aliases)], topics=topic, heartbeats__replication__enabled="false"
    )
    flow = load(path).flows["->".join(aliases)]
    for number in range(WORTH_IT + 3):
        produce(cluster_a, topic, some(number, 1))
        cycle(flow)
    with open_clusters(flow) as clusters:
        before = read_maps(flow, clusters.target)
        refuses_what_it_read(flow, clusters, topic, monkeypatch)
        result = map_compaction.run(flow, clusters)
        assert (WORTH_IT + 3, WORTH_IT + 2, 1) == (result.pieces, result.joined, result.into)
        assert 0 == map_compaction.run(flow, clusters).joined
        after = read_maps(flow, clusters.target)
        assert [it.pieces for it in before.values()] == [it.pieces for it in after.values()]
    with Brokers(flow.target.connection) as target:
        name = f"twinlog-{flow.name}-map-upkeep"
        overtaken = init_writer(target, name, 10_000)
        init_writer(target, name, 10_000)
        record = StateRecord(flow.offset_map_topic, 0, b"key", b"value")
        with pytest.raises(FencedError):
            write_fenced(target, GrantedLane(0, overtaken), [record])
    produce(cluster_a, topic, some(100, 5))
    cycle(flow)
    there = [seen.key for _, seen in read_with_offsets(cluster_b, f"A{topic[-6:]}.{topic}")]
    assert [seen.key for _, seen in read_with_offsets(cluster_a, topic)] == there


@pytest.mark.long
def test_five_thousand_groups(cluster_a, cluster_b, tmp_path, unique_topic):
    """All in one cycle; the time is printed."""
    topic = create_topic(cluster_a, unique_topic("many"), 4)
    flow = group_flow(tmp_path, cluster_a, cluster_b, [topic], rf".*{topic}")
    for partition in range(4):
        produce(cluster_a, topic, some(0, 1000), partition)
    cycle(flow)
    source = Cluster(flow.source)
    changes = {
        f"{n:04}-{topic}": {Place(topic, p): OffsetChange((n * 7 + p) % 1000, None) for p in range(4)}
        for n in range(5000)
    }
    started = time.monotonic()
    source.alter_offsets(changes).require()
    print(f"committed on A in {time.monotonic() - started:.1f} s")
    for name in ("first", "again, nothing new"):
        started, cpu = time.monotonic(), time.process_time()
        result = sync(flow)
        print(f"{name}: {time.monotonic() - started:.1f} s wall, {time.process_time() - cpu:.1f} s CPU")
        assert (5000, 20_000, 0) == (result.groups, len(result.rows), len(result.wrongly))
