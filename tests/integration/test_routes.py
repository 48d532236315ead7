"""Rules that route records to another topic, on real brokers: copied, mapped, audited, and what goes wrong."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ResourceType
from test_audit import FULL, audited, delete_topic
from test_lost_ends import leave_open
from test_traps import brokers
from test_unreadable_state import administrator

from lab import (
    Seen,
    alter_configs,
    commit_group,
    committed,
    create_topic,
    cycle,
    flow_of,
    produce,
    read,
    read_with_offsets,
)
from twinlog.audit.result import AuditResult
from twinlog.audit.verdict import AuditVerdict
from twinlog.batches.record import record_rest
from twinlog.batches.routed import Origin, RoutedRecord, batches
from twinlog.cli.main import main
from twinlog.cluster.open import open_clusters
from twinlog.cluster.permissions.needs import Names, grants, needs
from twinlog.formats.ledger.audit import DifferenceKind as Kind
from twinlog.formats.mm2.connect_offset import partition_for
from twinlog.groups import checkpoints
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lane.fence.fence import transactional_id
from twinlog.lifecycle import sync_topics
from twinlog.monitoring import status
from twinlog.offsets.offset_map import Translation
from twinlog.protocol.brokers import Brokers
from twinlog.state.progress import read_maps
from twinlog.transforms.routes import Partitioner, Route

__all__ = ["brokers"]

NOW = int(time.time() * 1000)
RULES = "A->B__twinlog__transform__rules__"


def order(number: int) -> Seen:
    """Every third is severe, every fifth has no key, every seventh is a tombstone."""
    document = {"id": number, "severity": "high" if number % 3 == 0 else "low", "card": f"4111-{number:04}"}
    value = None if number % 7 == 0 else json.dumps(document).encode()
    return Seen(None if number % 5 == 0 else b"k%d" % (number % 11), value, NOW + number, (("h", b"1"),))


def is_routed(record: Seen) -> bool:
    """Say whether the rule of `alerting` routes a record."""
    return record.value is not None and json.loads(record.value)["severity"] == "high"


def masked(record: Seen) -> Seen:
    """Return a record as the rule before leaves it."""
    if record.value is None:
        return record
    value = json.dumps({**json.loads(record.value), "card": ""}).encode()
    return Seen(record.key, value, record.timestamp, record.headers)


def alerting(topics: str, to: str, **more: str) -> dict[str, str]:
    """Return the lines of a file that mask cards, then route what is severe."""
    return {
        f"{RULES}a__topics": topics,
        f"{RULES}a__mask": "card",
        f"{RULES}b__topics": topics,
        f"{RULES}b__route__if__field": "severity=high",
        f"{RULES}b__route__to": to,
        f"{RULES}b__route__partitioner": "key",
        **more,
    }


def test_two_topics_are_routed_into_one_by_key(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Each record once, masked, with its origin, in the order of its source partition; the map has gaps there."""
    one, two = (create_topic(cluster_a, unique_topic(it), n) for it, n in (("one", 2), ("two", 3)))
    to = unique_topic("alerts")
    written = {
        (topic, partition): [order(100 * partition + n) for n in range(1, 90)]
        for topic, count in ((one, 2), (two, 3))
        for partition in range(count)
    }
    for (topic, partition), records in written.items():
        produce(cluster_a, topic, records[:50], partition)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [one, two], **alerting(f"{one}, {two}", to))
    first = cycle(flow)
    for (topic, partition), records in written.items():
        produce(cluster_a, topic, records[50:], partition, compression_type="lz4")
    assert ["done", "done", "nothing"] == [first.state, *(cycle(flow).state for _ in range(2))]
    for (topic, partition), records in written.items():
        assert [masked(it) for it in records if not is_routed(it)] == read(cluster_b, f"A.{topic}", partition)
    routed = {number: read(cluster_b, to, number) for number in range(3)}
    for (topic, partition), records in written.items():
        expected: dict[int, list[Seen]] = {0: [], 1: [], 2: []}
        for offset, it in enumerate(records):
            if is_routed(it):
                number = partition if it.key is None else partition_for(it.key, 3)
                expected[number].append(_with_offset(masked(it), offset))
        for number, found in routed.items():
            mine = [it for it in found if _origin(it)[:4] == ("A", topic, _origin(it)[2], str(partition))]
            assert expected[number] == [_with_offset(_own(it), int(_origin(it)[4])) for it in mine]
    good, count = audited(flow), sum(map(len, routed.values()))
    assert (True, True, count) == (good.equal, good.proved, sum(it.equal for it in good.routed))
    with open_clusters(flow) as clusters:
        assert 0 == status.run(flow, clusters).lag_records
        maps = {(it.topic, it.partition): found for it, found in read_maps(flow, clusters.target).items()}
    for (topic, partition), records in written.items():
        upstream = [
            offset for offset, it in read_with_offsets(cluster_a, topic, partition) if not is_routed(it)
        ]
        downstream = [offset for offset, _ in read_with_offsets(cluster_b, f"A.{topic}", partition)]
        assert [Translation(it, True, False) for it in downstream] == [
            maps[topic, partition].translate(it) for it in upstream
        ]
        gap = next(n for n, it in enumerate(records) if is_routed(it))
        following = next(n for n in range(gap, 90) if not is_routed(records[n]))
        assert maps[topic, partition].translate(gap) == maps[topic, partition].translate(following)


