"""The audit on real brokers: good copies of every kind pass, damage is located to the record.

Damage is done as an operator's mistake would: the copy's topic is deleted and filled again by an ordinary producer,
records at the same offsets, one of them altered.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, ResourceType

from lab import (
    Seen,
    alter_configs,
    configure,
    create_topic,
    cycle,
    delete_topic,
    flow_of,
    produce,
    produce_transaction,
    read_with_offsets,
    wait_until,
)
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.audit.request import AuditMode, AuditRequest
from twinlog.audit.result import AuditResult
from twinlog.audit.verdict import AuditVerdict
from twinlog.cli.main import main
from twinlog.cluster.api import open_clusters
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.facts.observe import observe
from twinlog.formats.ledger.audit import DifferenceKind as Kind
from twinlog.formats.ledger.audit import Unproved
from twinlog.formats.map.offset_map import decode_map_key
from twinlog.state.ledger import read_ledger
from twinlog.topics.snapshot import FlowSnapshot

NOW = int(time.time() * 1000)
FULL = AuditRequest(AuditMode.FULL)


def audited(flow: FlowSettings, request: AuditRequest | None = None) -> AuditResult:
    with open_clusters(flow) as clusters:
        return audit.run(flow, clusters, LocalAuditRunner(), request)


def found(result: AuditResult) -> list[tuple[Kind, int | None, int | None]]:
    return [(it.kind, it.upstream_offset, it.downstream_offset) for it in result.differences]


def records(count: int = 60) -> list[Seen]:
    return [
        Seen(b"key %d" % n, b"value %d" % n if n % 10 else None, NOW + n, (("h", b"%d" % n), ("h", None)))
        for n in range(count)
    ]


def write_anew(cluster: Any, name: str, records: Sequence[Seen]) -> None:
    """Replace a topic by one of the same name with other records."""
    delete_topic(cluster, name)
    create_topic(cluster, name)
    produce(cluster, name, records)


def altered(good: list[Seen], at: int, **fields: Any) -> list[Seen]:
    return [*good[:at], dataclasses.replace(good[at], **fields), *good[at + 1 :]]


DAMAGES: dict[str, tuple[Callable[[list[Seen]], list[Seen]], list[tuple[Kind, int | None, int | None]]]] = {
    "a flipped byte in a value": (lambda it: altered(it, 7, value=b"valuE 7"), [(Kind.VALUE, 7, 7)]),
    "a flipped byte in a key": (lambda it: altered(it, 7, key=b"kez 7"), [(Kind.KEY, 7, 7)]),
    "a flipped byte in a header": (
        lambda it: altered(it, 7, headers=(("h", b"6"), ("h", None))),
        [(Kind.HEADERS, 7, 7)],
    ),
    "headers in another order": (
        lambda it: altered(it, 7, headers=(("h", None), ("h", b"7"))),
        [(Kind.HEADERS, 7, 7)],
    ),
    "a changed timestamp": (lambda it: altered(it, 7, timestamp=NOW), [(Kind.TIMESTAMP, 7, 7)]),
    "a tombstone turned into empty bytes": (lambda it: altered(it, 20, value=b""), [(Kind.VALUE, 20, 20)]),
    "a missing record": (lambda it: it[:7] + it[8:], [(Kind.MISSING, 7, 7)]),
    "an extra record": (lambda it: [*it[:7], Seen(b"x", b"x", NOW), *it[7:]], [(Kind.EXTRA, None, 7)]),
    "two swapped": (
        lambda it: [*it[:7], it[8], it[7], *it[9:]],
        [(Kind.ORDER, 7, 7), (Kind.ORDER, 8, 8)],
    ),
}


def test_damage_is_located_to_the_record(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Every kind of damage, each in a topic of its own, beside one that stays good."""
    topics = {damage: unique_topic("damage") for damage in DAMAGES}
    good_topic = unique_topic("good")
    flow = flow_of(tmp_path, cluster_a, cluster_b, [*topics.values(), good_topic])
    good = records()
    for topic in (*topics.values(), good_topic):
        create_topic(cluster_a, topic)
        produce(cluster_a, topic, good)
    cycle(flow)
    before = audited(flow)
    assert (True, 600, 1.0, []) == (before.equal, before.records, before.coverage, found(before))
    for damage, topic in topics.items():
        write_anew(cluster_b, f"A.{topic}", DAMAGES[damage][0](good))
    after = audited(flow)
    by_topic = {
        damage: [
            (it.kind, it.upstream_offset, it.downstream_offset)
            for it in after.differences
            if it.topic == topic
        ]
        for damage, topic in topics.items()
    }
    assert {damage: expected for damage, (_, expected) in DAMAGES.items()} == by_topic
    shown = next(it for it in after.differences if it.topic == topics["a flipped byte in a value"])
    assert ('"value 7"', '"valuE 7"') == (shown.source.value, shown.target.value)
    (untouched,) = (it for it in after.partitions if it.topic == good_topic)
    assert (1.0, 0) == (untouched.coverage, untouched.records)
    again = audited(flow)
    assert sorted(map(str, found(after))) == sorted(map(str, found(again)))
    assert not again.equal


