"""Topics as they live: growth, other lives, gaps and pauses, on real brokers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from lab import (
    Seen,
    ThreadRunner,
    commit_group,
    committed,
    configure,
    create_topic,
    delete_topic,
    flow_of,
    grow_topic,
    produce,
    read,
    topic_names,
)
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.audit.request import AuditMode, AuditRequest
from twinlog.audit.verdict import AuditVerdict
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.copying import GapPolicy, LifecycleSettings, RecreatedPolicy
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import copy
from twinlog.copying.resolve import resolve_now
from twinlog.copying.result import CopyResult
from twinlog.errors import TerminalError
from twinlog.follow import follow
from twinlog.follow.report import LaneGeneration
from twinlog.formats.ledger.records import GapCause
from twinlog.formats.ledger.topics import RebuildPhase
from twinlog.kafka_types import SourceIncarnation
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lifecycle import apply, rebuild, rebuild_plan, sync_topics
from twinlog.lifecycle.sync_topics import SyncTopicsResult
from twinlog.monitoring import status
from twinlog.offsets.offset_map import OffsetMap
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.state.progress import read_maps, read_progress
from twinlog.steps import discover
from twinlog.topics import pauses
from twinlog.topics.snapshot import FlowSnapshot


@pytest.fixture
def made(
    cluster_a: Any, cluster_b: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[..., Any]:
    """`made(partitions, **settings)` is a fresh topic, and a flow of aliases of its own that copies it."""

    def make(partitions: int = 1, **settings: str) -> tuple[str, FlowSettings]:
        topic = create_topic(
            cluster_a, f"lives-{request.node.name[5:40]}-{time.monotonic_ns() % 10**6}", partitions
        )
        return topic, flow_of(tmp_path, cluster_a, cluster_b, [topic], **settings)

    return make


def cycle(flow: FlowSettings) -> tuple[SyncTopicsResult, CopyResult]:
    """One cycle: what sync_topics and the copy said."""
    with open_clusters(flow) as clusters:
        synced = sync_topics.run(flow, clusters)
        return synced, copy.run(flow, clusters, ThreadRunner(), run_id=f"run-{time.monotonic_ns()}")


def ledger_of(flow: FlowSettings) -> Ledger:
    """What the flow remembers of its own topics: other tests' topics share the ledger."""
    with open_clusters(flow) as clusters:
        found = read_ledger(flow, clusters.target)
    return replace(
        found,
        every_incarnation=tuple(it for it in found.every_incarnation if it.topic in flow.topics.include),
        gaps=tuple(it for it in found.gaps if it.topic in flow.topics.include),
        rebuilds={name: it for name, it in found.rebuilds.items() if name in flow.topics.include},
    )


def map_of(flow: FlowSettings, topic: str) -> OffsetMap:
    """The offset map of partition 0 of the life that is copied now."""
    with open_clusters(flow) as clusters:
        life = read_ledger(flow, clusters.target).incarnations[topic].topic_id
        return read_maps(flow, clusters.target)[SourceIncarnation(topic, life, 0)]


def values(*names: str) -> list[Seen]:
    return [Seen(None, name.encode(), 1_000 + number) for number, name in enumerate(names)]


def contents(cluster: Any, topic: str, partition: int = 0) -> list[str]:
    return [(it.value or b"").decode() for it in read(cluster, topic, partition)]


def recreate_topic(cluster: Any, name: str, partitions: int = 1) -> None:
    delete_topic(cluster, name)
    create_topic(cluster, name, partitions)