def told(result: AuditResult) -> list[tuple[Kind, str, int, int | None]]:
    """Return kind and place of each difference."""
    return [(it.kind, it.topic, it.partition, it.upstream_offset) for it in result.differences]


def write_all(cluster: Any, topic: str, records: dict[int, list[Seen]]) -> None:
    """Make a topic anew with these records."""
    delete_topic(cluster, topic)
    create_topic(cluster, topic, len(records))
    for number, some in records.items():
        produce(cluster, topic, some, number)


def test_each_damage_of_a_routed_record_is_found(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Changed, missing, doubled, moved, and written by another; by an incremental audit, too, of what is new to it."""
    topic = create_topic(cluster_a, unique_topic("damaged"), 3)
    to = unique_topic("alerts")
    for partition in range(3):
        produce(cluster_a, topic, [order(100 * partition + n) for n in range(1, 90)], partition)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], **alerting(topic, to))
    assert "done" == cycle(flow).state
    whole = {number: read(cluster_b, to, number) for number in range(3)}
    at = max(whole, key=lambda number: len(whole[number]))
    records = whole[at]
    third = records[3]
    place = (topic, int(_origin(third)[3]), int(_origin(third)[4]))
    other = replace(third, value=third.value.replace(b"high", b"hiGh"))
    by_hand = Seen(b"k", b"by hand", NOW)
    write_all(cluster_b, to, {**whole, at: [*records[:3], other, *records[4:]]})
    assert [(Kind.VALUE, *place)] == told(audited(flow)), "by an incremental audit of what is new"
    assert [(Kind.VALUE, *place)] == told(audited(flow)), "and it stands until a full one"
    write_all(cluster_b, to, whole)
    good, count = audited(flow, FULL), sum(map(len, whole.values()))
    assert (True, True, [(count, count, 0)]) == (
        good.equal,
        good.proved,
        [(it.records, it.equal, it.differences) for it in good.routed],
    )
    late = replace(third, headers=(*third.headers[:-1], ("twinlog.offset", b"5000")))
    for made, expected in (
        ([*records[:3], other, *records[4:]], [(Kind.VALUE, *place)]),
        ([*records[:3], replace(third, timestamp=5), *records[4:]], [(Kind.TIMESTAMP, *place)]),
        ([*records[:3], *records[4:]], [(Kind.MISSING, *place)]),
        ([*records, third], [(Kind.EXTRA, *place)]),
        ([*records[:3], *records[4:], third], [(Kind.ORDER, *place)]),
        ([*records, by_hand], [(Kind.EXTRA, to, at, None)]),
        ([*records, late], [(Kind.EXTRA, to, at, None)]),
    ):
        write_all(cluster_b, to, {**whole, at: made})
        found = audited(flow, FULL)
        assert (False, AuditVerdict.DIFFERENT) == (found.equal, found.verdict)
        assert expected == told(found)
    assert [(Kind.EXTRA, to, at, None)] == told(audited(flow)), "each audit reads the routed topic whole"
    write_all(cluster_b, to, whole)
    assert audited(flow, FULL).equal
    admin = AdminClient({"bootstrap.servers": cluster_b.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(to, at, 2)]).values():
        future.result()
    expired = audited(flow, FULL)
    assert (False, AuditVerdict.ROUTED_EXPIRED, 2) == (
        expired.equal,
        expired.verdict,
        sum(it.expired for it in expired.routed),
    )
    assert audited(flow).equal, "what was proved before it expired stays proved"


def test_all_records_of_a_topic_may_be_routed_to_the_same_partition(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, capsys: Any
) -> None:
    """The copy stays empty, groups are caught up, and the audit proves what is routed; the preview says it before."""
    topic = create_topic(cluster_a, unique_topic("all"), 2)
    to = create_topic(cluster_b, unique_topic("there"), 3, message_timestamp_type="LogAppendTime")
    written = {partition: [order(100 * partition + n) for n in range(30)] for partition in (0, 1)}
    for partition, records in written.items():
        produce(cluster_a, topic, records, partition)
    lines = all_to(topic, to, "same")
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], **lines)
    config = str(next(tmp_path.glob("mm2-*.properties")))
    assert 0 == main(["transform", "--config", config, "--topic", topic, "--output", "json"])
    shown = json.loads(capsys.readouterr().out)["records"]
    assert {("routed", to, "same")} == {(it["fate"], it["to"], it["by"]) for it in shown}
    first = cycle(flow)
    assert ("done", 0, 60, 0) == (
        first.state,
        first.records,
        first.routed,
        sum(it.skipped for it in first.partitions),
    )
    for partition, records in written.items():
        own = [_own(it) for it in read(cluster_b, to, partition)]
        assert [(it.key, it.value, it.headers) for it in records] == [
            (it.key, it.value, it.headers) for it in own
        ]
        assert [] == read(cluster_b, f"A.{topic}", partition)
    assert [] == read(cluster_b, to, 2)
    good = audited(flow)
    assert (True, [60]) == (good.equal, [it.equal for it in good.routed])
    assert (True, [0]) == ((again := audited(flow)).equal, [it.equal for it in again.routed]), (
        "there is nothing new"
    )
    produce(cluster_a, topic, written[0][:7], 0)
    assert ("done", 7) == (cycle(flow).state, audited(flow).routed[0].equal)
    delete_topic(cluster_b, to)
    with open_clusters(flow) as clusters:
        (refused,) = sync_topics.run(flow, clusters).refused
        assert (to, "routed-topic-deleted") == (refused.name, refused.code)
        assert 0 == status.run(flow, clusters).lag_records
    produce(cluster_a, topic, written[0][:7], 0)
    stopped = cycle(flow)
    assert ("failed", {"route-stopped"}) == (stopped.state, {it.code for it in stopped.stopped})
    create_topic(cluster_b, to, 2)
    assert "done" == cycle(flow).state
    assert (AuditVerdict.DIFFERENT, 60 + 7) == (
        (found := audited(flow, FULL)).verdict,
        sum(it.kind is Kind.MISSING for it in found.differences),
    )
    for command in (
        ["rebuild", "--topic", topic],
        ["offsets", "alter", "--topic", topic, "--partition", "0", "--to", "earliest"],
    ):
        assert 1 == main([
            *command,
            "--config",
            config,
            "--reason",
            "try",
            *(["--yes"] if command[0] == "rebuild" else []),
        ])
        assert to in capsys.readouterr().err


def test_what_cannot_be_routed_stops_its_partition_and_no_other(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Too few partitions for `same`; a record that is too large where it is routed: a line with topic and offset."""
    topic = create_topic(cluster_a, unique_topic("some"), 2)
    to = create_topic(cluster_b, unique_topic("small"), 1, max_message_bytes="2000")
    for partition in (0, 1):
        produce(cluster_a, topic, [Seen(b"k", b"x" * 10, NOW + n) for n in range(5)], partition)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], **all_to(topic, to, "same"))
    result = cycle(flow)
    (stopped,) = result.stopped
    assert (topic, 1, "route-stopped", 5) == (stopped.topic, stopped.partition, stopped.code, result.routed)
    assert f"{to} has 1 partitions, too few for partitioner=same" in stopped.message
    produce(
        cluster_a, topic, [Seen(b"k", b"x" * 10, NOW), Seen(b"k", b"x" * 3000, NOW), Seen(b"k", b"y", NOW)], 0
    )
    by_key = flow_of(tmp_path, cluster_a, cluster_b, [topic], **all_to(topic, to, "key"))
    result = cycle(by_key)
    (poisoned,) = [it for it in result.partitions if it.error]
    assert (0, "poison-record", 1 + 5) == (poisoned.partition, poisoned.error_code, result.routed)
    assert f"{topic}-0 at upstream offset 6: " in poisoned.error
    assert f"max.message.bytes=2000 there ({to})" in poisoned.error
    alter_configs(cluster_b, ResourceType.TOPIC, to, max_message_bytes="100000")
    assert ("done", 2) == ((done := cycle(by_key)).state, done.routed)
    assert 13 == len(read(cluster_b, to))


