"""Beside the real MirrorMaker 2: it goes on where we stopped, and we where it stopped.

Both are given the same mm2.properties.  Costs about a minute: MM2 is started twice.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from lab import (
    Seen,
    configure,
    create_topic,
    cycle,
    produce,
    produce_transaction,
    read,
    read_partitions,
    read_with_offsets,
    topic_names,
)
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.mm2.connect_offset import (
    offset_value,
    parse_offset_key,
    parse_offset_value,
    partition_for,
)
from twinlog.formats.mm2.records import Heartbeat
from twinlog.lab.kafka.mirror_maker import MirrorMaker
from twinlog.monitoring import heartbeats

pytestmark = pytest.mark.mm2

NOW = int(time.time() * 1000)


@dataclass(frozen=True)
class Shared:
    """One properties file, as MM2 reads it and as we do."""

    text: str
    flow: FlowSettings

    def remote(self, topic: str) -> str:
        """The name of the copy."""
        return self.flow.policy.format_remote_topic(self.flow.source.alias, topic)


def share(folder: Path, source: Any, target: Any, topics: str, **of_the_flow: str) -> Shared:
    """A one-way flow with aliases, and so with internal topics, that no other test uses; some keys are its own."""
    suffix = uuid.uuid4().hex[:4]
    a, b = f"A{suffix}", f"B{suffix}"
    path = configure(
        folder,
        {a: source, b: target},
        [f"{a}->{b}"],
        topics=topics,
        emit__heartbeats__enabled="false",
        heartbeats__replication__enabled="false",
        sync__topic__acls__enabled="false",
        sync__topic__configs__enabled="false",
        refresh__topics__interval__seconds="1",
        **dict.fromkeys(
            (
                "offset-syncs__topic__replication__factor",
                "checkpoints__topic__replication__factor",
                "heartbeats__topic__replication__factor",
                "status__storage__replication__factor",
                "config__storage__replication__factor",
            ),
            "1",
        ),
        **{f"{b}__offset__flush__interval__ms": "1000"},
        **{f"{a}->{b}.{key}": value for key, value in of_the_flow.items()},
    )
    return Shared(path.read_text(), load(path).flows[f"{a}->{b}"])


def some(first: int, count: int) -> list[Seen]:
    """Records told apart by number; some without key or value, some with headers."""
    return [
        Seen(
            None if n % 5 == 0 else b"%d" % n,
            None if n % 11 == 0 else b"value %d" % n,
            NOW + n,
            (("n", b"%d" % n), ("n", None)) if n % 3 == 0 else (),
        )
        for n in range(first, first + count)
    ]


def beats_on(clusters: dict[str, Any]) -> set[tuple[str, str, str]]:
    """List (cluster, source, target) of all heartbeats that lie on clusters, by alias."""
    found: set[tuple[str, str, str]] = set()
    for alias, cluster in clusters.items():
        if "heartbeats" not in topic_names(cluster, "heartbeats"):
            continue
        logged = [seen for seen in read(cluster, "heartbeats") if seen.key and seen.value]
        beats = [Heartbeat.parse(seen.key or b"", seen.value or b"") for seen in logged]
        found |= {(alias, it.source_alias, it.target_alias) for it in beats if it.source_alias in clusters}
    return found


@pytest.mark.long
def test_heartbeats_are_of_the_pairs_that_beat_in_mirror_maker(
    tmp_path: Path, cluster_a: Any, cluster_b: Any, cluster_c: Any, start_mirror_maker: Callable
) -> None:
    """Three clusters, one flow, one pair switched off: the same pairs beat on the same clusters."""
    seen: list[set[tuple[str, str, str]]] = []
    for who in ("m", "t"):
        suffix = f"{who}{uuid.uuid4().hex[:4]}"
        clusters = {f"A{suffix}": cluster_a, f"B{suffix}": cluster_b, f"C{suffix}": cluster_c}
        a, b, c = clusters
        factors = ("offset-syncs", "checkpoints", "heartbeats")
        storage = {f"{kind}__storage__replication__factor": "1" for kind in ("status", "config")}
        path = configure(
            tmp_path,
            clusters,
            [f"{a}->{b}"],
            topics=f"none{suffix}",
            heartbeats__replication__enabled="false",
            **{f"{kind}__topic__replication__factor": "1" for kind in factors},
            **storage,
            **{f"{c}->{b}.emit.heartbeats.enabled": "false"},
        )
        if who == "m":
            mirror_maker = start_mirror_maker(path.read_text())
            deadline = time.monotonic() + 300
            while len(beats_on(clusters)) < 5 and time.monotonic() < deadline:
                mirror_maker.require_running()
                time.sleep(0.5)
            time.sleep(5)  # for a pair too many
        else:
            for flow in load(path).enabled_flows:
                with open_clusters(flow) as opened:
                    assert "" == heartbeats.run(flow, opened).warning
        seen.append({tuple(name.removesuffix(suffix) for name in it) for it in beats_on(clusters)})  # type: ignore[misc]
    mm2, ours = seen
    assert {("A", "B", "A"), ("A", "C", "A"), ("B", "A", "B"), ("C", "A", "C"), ("C", "B", "C")} == mm2
    assert mm2 == ours


def wait_until_copied(mirror_maker: MirrorMaker, cluster: Any, topic: str, count: int) -> None:
    """Wait until a partition holds `count` records; what more it holds is for the test to find."""
    deadline = time.monotonic() + 300
    while topic not in topic_names(cluster, topic) or len(read(cluster, topic)) < count:
        mirror_maker.require_running()
        assert time.monotonic() < deadline, f"MM2 has not copied {count} records into {topic}"
        time.sleep(0.3)


def progress_records(cluster: Any, flow: FlowSettings) -> list[tuple[int, bytes, bytes | None]]:
    """Everything ever written to the offsets topic, committed or not, as (partition, key, value)."""
    partitions = range(flow.offset_storage_partitions)
    found = read_partitions(cluster, flow.offsets_topic, partitions, isolation="read_uncommitted")
    return [(partition, seen.key or b"", seen.value) for partition, log in found.items() for _, seen in log]


def latest(records: list[tuple[int, bytes, bytes | None]]) -> dict[bytes, int | None]:
    return {key: parse_offset_value(value) for _, key, value in records}


def test_mm2_goes_on_from_us_and_we_from_it(
    start_mirror_maker: Callable[[str], MirrorMaker],
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """We, MM2, we: nothing is lost or doubled, and all write their progress under the same bytes."""
    stem = unique_topic("turns")
    shared = share(tmp_path, cluster_a, cluster_b, f"{stem}.*")
    ours, theirs = create_topic(cluster_a, f"{stem}-ours"), f"{stem}-theirs"
    produce(cluster_a, ours, some(0, 200))
    produce_transaction(cluster_a, ours, some(200, 50))
    assert cycle(shared.flow).records == 250
    before = progress_records(cluster_b, shared.flow)

    produce(cluster_a, ours, some(250, 100))
    mirror_maker = start_mirror_maker(shared.text)
    wait_until_copied(mirror_maker, cluster_b, shared.remote(ours), 350)
    create_topic(cluster_a, theirs)
    produce(cluster_a, theirs, some(0, 70))
    produce_transaction(cluster_a, ours, some(350, 100))
    wait_until_copied(mirror_maker, cluster_b, shared.remote(ours), 450)
    wait_until_copied(mirror_maker, cluster_b, shared.remote(theirs), 70)
    mirror_maker.stop(patience_s=60)
    assert read(cluster_b, shared.remote(ours)) == some(0, 450)

    after = progress_records(cluster_b, shared.flow)
    assert {(partition, key) for partition, key, _ in before} < {
        (partition, key) for partition, key, _ in after
    }
    keys = [parse_offset_key(key) for key in latest(after)]
    assert sorted(key.topic for key in keys) == [ours, theirs], "MM2 took our key for its own"
    assert all(key.encode() in latest(after) for key in keys)
    ends = {topic: read_with_offsets(cluster_a, topic)[-1][0] for topic in (ours, theirs)}
    assert {key.topic: latest(after)[key.encode()] for key in keys} == ends

    for topic, first in [(ours, 450), (theirs, 70)]:
        produce(cluster_a, topic, some(first, 30))
    result = cycle(shared.flow)
    assert (result.state, result.records) == ("done", 60)
    assert cycle(shared.flow).state == "nothing"
    for topic, count in [(ours, 480), (theirs, 100)]:
        assert read(cluster_b, shared.remote(topic)) == read(cluster_a, topic) == some(0, count)


def test_mm2_starts_right_after_an_aborted_progress_record(
    start_mirror_maker: Callable[[str], MirrorMaker],
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """MM2 reads progress uncommitted: our next fence writes the committed value over an aborted one."""
    topic = create_topic(cluster_a, unique_topic("aborted"))
    shared = share(tmp_path, cluster_a, cluster_b, topic)
    flow = shared.flow
    produce(cluster_a, topic, some(0, 42))
    assert cycle(flow).records == 42
    ((partition, key, _),) = progress_records(cluster_b, flow)
    leave_aborted(cluster_b, flow, key, offset_value(80))
    assert latest(progress_records(cluster_b, flow)) == {key: 80}, "what MM2 would start from"
    assert cycle(flow).state == "nothing"
    assert progress_records(cluster_b, flow)[-1] == (partition, key, offset_value(41))

    produce(cluster_a, topic, some(42, 100))
    mirror_maker = start_mirror_maker(shared.text)
    wait_until_copied(mirror_maker, cluster_b, shared.remote(topic), 142)
    mirror_maker.stop(patience_s=60)
    assert read(cluster_b, shared.remote(topic)) == some(0, 142)


def leave_aborted(cluster: Any, flow: FlowSettings, key: bytes, value: bytes) -> None:
    """Write progress in a transaction, and abort it."""
    producer = Producer({
        "bootstrap.servers": cluster.bootstrap_servers,
        "transactional.id": uuid.uuid4().hex,
    })
    producer.init_transactions(30)
    producer.begin_transaction()
    partition = partition_for(key, flow.offset_storage_partitions)
    producer.produce(flow.offsets_topic, value, key, partition)
    producer.flush(30)
    producer.abort_transaction(30)


def test_transforms_leave_the_same_records_as_in_mirror_maker(
    start_mirror_maker: Callable[[str], MirrorMaker],
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Filters, dropped headers, predicates of all kinds and negated, by the same lines: record by record."""
    stem = unique_topic("smt")
    lines = {
        "transforms": "live, clean, open",
        "transforms.live.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.live.predicate": "gone",
        "transforms.clean.type": "DropHeaders",
        "transforms.clean.headers": "trace, n",
        "transforms.clean.predicate": "quiet",
        "transforms.clean.negate": "TRUE",
        "transforms.open.type": "Filter",
        "transforms.open.predicate": "marked",
        "predicates": "gone, quiet, marked",
        "predicates.gone.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
        "predicates.quiet.type": "TopicNameMatches",
        "predicates.quiet.pattern": f"A[^.]*[.]{stem}-quiet",
        "predicates.marked.type": "HasHeaderKey",
        "predicates.marked.name": "n",
    }
    loud, quiet = (create_topic(cluster_a, f"{stem}-{name}") for name in ("loud", "quiet"))
    records = [
        replace(it, headers=(*it.headers, ("trace", b"t"), ("kept", b""), ("kept", None)))
        for it in some(0, 300)
    ]
    for topic in (loud, quiet):
        produce(cluster_a, topic, records)
    # Without `n`, which is dropped first, the mark is found in one of the two topics only.
    counts = {loud: 272, quiet: 182}
    mm2, ours = (share(tmp_path, cluster_a, cluster_b, f"{stem}.*", **lines) for _ in range(2))
    mirror_maker = start_mirror_maker(mm2.text)
    assert "done" == cycle(ours.flow).state
    for topic, count in counts.items():
        wait_until_copied(mirror_maker, cluster_b, mm2.remote(topic), count)
        copy = read(cluster_b, ours.remote(topic))
        assert (count, copy) == (len(copy), read(cluster_b, mm2.remote(topic)))