def delete_records(cluster: Any, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.delete_records([Position(topic, 0, before)]).values():
        future.result(10)


# --- growth -----------------------------------------------------------------------------------------------


def test_growth_races_with_traffic_and_nothing_is_lost(cluster_a, cluster_b, made) -> None:
    """Partitions added between and during cycles get their place first; every record of every partition arrives."""
    topic, flow = made(1)
    written: dict[int, list[str]] = {}
    partitions = 1
    done = threading.Event()

    def write() -> None:
        number = 0
        while not done.is_set() or number < 30:
            for partition in range(partitions):
                name = f"{partition}-{number}"
                produce(cluster_a, topic, values(name), partition)
                written.setdefault(partition, []).append(name)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for count in (1, 2, 4):
            if count > partitions:
                grow_topic(cluster_a, topic, count)
                partitions = count
            _, result = cycle(flow)
            assert "failed" != result.state
    finally:
        done.set()
        writer.join()
    cycle(flow)
    cycle(flow)
    assert written == {partition: contents(cluster_b, f"A.{topic}", partition) for partition in range(4)}


def test_partitions_added_under_latest_are_copied_from_their_first_record(cluster_a, cluster_b, made) -> None:
    """auto.offset.reset=latest leaves out what was there at the first look, and nothing that came later."""
    topic, flow = made(1, A__consumer__auto__offset__reset="latest")
    produce(cluster_a, topic, values("before"))
    cycle(flow)
    produce(cluster_a, topic, values("after"))
    grow_topic(cluster_a, topic, 2)
    produce(cluster_a, topic, values("new"), 1)
    cycle(flow)
    assert (["after"], ["new"]) == tuple(contents(cluster_b, f"A.{topic}", n) for n in (0, 1))


# --- other lives --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("longer", [False, True])
def test_a_recreated_topic_stops_and_its_neighbours_go_on(
    cluster_a, cluster_b, made, tmp_path, longer: bool
) -> None:
    """Also when its new log is longer than what was copied: MM2 then skips records without a word."""
    topic, _ = made()
    other = create_topic(cluster_a, f"{topic}-other")
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic, other])
    produce(cluster_a, topic, values("one", "two"))
    cycle(flow)
    recreate_topic(cluster_a, topic)
    produce(cluster_a, topic, values(*("new",) * (5 if longer else 1)))
    produce(cluster_a, other, values("more"))
    _, result = cycle(flow)
    assert ("failed", ["recreated"]) == (result.state, [it.code for it in result.problems])
    assert (["one", "two"], ["more"]) == (
        contents(cluster_b, f"A.{topic}"),
        contents(cluster_b, f"A.{other}"),
    )


def test_append_puts_all_of_the_new_life_behind_the_old_one(cluster_a, cluster_b, made) -> None:
    """Progress of the old life is forgotten in the transaction that adopts the new one; the map keeps them apart."""
    topic, flow = made(twinlog__on__recreated="append", A__consumer__auto__offset__reset="latest")
    cycle(flow)
    produce(cluster_a, topic, values("one", "two", "three"))
    cycle(flow)
    for life in ("second", "third"):
        recreate_topic(cluster_a, topic)
        produce(cluster_a, topic, values(f"{life}-0", f"{life}-1", f"{life}-2", f"{life}-3"))
        synced, result = cycle(flow)
        assert ((topic,), "done") == (synced.lives.appended, result.state)
    expected = ["one", "two", "three", *(f"{life}-{n}" for life in ("second", "third") for n in range(4))]
    assert expected == contents(cluster_b, f"A.{topic}")
    ledger = ledger_of(flow)
    assert [1, 2, 3] == [life.number for life in ledger.every_incarnation]
    downstream = map_of(flow, topic).translate(1)
    assert downstream is not None
    assert "third-1" == contents_at(cluster_b, f"A.{topic}", downstream.offset)


def contents_at(cluster: Any, topic: str, offset: int) -> str:
    from lab import read_with_offsets

    return next((it.value or b"").decode() for at, it in read_with_offsets(cluster, topic) if at == offset)


def test_a_copy_that_goes_on_meanwhile_does_not_look_like_records_lost(cluster_a, cluster_b, made) -> None:
    """What was seen of the source is older than what was copied: no gap is noted, and no partition stops."""
    topic, flow = made()
    produce(cluster_a, topic, values("one"))
    cycle(flow)
    with open_clusters(flow) as clusters:
        seen = FlowSnapshot(flow, clusters)
        topics = seen.discovery.topics
        produce(cluster_a, topic, values("two", "three"))
        cycle(flow)
        progress = read_progress(flow, clusters.target)
        assert [2] == [progress[it] for it in progress if it.topic == topic]
        done = apply.run(seen)
        as_then: Any = SimpleNamespace(flow=flow, progress=progress)
        resolved = resolve_now(as_then, clusters, topics, {}, {})
        noted = [it for it in read_ledger(flow, clusters.target).gaps if it.topic == topic]
    assert ((), (), []) == (done.gaps, resolved.stopped, noted)