def kinds_of_records(chance: random.Random, count: int) -> list[Seen]:
    """Null and empty keys and values, repeated headers, large ones, timestamps out of order."""
    sizes = [0, 0, 1, 10, 100, 1000]
    return [
        Seen(
            chance.choice([None, b"", b"key %d" % n]),
            chance.choice([None, b"", chance.randbytes(chance.choice(sizes)), b"%d " % n * 20]),
            NOW - chance.randrange(1_000_000),
            tuple(
                (chance.choice(["h", "trace", ""]), chance.choice([None, b"", b"%d" % n]))
                for _ in range(chance.choice([0, 0, 1, 3]))
            ),
        )
        for n in range(count)
    ]


def test_good_records_of_all_kinds_never_alarm(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Every codec and batch size, transactions and aborts, append times, a target that compresses again; while
    records keep coming, twice over, in two cycles.  TWINLOG_AUDIT_RECORDS=1000000 makes it a million.
    """
    count = int(os.environ.get("TWINLOG_AUDIT_RECORDS", "50000")) // 8
    settings: dict[str, dict[str, Any]] = {
        codec: {"compression_type": codec} for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    }
    settings["single"] = {"batch_num_messages": 1}
    settings["large"] = {"linger_ms": 100, "batch_size": 900_000}
    topics = {name: unique_topic(name) for name in (*settings, "append-time", "transactions", "recompressed")}
    for name, topic in topics.items():
        times = {"message_timestamp_type": "LogAppendTime"} if name == "append-time" else {}
        create_topic(cluster_a, topic, **times)
    create_topic(cluster_b, f"A.{topics['recompressed']}", compression_type="zstd")
    flow = flow_of(tmp_path, cluster_a, cluster_b, topics.values())
    written = 0
    for half in range(2):
        for name, topic in topics.items():
            chance = random.Random(f"{name}/{half}")
            many = kinds_of_records(chance, count // 2 if name != "single" else count // 10)
            if name == "transactions":
                step = max(1, len(many) // 20)
                for number, start in enumerate(range(0, len(many), step)):
                    commit = number % 3 != 1
                    produce_transaction(cluster_a, topic, many[start : start + step], commit=commit)
                    written += len(many[start : start + step]) if commit else 0
            else:
                produce(cluster_a, topic, many, **settings.get(name, {}))
                written += len(many)
        cycle(flow)
        result = audited(flow)
        assert [] == list(result.differences) and [] == list(result.problems)
        assert (True, 1.0) == (result.equal, result.coverage)
    full = audited(flow, FULL)
    assert (True, written, 1.0) == (full.equal, full.records, full.coverage)
    by_bytes = {it.topic: it.equal_bytes for it in full.partitions}
    assert by_bytes[topics["lz4"]] > 0 and by_bytes[topics["recompressed"]] > 0


def test_an_audit_goes_on_where_the_last_one_ended(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Only what is new is compared; the ledger adds up; a stranger's record on the target is told once, and stays."""
    topic = create_topic(cluster_a, unique_topic("incremental"))
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    compared = []
    for _ in range(3):
        produce(cluster_a, topic, records(10))
        cycle(flow)
        compared.append(audited(flow).records)
    assert [10, 10, 10] == compared
    assert 0 == audited(flow).records
    produce(cluster_b, f"A.{topic}", [Seen(b"x", b"stranger", NOW)])
    assert [(Kind.EXTRA, None, 33)] == found(audited(flow))
    produce(cluster_a, topic, records(10))
    cycle(flow)
    later = audited(flow)
    assert (False, [(Kind.EXTRA, None, 33)]) == (later.equal, found(later))
    with open_clusters(flow) as clusters:
        (kept,) = (it for it in read_ledger(flow, clusters.target).audits if it.topic == topic)
    assert (0, 40, 40, 1) == (kept.start, kept.end, kept.proved, kept.difference_count)


def test_what_cannot_be_proved_is_said(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Retention on either side, a topic made anew, a lost map, a copy that is gone."""
    names = ("source-expired", "target-expired", "recreated", "no-map", "copy-deleted", "never")
    topics = {name: create_topic(cluster_a, unique_topic(name)) for name in names}
    copied = [topic for name, topic in topics.items() if name != "never"]
    flow = flow_of(tmp_path, cluster_a, cluster_b, topics.values())
    for topic in copied:
        produce(cluster_a, topic, records(30))
    cycle(flow)
    delete_records(cluster_a, topics["source-expired"], 10)
    delete_records(cluster_b, f"A.{topics['target-expired']}", 20)
    delete_topic(cluster_a, topics["recreated"])
    create_topic(cluster_a, topics["recreated"])
    produce(cluster_a, topics["recreated"], [Seen(b"other", b"%d" % n, NOW) for n in range(30)])
    forget_map(flow, topics["no-map"])
    delete_topic(cluster_b, f"A.{topics['copy-deleted']}")
    result = audited(flow)
    assert not result.equal
    names_of = {topic: name for name, topic in topics.items()}
    assert {
        ("recreated", "recreated"),
        ("no-map", "no-map"),
        ("copy-deleted", "copy-deleted"),
        ("target-expired", "deleted-early"),
    } == {(names_of[it.topic], it.code) for it in result.problems}
    rows = {names_of[it.topic]: it for it in result.partitions}
    assert {
        "source-expired": (20, [(0, 10, 10, Unproved.SOURCE_RETENTION)]),
        "target-expired": (10, [(0, 20, 20, Unproved.DELETED_EARLY)]),
    } == {
        name: (
            rows[name].equal_bytes + rows[name].equal_records,
            [(it.start, it.end, it.records, it.reason) for it in rows[name].unproved],
        )
        for name in ("source-expired", "target-expired")
    }
    assert {names_of[it.topic] for it in result.differences} == {"recreated"}
    assert (0.0, 30) == (rows["recreated"].coverage, rows["recreated"].differences)


@pytest.mark.parametrize("before", [20, -1], ids=["some", "all"])
def test_what_somebody_deleted_from_the_copy_is_missed(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, before: int
) -> None:
    """All was audited; then the target loses records that the source holds: by no audit and no gate is that equal."""
    topic = create_topic(cluster_a, unique_topic("early"))
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    produce(cluster_a, topic, records(30))
    cycle(flow)
    assert audited(flow).equal
    delete_records(cluster_b, f"A.{topic}", before)
    for mode in (AuditMode.INCREMENTAL, AuditMode.FULL):
        result = audited(flow, AuditRequest(mode))
        gone = 20 if before > 0 else 30
        assert (AuditVerdict.DIFFERENT, False) == (result.verdict, result.equal)
        assert ["deleted-early"] == [it.code for it in result.problems]
        assert {"deleted-early": gone} == {it.reason: it.records for it in result.unproved}
    with open_clusters(flow) as clusters:
        (row,) = (it for it in observe(FlowSnapshot(flow, clusters)).partitions if it.topic == topic)
        assert gone == row.deleted_early
        alter_configs(cluster_b, ResourceType.TOPIC, f"A.{topic}", retention_ms="604800000")
        (row,) = (it for it in observe(FlowSnapshot(flow, clusters)).partitions if it.topic == topic)
        assert gone == row.deleted_early, "all of them are young"
        alter_configs(cluster_b, ResourceType.TOPIC, f"A.{topic}", retention_ms="1")
        (row,) = (it for it in observe(FlowSnapshot(flow, clusters)).partitions if it.topic == topic)
        assert 0 == row.deleted_early, "its retention explains it"


def delete_records(cluster: Any, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(10)


def forget_map(flow: FlowSettings, topic: str) -> None:
    """Tombstone the map of one topic, as somebody's clean-up might."""
    with open_clusters(flow) as clusters:
        for key in clusters.target.latest(flow.offset_map_topic):
            if decode_map_key(key).topic == topic:
                for partition in range(16):
                    clusters.target.produce(flow.offset_map_topic, [InternalRecord(key, None, partition)])


@pytest.mark.long
def test_compacted_topics(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Cleaned on both sides, or on one alone, they compare by the latest value of each key; a stranger is found."""
    both = (cluster_a, cluster_b)
    for cluster in both:
        alter_configs(cluster, ResourceType.BROKER, "1", log_cleaner_backoff_ms="100")
    topics = {name: unique_topic(f"compacted-{name}") for name in ("both", "source", "target")}
    for name, topic in topics.items():
        compacted_topic(cluster_a, topic, cleaned=name != "target")
        compacted_topic(cluster_b, f"A.{topic}", cleaned=name != "source")
    flow = flow_of(
        tmp_path, cluster_a, cluster_b, topics.values(), config__properties__exclude="cleanup.policy"
    )
    chance = random.Random(5)
    start = NOW + 60_000
    for number in range(6):
        batch = updates(chance, number, start)
        start += 2000
        for topic in topics.values():
            produce(cluster_a, topic, batch, compression_type=chance.choice(["none", "lz4"]))
        if number % 2:
            cycle(flow)
            result = audited(flow)
            assert ([], []) == (list(result.differences), list(result.problems))
    for topic in topics.values():
        produce(cluster_a, topic, [Seen(b"end", b"end", start)])
    cycle(flow)
    for cluster, topic in ((cluster_a, topics["source"]), (cluster_b, f"A.{topics['target']}")):
        wait_until(lambda: len(read_with_offsets(cluster, topic)) < 300)  # noqa: B023
    full = audited(flow, FULL)
    assert (True, []) == (full.equal, list(full.differences))
    superseded = {it.topic: it.superseded for it in full.partitions}
    assert superseded[topics["source"]] > 100 and superseded[topics["target"]] > 100
    produce(cluster_b, f"A.{topics['both']}", [Seen(b"stranger", b"x", start)])
    assert [Kind.EXTRA] == [it.kind for it in audited(flow).differences]
    for cluster in both:
        alter_configs(cluster, ResourceType.BROKER, "1", log_cleaner_backoff_ms=None)


def compacted_topic(cluster: Any, name: str, *, cleaned: bool) -> None:
    ratio = "0.01" if cleaned else "1.0"
    create_topic(cluster, name, cleanup_policy="compact", min_cleanable_dirty_ratio=ratio, segment_ms="1000")


def updates(chance: random.Random, number: int, start: int) -> list[Seen]:
    return [
        Seen(b"%d" % chance.randrange(40), None if chance.random() < 0.1 else b"%d/%d" % (number, n), start)
        for n in range(100)
    ]


def test_the_command(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, capsys: Any
) -> None:
    """Exit codes and the document others rely on; a dead source is an answer of its own."""
    topic = create_topic(cluster_a, unique_topic("command"))
    alias = "C" + topic[-4:]  # a ledger of its own
    options = {"topics": topic, "heartbeats__replication__enabled": "false"}
    path = configure(tmp_path, {alias: cluster_a, "B": cluster_b}, [f"{alias}->B"], **options)

    def command(*words: str, config: Path = path) -> tuple[int, dict[str, Any]]:
        code = main(["audit", "--config", str(config), "--output", "json", *words])
        return code, json.loads(capsys.readouterr().out)

    code, document = command()
    assert (1, False, ["nothing-copied"]) == (
        code,
        document["equal"],
        [it["code"] for it in document["problems"]],
    )
    produce(cluster_a, topic, records(30))
    cycle(load(path).flows[f"{alias}->B"])
    code, document = command()
    (row,) = document["partitions"]
    assert (0, True, [], topic, 0, 30, 1.0) == (
        code,
        document["equal"],
        document["differences"],
        row["topic"],
        row["partition"],
        row["records"],
        row["coverage"],
    )
    write_anew(cluster_b, f"{alias}.{topic}", altered(records(30), 3, value=b"damage"))
    code, document = command("--full")
    (one,) = document["differences"]
    assert (1, False, (topic, 0, 3, 3, "value")) == (
        code,
        document["equal"],
        tuple(one[it] for it in ("topic", "partition", "upstream_offset", "downstream_offset", "kind")),
    )
    dead = configure(tmp_path, {alias: "127.0.0.1:1", "B": cluster_b}, [f"{alias}->B"], **options)
    code, document = command(config=dead)
    assert (3, False, "unreachable") == (code, document["equal"], document["error"]["code"])
    assert 2 == command("--topics", "nobody")[0]
