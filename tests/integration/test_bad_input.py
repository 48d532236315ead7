"""What goes wrong on the copy path ends in one clear line, and costs no other topic its records.

Costs about a minute and a half, brokers included: the schedules of two drivers at once, a secure cluster.
"""

from __future__ import annotations

import random
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lab import (
    Seen,
    ThreadRunner,
    configure,
    create_topic,
    cycle,
    delete_topic,
    flow_of,
    produce,
    read,
    topic_names,
)
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import copy
from twinlog.copying.result import CopyResult
from twinlog.errors import ClusterUnreachable, FencedError
from twinlog.lab.kafka.ports import free_ports
from twinlog.lane.spec import LaneSpec
from twinlog.lifecycle import sync_topics
from twinlog.policy.replication import DefaultReplicationPolicy

NOW = int(time.time() * 1000)
SCHEDULES = 20


def some(count: int, start: int = 0) -> list[Seen]:
    """Records told apart by number."""
    return [Seen(b"%d" % n, b"value %d" % n, NOW + n) for n in range(start, start + count)]


def test_without_the_kernel_the_copy_is_the_same(
    tmp_path: Path, cluster_a: Any, cluster_b: Any, unique_topic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation for another machine lacks the library: it copies small batches with numpy, and slower."""
    topic, records = unique_topic("plain"), some(300)
    create_topic(cluster_a, topic)
    for record in records[:20]:
        produce(cluster_a, topic, [record])
    produce(cluster_a, topic, records[20:], linger_ms=0)
    monkeypatch.setattr("twinlog.batches.plain.take.LIBRARY", None)

    assert 300 == cycle(flow_of(tmp_path, cluster_a, cluster_b, [topic])).records
    assert records == read(cluster_b, f"A.{topic}")


def delete_records(cluster: Any, topic: str, before: int, partition: int = 0) -> None:
    """Take away what lies before an offset, as retention would."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        future.result(10)


# --- names ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LowerCase(DefaultReplicationPolicy):
    """A custom policy under which topics can meet."""

    from_properties = None

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{source_alias}.{topic.lower()}"


@pytest.fixture
def lower_case(monkeypatch: pytest.MonkeyPatch) -> str:
    """The policy's class name, as a configuration file says it."""
    module = ModuleType("acme_policies")
    vars(module)["LowerCase"] = LowerCase
    monkeypatch.setitem(sys.modules, "acme_policies", module)
    return "acme_policies.LowerCase"


def test_two_topics_under_one_remote_name(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, lower_case: str
) -> None:
    """Neither is copied, both are named, the third one goes on."""
    stem = unique_topic("clash")
    lower, upper, other = [create_topic(cluster_a, f"{stem}-{end}") for end in ("t", "T", "other")]
    for topic in (lower, upper, other):
        produce(cluster_a, topic, some(5))
    flow = flow_of(tmp_path, cluster_a, cluster_b, [f"{stem}.*"], replication__policy__class=lower_case)
    for _ in range(2):
        result = cycle(flow)
        assert [(it.topic, it.code) for it in result.problems] == [
            (upper, "remote-name-clash"),
            (lower, "remote-name-clash"),
        ]
        assert (
            f"topics {upper}, {lower} of A would all be copied into A.{lower}" in result.problems[0].message
        )
        assert (result.state, result.transient) == ("failed", False)
    assert topic_names(cluster_b, stem) == {f"A.{other}"}
    assert read(cluster_b, f"A.{other}") == some(5)


# --- two drivers ---------------------------------------------------------------------------------------------


def drive(flow: FlowSettings, delay: float, pause: float) -> CopyResult | FencedError:
    """Copy after `delay` seconds; lanes dawdle for `pause` seconds between their fence and their first record."""
    time.sleep(delay)
    runner = ThreadRunner(before=lambda _: time.sleep(pause))
    try:
        with open_clusters(flow) as clusters:
            return copy.run(flow, clusters, runner, run_id=uuid.uuid4().hex)
    except FencedError as error:
        return error


@pytest.mark.long
def test_two_drivers_at_once(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """However they meet, one gives way by name, and every record is there once.

    Twenty schedules: the second driver starts up to 0.3 s after the first, into its fence or its lanes.
    """
    topic = create_topic(cluster_a, unique_topic("drivers"), 4)
    suffix = uuid.uuid4().hex[:4]
    path = configure(
        tmp_path,
        {f"A{suffix}": cluster_a, f"B{suffix}": cluster_b},
        [f"A{suffix}->B{suffix}"],
        topics=topic,
        heartbeats__replication__enabled="false",
        twinlog__lanes="2",
        twinlog__transaction__bytes="20000",
        twinlog__partition__fetch__bytes="4096",
        twinlog__fetch__bytes="8192",
    )
    flow = load(path).flows[f"A{suffix}->B{suffix}"]
    produce(cluster_a, topic, some(1))
    assert cycle(flow).records == 1
    chance = random.Random(3)
    written = [some(1), [], [], []]
    outcomes = []
    for number in range(SCHEDULES):
        for partition in range(4):
            more = some(1000, start=10_000 * (number + 1))
            produce(cluster_a, topic, more, partition, linger_ms=0, batch_num_messages=20)
            written[partition] += more
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(drive, flow, 0.0, chance.uniform(0.0, 0.3))
            second = pool.submit(drive, flow, chance.uniform(0.0, 0.3), chance.uniform(0.0, 0.3))
            outcomes += [(first.result(), second.result())]
    cycle(flow)
    remote = f"A{suffix}.{topic}"
    assert [read(cluster_b, remote, partition) for partition in range(4)] == written
    for pair in outcomes:
        finished = [it for it in pair if not isinstance(it, FencedError)]
        assert finished and all(it.state in {"done", "nothing"} for it in finished), pair
    fenced = [it for pair in outcomes for it in pair if isinstance(it, FencedError)]
    assert len(fenced) > SCHEDULES // 8, "the drivers hardly met"
    assert all("another twinlog" in error.message for error in fenced)


# --- the source changes under us -----------------------------------------------------------------------------


def test_a_topic_made_anew_between_cycles(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Its copy keeps what it has and gets nothing more; the line names both ids; the other topic goes on."""
    topic, other = (create_topic(cluster_a, unique_topic(stem)) for stem in ("anew", "other"))
    produce(cluster_a, topic, some(20))
    produce(cluster_a, other, some(20))
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic, other])
    assert cycle(flow).records == 40
    delete_topic(cluster_a, topic)
    create_topic(cluster_a, topic)
    produce(cluster_a, topic, some(50, start=1000))
    produce(cluster_a, other, some(5, start=20))
    result = cycle(flow)
    assert (result.state, result.records, result.transient) == ("failed", 5, False)
    assert [(it.topic, it.code) for it in result.problems] == [(topic, "recreated")]
    assert f"topic {topic} was deleted and created again on A: its id was" in result.problems[0].message
    assert read(cluster_b, f"A.{topic}") == some(20)
    assert read(cluster_b, f"A.{other}") == some(25)


def test_a_topic_made_anew_during_a_copy(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Between plan and copy a topic gets another life: none of its records is taken for the first one's."""
    topic, other = (create_topic(cluster_a, unique_topic(stem)) for stem in ("anew", "other"))
    for name in (topic, other):
        produce(cluster_a, name, some(20))
    made: list[str] = []

    def make_anew(_: LaneSpec) -> None:
        if not made:
            made.append(topic)
            delete_topic(cluster_a, topic)
            create_topic(cluster_a, topic)
            produce(cluster_a, topic, some(50, start=1000))

    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic, other], twinlog__lanes="1")
    result = cycle(flow, ThreadRunner(before=make_anew))
    outcome = {it.topic: (it.error_code, it.copied_records) for it in result.partitions}
    assert outcome == {topic: ("recreated", 0), other: ("", 20)}
    assert (read(cluster_b, f"A.{topic}"), read(cluster_b, f"A.{other}")) == ([], some(20))


def test_records_deleted_before_they_were_copied(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """The partition stops and the line names the offsets; its neighbour goes on; a second cycle says it again."""
    topic = create_topic(cluster_a, unique_topic("gap"), 2)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    for partition in (0, 1):
        produce(cluster_a, topic, some(10), partition)
    assert cycle(flow).records == 20
    for partition in (0, 1):
        produce(cluster_a, topic, some(30, start=10), partition)
    delete_records(cluster_a, topic, before=25)
    for copied in (30, 0):
        result = cycle(flow)
        assert (result.state, result.records, result.transient) == ("failed", copied, False)
        assert [(it.partition, it.code, it.first_offset, it.last_offset) for it in result.stopped] == [
            (0, "gap", 10, 24)
        ]
        assert f"{topic}-0: upstream offsets 10 to 24 were deleted" in result.stopped[0].message
    assert read(cluster_b, f"A.{topic}", 0) == some(10)
    assert read(cluster_b, f"A.{topic}", 1) == some(40)


def test_retention_overtakes_the_reader(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Records go while their range waits: the partition stops with the offsets, its neighbour is copied."""
    topic = create_topic(cluster_a, unique_topic("overtaken"), 2)
    for partition in (0, 1):
        produce(cluster_a, topic, some(40), partition)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], twinlog__lanes="1")
    result = cycle(flow, ThreadRunner(before=lambda _: delete_records(cluster_a, topic, before=25)))
    outcome = {it.partition: (it.error_code, it.copied_records) for it in result.partitions}
    assert outcome == {0: ("gap", 0), 1: ("", 40)}
    assert "upstream offsets 0 to 24 were deleted" in result.partitions[0].error
    assert read(cluster_b, f"A.{topic}", 1) == some(40)


# --- the target says no --------------------------------------------------------------------------------------


def test_a_copy_with_too_few_partitions_that_may_not_grow(
    cluster_a: Any, secure_cluster: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Nothing of the topic is half-copied, the line says what to grant, the other topic goes on."""
    topic, other = (
        create_topic(cluster_a, unique_topic("narrow"), 3),
        create_topic(cluster_a, unique_topic("other")),
    )
    produce(cluster_a, topic, some(5), 0)
    produce(cluster_a, topic, some(5), 2)
    produce(cluster_a, other, some(5))
    create_topic(secure_cluster, f"A.{topic}", 1)
    allow_all_but_alter(secure_cluster, f"A.{topic}")
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    path = configure(
        tmp_path,
        {"A": cluster_a, "B": secure_cluster.address("SASL_PLAINTEXT")},
        ["A->B"],
        topics=f"{topic},{other}",
        heartbeats__replication__enabled="false",
        B__security__protocol="SASL_PLAINTEXT",
        B__sasl__mechanism="SCRAM-SHA-512",
        B__sasl__jaas__config=f'{login} username="alice" password="wonder land!";',
    )
    result = cycle(load(path).flows["A->B"])
    assert [(it.topic, it.code) for it in result.problems] == [(topic, "fewer-partitions")]
    assert result.problems[0].message == (
        f"A.{topic} on B has 1 partitions, {topic} on A has 3, and this user may not add any"
    )
    assert (result.state, result.records) == ("failed", 5)
    assert (read(secure_cluster, f"A.{topic}"), read(secure_cluster, f"A.{other}")) == ([], some(5))


def allow_all_but_alter(cluster: Any, topic: str) -> None:
    """Let alice do with a topic what copying needs, and wait until the broker knows."""
    operations = ("READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS")
    bindings = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:alice",
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.create_acls(bindings).values():
        future.result(10)
    time.sleep(0.5)


# --- nobody there --------------------------------------------------------------------------------------------


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_unreachable_clusters_are_said_within_half_a_minute(
    cluster_a: Any, silent: str, tmp_path: Path
) -> None:
    """A closed port, a host that stays silent, a name that does not exist, on either side: named, all at once."""
    nobodies = (f"127.0.0.1:{next(free_ports())}", silent, "no-such-host.invalid:9092")
    pairs = [(nobody, cluster_a) for nobody in nobodies] + [(cluster_a, nobody) for nobody in nobodies]
    flows = [flow_of(tmp_path, source, target, ["t"]) for source, target in pairs]
    started = time.monotonic()
    with ThreadPoolExecutor(len(flows)) as pool:
        errors = list(pool.map(refusal_of, flows))
    assert time.monotonic() - started < 30
    assert [error.message[: len("cluster A cannot be reached")] for error in errors] == [
        f"cluster {alias} cannot be reached" for alias in "AAABBB"
    ]


def refusal_of(flow: FlowSettings) -> ClusterUnreachable:
    with pytest.raises(ClusterUnreachable) as refused, open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
    return refused.value