def test_nothing_is_proved_of_records_that_an_open_transaction_hides(
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody else's, in the routed topic: they are neither missing nor equal, and the next audit compares them."""
    monkeypatch.setattr("twinlog.audit.routed.OPEN_SECONDS", 1.0)
    topic = create_topic(cluster_a, unique_topic("hidden"))
    to = create_topic(cluster_b, unique_topic("there"))
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], **alerting(topic, to))
    producer = Producer({"bootstrap.servers": cluster_b.bootstrap_servers, "transactional.id": to})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(to, b"open", b"k")
    assert 0 == producer.flush(30)
    produce(cluster_a, topic, [order(n) for n in range(1, 60)])
    assert "done" == cycle(flow).state
    hidden = audited(flow)
    assert (AuditVerdict.NOT_AUDITED, 0) == (hidden.verdict, hidden.difference_count)
    assert [f"{to}, to which rules route records: a transaction is open in partition 0 from offset 0 on"] == [
        it.message for it in hidden.problems
    ]
    producer.abort_transaction(30)
    good = audited(flow)
    assert (True, sum(is_routed(order(n)) for n in range(1, 60))) == (good.equal, good.routed[0].equal)


@pytest.mark.parametrize(
    ("offset", "topic_id", "ends"), [(40, "", "aborted"), (9, "", "committed"), (9, "x", "")]
)
def test_an_end_that_was_lost_in_a_routed_topic_is_made_up_for(
    offset: int,
    topic_id: str,
    ends: str,
    cluster_a: Any,
    cluster_b: Any,
    brokers: Brokers,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By progress; where it may count, what is routed there stops. The record left open is one more or none."""
    topic, to = create_topic(cluster_a, unique_topic("torn")), unique_topic("there")
    records = [Seen(b"k", b"%d" % n, NOW + n) for n in range(50)]
    produce(cluster_a, topic, records[:40])
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], **all_to(topic, to, "same"))
    assert 40 == cycle(flow).routed
    produce(cluster_a, topic, records[40:])
    known = _origin(read(cluster_b, to)[0])[2]
    rest = bytes(record_rest(b"k", b"open"))
    left = RoutedRecord(offset, NOW, b"k", rest, Route(to, Partitioner.SAME))
    origin = Origin("A", topic, topic_id or known, 0, offset)
    leave_open(cluster_b, brokers, flow.name, {(to, 0): [*batches([(left, origin)], 1 << 20, 0)]})
    caplog.set_level(logging.WARNING, "twinlog.copying.mend.copies")
    result = cycle(flow)
    if not ends:
        assert [("lost-marker", 0)] == [(it.code, it.partition) for it in result.stopped]
        assert (
            f"{to}-0, to which it is routed, holds records open from offset 41" in result.stopped[0].message
        )
        return
    assert ("done", 10) == (result.state, result.routed)
    assert f"{to}-0: cluster B had lost the end of a transaction that was {ends}" in caplog.text
    more = [b"open"] if ends == "committed" else []
    assert [*(it.value for it in records[:40]), *more, *(it.value for it in records[40:])] == [
        it.value for it in read(cluster_b, to)
    ]


def test_a_follower_routes_and_goes_on_after_a_kill(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """`twinlog run --for`, killed without a word, then once more: copy and routed topic are whole; audits meanwhile."""
    topic, to = create_topic(cluster_a, unique_topic("followed"), 2), unique_topic("there")
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], **alerting(topic, to))
    config = next(tmp_path.glob("mm2-*.properties"))
    written = [order(n) for n in range(1, 2000)]
    with following(config, tmp_path) as follower:
        for begin in range(0, 1000, 100):
            produce(cluster_a, topic, written[begin : begin + 100], 0)
            assert () == audited(flow).differences, "an audit while records are routed"
        await_(lambda: len(read(cluster_b, f"A.{topic}")) > 300)
        follower.kill()
    with following(config, tmp_path):
        produce(cluster_a, topic, written[1000:], 0)
        expected = [masked(it) for it in written if not is_routed(it)]
        await_(lambda: expected == read(cluster_b, f"A.{topic}"))
    routed = [it for number in (0, 1) for it in read(cluster_b, to, number)]
    assert sum(map(is_routed, written)) == len(routed)
    good = audited(flow, FULL)
    assert (True, len(routed)) == (good.equal, good.routed[0].equal), good.differences[:3]


@contextmanager
def following(config: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the follower as a process of its own, ended at the end."""
    script = Path(__file__).with_name("follow_process.py")
    with (folder / "follower.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, str(script), "run", "--for", "10m", "--config", str(config)],
            stdout=log,
            stderr=log,
            env=os.environ,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def await_(holds: Callable[[], bool], seconds: float = 90) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.3)


def all_to(topic: str, to: str, partitioner: str) -> dict[str, str]:
    """Return the lines of a file that route every record of a topic."""
    return {
        f"{RULES}all__topics": topic,
        f"{RULES}all__route__to": to,
        f"{RULES}all__route__partitioner": partitioner,
    }


def test_groups_stand_where_the_copy_goes_on(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """On a routed record, in a stretch of them, and behind the last one: nothing is read twice, nothing missed."""
    topic, to = create_topic(cluster_a, unique_topic("grouped")), unique_topic("there")
    low, high = (json.dumps({"severity": it}).encode() for it in ("low", "high"))
    values = [low, high, low, high, high, high, low, high, high]
    produce(cluster_a, topic, [Seen(b"%d" % n, it, NOW + n) for n, it in enumerate(values)])
    lines = {**alerting(topic, to), "sync__group__offsets__enabled": "true", "groups": f"{topic}.*"}
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], **lines)
    for offset in range(len(values) + 1):
        commit_group(cluster_a, f"{topic}-{offset}", topic, offset)
    assert ("done", 6) == ((result := cycle(flow)).state, result.routed)
    with open_clusters(flow) as clusters:
        checkpoints.run(flow, clusters)
    left = [offset for offset, it in enumerate(values) if it == low]
    expected = [sum(it < offset for it in left) for offset in range(len(values) + 1)]
    found = [committed(cluster_b, f"{topic}-{offset}", f"A.{topic}") for offset in range(len(values) + 1)]
    assert expected == found