@pytest.mark.long
@pytest.mark.parametrize("policy", list(RecreatedPolicy))
def test_a_topic_made_anew_while_it_is_followed(cluster_a, cluster_b, made, policy: RecreatedPolicy) -> None:
    """None of its records is taken for one of its first life; the next windows do what the policy says."""
    topic, flow = made(twinlog__on__recreated=policy.value, twinlog__follow__seconds="5")
    old, new = ["one", "two"], ["new0", "new1", "new2"]
    expected = {RecreatedPolicy.FAIL: old, RecreatedPolicy.APPEND: [*old, *new]}.get(policy, new)
    produce(cluster_a, topic, values(*old))
    stop = threading.Event()

    def has(wanted: list[str], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with suppress(AssertionError, KafkaException):
                if topic_names(cluster_b, f"A.{topic}") and contents(cluster_b, f"A.{topic}") == wanted:
                    return True
            time.sleep(0.3)
        return False

    def swap() -> None:
        has(old, 60)
        recreate_topic(cluster_a, topic)
        produce(cluster_a, topic, values(*new))
        has([] if policy is RecreatedPolicy.FAIL else expected, 20 if policy is RecreatedPolicy.FAIL else 90)
        stop.set()

    swapping = threading.Thread(target=swap)
    swapping.start()
    windows: list[LaneGeneration] = []
    with open_clusters(flow) as clusters:
        follow.run(
            flow,
            clusters,
            ThreadRunner(),
            run_id=f"run-{time.monotonic_ns()}",
            seconds=180,
            stop=stop,
            on_generation=windows.append,
        )
    swapping.join()
    print([window.line for window in windows])
    assert expected == contents(cluster_b, f"A.{topic}")


def test_new_incarnation_makes_the_copy_anew(cluster_a, cluster_b, made) -> None:
    """The copy holds the new life only, from its first record; groups begin at its beginning."""
    topic, flow = made(twinlog__on__recreated="new-incarnation")
    produce(cluster_a, topic, values("one", "two"))
    cycle(flow)
    commit_group(cluster_b, f"reader-{topic}", f"A.{topic}", 2)
    recreate_topic(cluster_a, topic, 2)
    produce(cluster_a, topic, values("new"))
    synced, result = cycle(flow)
    assert ((topic,), "done", ["new"]) == (
        synced.lives.rebuilt,
        result.state,
        contents(cluster_b, f"A.{topic}"),
    )
    assert 0 == committed(cluster_b, f"reader-{topic}", f"A.{topic}")
    assert RebuildPhase.DONE == ledger_of(flow).rebuilds[topic].phase


@pytest.mark.parametrize("recreated", [False, True])
def test_a_copy_that_is_not_ours_any_more_stops(cluster_a, cluster_b, made, recreated: bool) -> None:
    """Deleted, or deleted and created again on the target: nothing is written into it, and rebuild is advised."""
    topic, flow = made()
    produce(cluster_a, topic, values("one", "two"))
    cycle(flow)
    delete_topic(cluster_b, f"A.{topic}")
    if recreated:
        create_topic(cluster_b, f"A.{topic}")
    produce(cluster_a, topic, values("three"))
    _, result = cycle(flow)
    (problem,) = result.problems
    assert ("copy-recreated" if recreated else "copy-deleted") == problem.code
    assert f"twinlog topics rebuild --topic {topic}" in problem.hint
    if recreated:
        assert [] == contents(cluster_b, f"A.{topic}")
    with open_clusters(flow) as clusters:
        rebuild.run(flow, clusters, topic, by="test", reason="it was deleted", request="")
    cycle(flow)
    assert ["one", "two", "three"] == contents(cluster_b, f"A.{topic}")


def test_a_copy_recreated_during_the_copy_is_found_before_the_next_round(cluster_a, cluster_b, made) -> None:
    """What was found before the fence is compared again behind it."""
    topic, flow = made()
    produce(cluster_a, topic, values("one"))
    cycle(flow)
    produce(cluster_a, topic, values("two"))

    class Swapping(ThreadRunner):
        def run(self, lanes):
            recreate_topic(cluster_b, f"A.{topic}")
            return super().run(lanes)

    with open_clusters(flow) as clusters:
        result = copy.run(flow, clusters, Swapping(), run_id="swap")
    assert ("failed", ["copy-recreated"]) == (result.state, [it.error_code for it in result.partitions])
    assert [] == contents(cluster_b, f"A.{topic}")


def test_a_deleted_topic_is_noted_and_its_copy_goes_in_time(cluster_a, cluster_b, made, monkeypatch) -> None:
    """First seen once; with delete-after the copy outlives its source for so long, and then nothing is remembered."""
    topic, flow = made(twinlog__on__deleted="delete-after:1m")
    produce(cluster_a, topic, values("one"))
    cycle(flow)
    delete_topic(cluster_a, topic)
    cycle(flow)
    first = ledger_of(flow).deleted[topic]
    with open_clusters(flow) as clusters:
        (orphan,) = [it for it in discover.run(flow, clusters).orphans if it.topic == topic]
    assert ("deleted", first.first_seen_ms + 60_000) == (orphan.kind, orphan.delete_at_ms)
    cycle(flow)
    assert first == ledger_of(flow).deleted[topic]
    later = time.time() + 61
    monkeypatch.setattr("twinlog.clock.time.time", lambda: later)
    synced, _ = cycle(flow)
    monkeypatch.undo()
    assert ((f"A.{topic}",), set()) == (synced.lives.deleted_copies, topic_names(cluster_b, f"A.{topic}"))
    assert topic not in ledger_of(flow).incarnations
    create_topic(cluster_a, topic)
    produce(cluster_a, topic, values("again"))
    cycle(flow)
    assert ["again"] == contents(cluster_b, f"A.{topic}")


# --- gaps ---------------------------------------------------------------------------------------------------


def test_a_gap_stops_its_partition_and_is_in_the_ledger(cluster_a, cluster_b, made) -> None:
    """By default: offsets, most records, times and cause are noted, and nothing is copied behind it."""
    topic, flow = made()
    produce(cluster_a, topic, values("one", "two"))
    cycle(flow)
    produce(cluster_a, topic, values("three", "four", "five"))
    delete_records(cluster_a, topic, 4)
    for _ in range(2):
        _, result = cycle(flow)
    assert [("gap", 2, 3)] == [(it.code, it.first_offset, it.last_offset) for it in result.stopped]
    (gap,) = ledger_of(flow).gaps
    assert (2, 3, 2, GapCause.DELETE_RECORDS, False) == (
        gap.first_offset,
        gap.last_offset,
        gap.records_estimate,
        gap.cause,
        gap.copied_past,
    )
    assert (1_001, 1_002) == (gap.first_ms, gap.last_ms)
    assert ["one", "two"] == contents(cluster_b, f"A.{topic}")


def test_young_records_that_are_gone_were_deleted_by_somebody(
    cluster_a, cluster_b, unique_topic, tmp_path
) -> None:
    """With Kafka's own retention of a week, which cannot have been it."""
    topic = create_topic(cluster_a, unique_topic("young"), retention_ms="604800000")
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    now = int(time.time() * 1000)
    produce(cluster_a, topic, [Seen(b"k", b"v", now) for _ in range(1000)])
    cycle(flow)
    produce(cluster_a, topic, [Seen(b"k", b"v", now) for _ in range(300)])
    delete_records(cluster_a, topic, 1200)
    cycle(flow)
    assert [(1000, 1199, GapCause.DELETE_RECORDS)] == [
        (it.first_offset, it.last_offset, it.cause) for it in ledger_of(flow).gaps
    ]


def test_a_gap_is_recorded_and_the_copy_goes_on(cluster_a, cluster_b, made) -> None:
    """record-and-continue: noted in the same transaction that moves progress behind it, also when nothing is left."""
    topic, flow = made(twinlog__on__gap="record-and-continue")
    produce(cluster_a, topic, values("one", "two"))
    cycle(flow)
    produce(cluster_a, topic, values("three", "four", "five"))
    delete_records(cluster_a, topic, 5)
    synced, result = cycle(flow)
    passed = [gap.copied_past for gap in synced.lives.gaps if gap.topic == topic]
    assert ([True], "nothing") == (passed, result.state)
    produce(cluster_a, topic, values("six"))
    _, result = cycle(flow)
    assert ("done", ["one", "two", "six"]) == (result.state, contents(cluster_b, f"A.{topic}"))
    with open_clusters(flow) as clusters:
        shown = status.run(flow, clusters)
    there = map_of(flow, topic).translate(3)
    assert there is not None
    assert ("six", True) == (contents_at(cluster_b, f"A.{topic}", there.offset), there.exact)
    assert [(2, 4)] == [(it.first_offset, it.last_offset) for it in shown.gaps if it.topic == topic]


def test_a_first_copy_of_a_shortened_log_is_no_gap_but_noted(cluster_a, cluster_b, made) -> None:
    """Nothing was promised about what the source had deleted before."""
    topic, flow = made()
    produce(cluster_a, topic, values("one", "two"))
    delete_records(cluster_a, topic, 1)
    _, result = cycle(flow)
    ledger = ledger_of(flow)
    assert ("done", (), {"0": 1}) == (result.state, ledger.gaps, ledger.beginnings[topic].offsets)


# --- rebuild ------------------------------------------------------------------------------------------------


def test_a_rebuild_keeps_groups_exactly_where_they_stood(cluster_a, cluster_b, made) -> None:
    """Offsets of the new copy are others than those of the old one; positions follow their records."""
    topic, flow = made()
    produce(cluster_a, topic, values(*(f"a{n}" for n in range(10))))
    cycle(flow)
    produce(cluster_a, topic, values(*(f"b{n}" for n in range(10))))
    cycle(flow)
    remote = f"A.{topic}"
    position = map_of(flow, topic).translate(14)
    assert position is not None
    commit_group(cluster_b, f"g-{topic}", remote, position.offset)
    with open_clusters(flow) as clusters:
        todo = rebuild.plan(flow, clusters, topic)
        assert ([14], ()) == ([it.upstream for it in todo.groups], todo.active_groups)
        begun = rebuild.run(flow, clusters, topic, by="test", reason="drill", request="r1")
        again = rebuild.run(flow, clusters, topic, by="test", reason="drill", request="r1")
    assert ((f"g-{topic}",), True, False) == (begun.waiting, begun.deleted, again.deleted)
    cycle(flow)
    cycle(flow)
    there = committed(cluster_b, f"g-{topic}", remote)
    assert ("b4", 14) == (contents_at(cluster_b, remote, there), there)
    assert RebuildPhase.DONE == ledger_of(flow).rebuilds[topic].phase


def test_a_copy_that_is_being_read_is_not_rebuilt(cluster_a, cluster_b, made) -> None:
    """A running reader would lose its place; state stays as it was."""
    from confluent_kafka import Consumer

    topic, flow = made()
    produce(cluster_a, topic, values("one"))
    cycle(flow)
    reader = Consumer({
        "bootstrap.servers": cluster_b.bootstrap_servers,
        "group.id": f"live-{topic}",
        "auto.offset.reset": "earliest",
    })
    reader.subscribe([f"A.{topic}"])
    try:
        message = reader.consume(1, 30)[0]
        reader.commit(message=message, asynchronous=False)
        with open_clusters(flow) as clusters, pytest.raises(TerminalError, match=f"live-{topic}") as caught:
            rebuild.run(flow, clusters, topic, by="test", reason="drill", request="")
    finally:
        reader.close()
    assert (rebuild_plan.REFUSED, {}) == (caught.value.code, dict(ledger_of(flow).rebuilds))
    assert ["one"] == contents(cluster_b, f"A.{topic}")


@pytest.mark.parametrize("where", ["delete_copy", "make_copy", "require_empty"])
def test_a_rebuild_that_died_is_gone_on_with(cluster_a, cluster_b, made, monkeypatch, where: str) -> None:
    """Nothing is copied in between; the next cycle finishes it."""
    topic, flow = made()
    produce(cluster_a, topic, values("one", "two"))
    cycle(flow)

    def die(*arguments: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(rebuild, where, die)
    with open_clusters(flow) as clusters, pytest.raises(RuntimeError):
        rebuild.run(flow, clusters, topic, by="test", reason="drill", request="")
    with open_clusters(flow) as clusters:
        result = copy.run(flow, clusters, ThreadRunner(), run_id="between")
    assert ["rebuilding"] == [it.code for it in result.problems if it.code != "copy-deleted"]
    monkeypatch.undo()
    produce(cluster_a, topic, values("three"))
    cycle(flow)
    assert ["one", "two", "three"] == contents(cluster_b, f"A.{topic}")


# --- what some topics need -------------------------------------------------------------------------------


def test_a_schema_registrys_topic_is_copied_as_it_is_and_its_name_is_said(cluster_a, cluster_b, tmp_path):
    """Ids stay what they are, compaction too; a factor the target cannot hold is clamped, and that is said."""
    alias = f"S{time.monotonic_ns() % 10**6}"
    config = configure(
        tmp_path,
        {alias: cluster_a, "B": cluster_b},
        [f"{alias}->B"],
        topics="_schemas",
        heartbeats__replication__enabled="false",
        replication__factor="3",
    )
    flow = load(config).flows[f"{alias}->B"]
    create_topic(cluster_a, "_schemas", cleanup_policy="compact")
    try:
        # A key each, so that the cleaner has nothing to take from either side.
        produce(cluster_a, "_schemas", [Seen(b'{"n":1}', b'{"id":1}', 1_000), Seen(b'{"n":2}', None, 1_001)])
        synced, result = cycle(flow)
        said = [it for it in synced.problems if it.topic == "_schemas"]
        assert (2, [False]) == (result.records, [it.blocking for it in said])
        assert f"kafkastore.topic={alias}._schemas" in said[0].hint
        assert any("replication factor" in note for note in synced.notes), synced.notes
        assert read(cluster_a, "_schemas") == read(cluster_b, f"{alias}._schemas")
        with open_clusters(flow) as clusters:
            has = clusters.target.topic_configs([f"{alias}._schemas"]).require()[f"{alias}._schemas"]
        assert "compact" == has["cleanup.policy"].value
    finally:
        delete_topic(cluster_a, "_schemas")


# --- pauses -------------------------------------------------------------------------------------------------


def test_pauses_are_obeyed_and_shown(cluster_a, cluster_b, made) -> None:
    """A paused topic is left out, a paused flow changes nothing; resumed, both go on where they were."""
    topic, flow = made()
    produce(cluster_a, topic, values("one"))
    cycle(flow)
    produce(cluster_a, topic, values("two"))
    with open_clusters(flow) as clusters:
        pauses.pause(flow, clusters.target, topics=[topic], by="jo", reason="load")
        assert "nothing" == cycle(flow)[1].state
        (seen,) = [it for it in discover.run(flow, clusters).topics if it.topic == topic]
        assert "paused by jo: load" == seen.paused
        pauses.resume(flow, clusters.target, topics=[topic], by="jo", reason="")
        pauses.pause(flow, clusters.target, by="jo", reason="brokers move")
        synced, result = cycle(flow)
        assert ("nothing", True) == (result.state, "paused by jo: brokers move" in synced.notes[0])
        assert "paused" == status.run(flow, clusters).state
        pauses.resume(flow, clusters.target, by="jo", reason="")
    cycle(flow)
    assert ["one", "two"] == contents(cluster_b, f"A.{topic}")


# --- truncation ---------------------------------------------------------------------------------------------


def cut_log(folder: Path, topic: str, batches: int, partition: int = 0) -> None:
    """Leave only the first batches of a stopped broker's partition, as an unclean election leaves them."""
    (segment,) = folder.rglob(f"{topic}-{partition}/00000000000000000000.log")
    data, end = segment.read_bytes(), 0
    for _ in range(batches):
        end += 12 + int.from_bytes(data[end + 8 : end + 12], "big")
    segment.write_bytes(data[:end])
    for index in (*segment.parent.glob("*.index"), *segment.parent.glob("*.timeindex")):
        index.unlink()


@pytest.mark.long
def test_two_truncated_partitions_are_two_gaps(cluster_b, tmp_path) -> None:
    """One log has grown again behind its copy, one ends before it; what the copy kept of both is not called extra."""
    with EmbeddedKafka("cut", tmp_path / "kafka") as source:
        topic = create_topic(source, f"lives-cut-two-{time.monotonic_ns() % 10**6}", 2)
        for number in range(6):
            for partition in (0, 1):
                produce(source, topic, values(f"old{number}"), partition)
        flow = flow_of(tmp_path, source, cluster_b, [topic], alias="two")
        cycle(flow)
        source.stop()
        for partition in (0, 1):
            cut_log(tmp_path / "kafka", topic, 4, partition)
        source.start()
        for number in range(4, 9):
            produce(source, topic, values(f"new{number}"))
        produce(source, topic, values("new4"), 1)
        goes_on = replace(flow, lifecycle=LifecycleSettings(on_gap=GapPolicy.RECORD_AND_CONTINUE))
        assert ("done", 6) == ((result := cycle(goes_on)[1]).state, result.records)
        with open_clusters(goes_on) as clusters:
            gaps = status.run(goes_on, clusters).gaps
            found = audit.run(goes_on, clusters, LocalAuditRunner(), AuditRequest(AuditMode.FULL))
        places = [(it.partition, it.first_offset, it.last_offset) for it in gaps if it.topic == topic]
        assert [(0, 4, 5), (1, 4, 5)] == places
        assert (AuditVerdict.EQUAL, ()) == (found.verdict, found.differences)
        produce(cluster_b, f"two.{topic}", values("foreign"), 1)
        with open_clusters(goes_on) as clusters:
            found = audit.run(goes_on, clusters, LocalAuditRunner(), AuditRequest(AuditMode.FULL))
        assert [("extra", 1)] == [(it.kind.value, it.partition) for it in found.differences]


@pytest.mark.long
def test_a_truncated_log_that_grew_again_is_found_and_followed_by_policy(cluster_b, tmp_path) -> None:
    """By its leader epochs: by default it stops; record-and-continue goes on where the two logs part."""
    with EmbeddedKafka("cut", tmp_path / "kafka") as source:
        topic = create_topic(source, f"lives-cut-{time.monotonic_ns() % 10**6}")
        for number in range(6):
            produce(source, topic, values(f"old{number}"))
        flow = flow_of(tmp_path, source, cluster_b, [topic], alias="cut")
        assert "failed" != cycle(flow)[1].state
        source.stop()
        cut_log(tmp_path / "kafka", topic, 4)
        source.start()
        for number in range(4, 9):
            produce(source, topic, values(f"new{number}"))
        _, result = cycle(flow)
        assert ["truncation"] == [it.error_code for it in result.partitions]
        (gap,) = ledger_of(flow).gaps
        assert (4, 5, GapCause.TRUNCATION, False) == (
            gap.first_offset,
            gap.last_offset,
            gap.cause,
            gap.copied_past,
        )
        assert [f"old{n}" for n in range(6)] == contents(cluster_b, f"cut.{topic}")
        goes_on = replace(flow, lifecycle=LifecycleSettings(on_gap=GapPolicy.RECORD_AND_CONTINUE))
        assert "done" == cycle(goes_on)[1].state
        expected = [*(f"old{n}" for n in range(6)), *(f"new{n}" for n in range(4, 9))]
        assert expected == contents(cluster_b, f"cut.{topic}")
        with open_clusters(goes_on) as clusters:
            result = audit.run(goes_on, clusters, LocalAuditRunner(), AuditRequest(AuditMode.FULL))
        assert (AuditVerdict.EQUAL, ()) == (result.verdict, result.differences)
        there = map_of(flow, topic).translate(5)
        assert there is not None
        assert "new5" == contents_at(cluster_b, f"cut.{topic}", there.offset)
        assert "nothing" == cycle(goes_on)[1].state