@pytest.mark.parametrize("there", [False, True], ids=["made", "there"])
def test_routing_with_the_rights_that_are_asked_for_and_no_other(
    there: bool,
    guarded: EmbeddedKafka,
    cluster_a: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`twinlog check` passes, a cycle copies and routes, the audit proves; without WRITE there `check` names it."""
    topic, to = create_topic(cluster_a, unique_topic("guarded")), unique_topic("alerts")
    if there:
        create_topic(guarded, to, 3)
    records = [order(n) for n in range(1, 60)]
    produce(cluster_a, topic, records)
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="poor" password="p";'
    lines = {
        "B__security__protocol": "SASL_PLAINTEXT",
        "B__sasl__mechanism": "SCRAM-SHA-512",
        "B__sasl__jaas__config": login,
        **alerting(topic, to),
    }
    alias = unique_topic("A").replace("-", "")  # one target, two flows
    lines = {key.replace("A->B", f"{alias}->B"): value for key, value in lines.items()}
    flow = flow_of(tmp_path, cluster_a, guarded.address("SASL_PLAINTEXT"), [topic], alias=alias, **lines)
    prefix = transactional_id(flow.name, 0).removesuffix("0")
    admin = administrator(guarded, "B")
    names = Names((topic,), (), frozenset({to}) if there else frozenset())
    rights = {it.binding("User:poor") for it in grants(needs(flow, names, prefix)) if it.cluster == "B"}
    admin.create_acls(rights).require()
    time.sleep(0.3)
    config = str(next(tmp_path.glob("mm2-*.properties")))
    assert 0 == main(["check", "--config", config, "--output", "json"]), capsys.readouterr().out
    result = cycle(flow)
    routed = [it for it in records if is_routed(it)]
    assert ("done", len(routed)) == (result.state, result.routed)
    places = range(3 if there else 1)
    assert sorted(map(repr, map(masked, routed))) == sorted(
        repr(_own(it)) for place in places for it in read(guarded, to, place)
    )
    seen = audited(flow)
    assert (True, True) == (seen.equal, seen.proved), seen
    admin.delete_acls({it for it in rights if (it.name, it.operation) == (to, "WRITE")}).require()
    time.sleep(0.3)
    capsys.readouterr()
    assert 1 == main(["check", "--config", config, "--output", "json"])
    (told,) = json.loads(capsys.readouterr().out)["flows"]
    asked = [it for it in told["permissions"] if it["name"] == to]
    assert [["WRITE"]] == [it["missing"] for it in asked if it["missing"]]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A target that allows nothing by itself."""
    with EmbeddedKafka(
        "guarded",
        tmp_path_factory.mktemp("guarded") / "kafka",
        listeners=["SASL_PLAINTEXT"],
        users={"poor": "p"},
        settings={"allow.everyone.if.no.acl.found": "false"},
    ) as cluster:
        yield cluster


def _origin(record: Seen) -> tuple[str, ...]:
    return tuple((content or b"").decode() for _, content in record.headers[-5:])


def _own(record: Seen) -> Seen:
    return Seen(record.key, record.value, record.timestamp, record.headers[:-5])


def _with_offset(record: Seen, offset: int) -> tuple[int, Seen]:
    return offset, record
