"""Failover on real brokers, under load: records and groups are compared by identity.

Cost: about 90 s, of which the brokers take half.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ResourceType

from lab import (
    Seen,
    ThreadRunner,
    alter_configs,
    commit_group,
    configure,
    create_topic,
    cycle,
    delete_topic,
    produce,
    read_partitions,
)
from twinlog import clock
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.cli.main import main
from twinlog.cluster.admin.access_values import AclBinding
from twinlog.cluster.api import Cluster, open_clusters
from twinlog.config.flow.load import load
from twinlog.config.security.connection import ClusterSettings, ConnectionSettings
from twinlog.copying.ownership import Ownership
from twinlog.errors import TransientError, TwinlogError
from twinlog.gate.evidence import Seal
from twinlog.groups import checkpoints
from twinlog.jsonable import to_json
from twinlog.judge.check import Mode
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.monitoring import heartbeats, publish
from twinlog.recovery import failover
from twinlog.recovery.report import FailoverReport
from twinlog.recovery.steps.world import Answer, Request, Tools
from twinlog.state.ledger import read_ledger

PARTITIONS = 3
IMPORTS_BESIDE = Path(__file__).parents[1] / "support" / "imports_beside.py"
INTERNAL = 70


class Pair:
    """A flow between two clusters of its own, its file, and clients that work on both."""

    def __init__(self, folder: Path, source: Any, target: Any, user: str = "", **properties: str) -> None:
        self.source, self.target = source, target
        east, west = (f"{side}{uuid.uuid4().hex[:4]}" for side in ("east", "west"))
        clusters = {east: source, west: target}
        if user:
            plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
            clusters = {alias: it.address("SASL_PLAINTEXT") for alias, it in clusters.items()}
            properties |= {
                "security__protocol": "SASL_PLAINTEXT",
                "sasl__mechanism": "PLAIN",
                "sasl__jaas__config": f'{plain} required username="{user}" password="wonder";',
            }
        names = ("heartbeats", "checkpoints", "offset-syncs")
        self.file = configure(
            folder,
            clusters,
            [f"{east}->{west}"],
            **dict.fromkeys((f"{name}__topic__replication__factor" for name in names), "1"),
            **{
                "topics": "orders",
                "groups": "billing.*",
                "twinlog__gate__fence__seconds": "1",
                "twinlog__failover__wait__seconds": "30",
                "twinlog__gate__free__disk__percent": "0",
                "twinlog__reports__folder": str(folder / f"reports-{east}"),
                **properties,
            },
        )
        self.flow = next(iter(load(self.file).enabled_flows))
        self.remote = self.flow.policy.format_remote_topic(east, "orders")
        create_topic(source, "orders", PARTITIONS, retention_ms="604800000")

    def cycle(self) -> None:
        """Copy, pass groups on, report."""
        started = int(time.time() * 1000)
        with open_clusters(self.flow) as clusters:
            heartbeats.make_ready(self.flow, clusters.source)
        copied = cycle(self.flow)
        with open_clusters(self.flow) as clusters:
            checkpoints.run(self.flow, clusters)
            heartbeats.run(self.flow, clusters)
            publish.run(self.flow, clusters, uuid.uuid4().hex, to_json(copied), started)

    def audit(self) -> None:
        """Prove the copy equal."""
        with open_clusters(self.flow) as clusters:
            audit.run(self.flow, clusters, LocalAuditRunner())

    def fail_over(self, mode: Mode, asked: Callable[[str], Answer] = lambda _: Answer.YES) -> FailoverReport:
        """Fail over in this process, with lanes in threads."""
        tools = Tools(ThreadRunner, asked, time.sleep, Seal("mm2.properties", "sha"))
        with open_clusters(self.flow) as clusters:
            return failover.run(self.flow, clusters, Request("jo", mode), tools)

    def command(self, *words: str) -> tuple[int, dict]:
        """Run one command line in this process; its exit code and JSON document."""
        out = StringIO()
        with redirect_stdout(out):
            code = main([*words, "--config", str(self.file), "--output", "json"])
        return code, json.loads(out.getvalue())

    def command_beside(self, *words: str) -> tuple[int, dict, list[str]]:
        """Run one in its own process; its exit code, its document, and the modules that its threads have loaded."""
        words = (*words, "--config", str(self.file), "--output", "json")
        told = subprocess.run(
            [sys.executable, IMPORTS_BESIDE, *words], check=False, capture_output=True, text=True
        )
        return told.returncode, json.loads(told.stdout), json.loads(told.stderr.splitlines()[-1])


class Writer:
    """A producer that numbers its records and knows which of them were acknowledged."""

    def __init__(self, cluster: Any, topic: str, first: int = 0, pause: float = 0.002) -> None:
        self.acknowledged: set[int] = set()
        self._stop = Event()
        self._thread = Thread(target=self._write, args=(cluster, topic, first, pause), daemon=True)
        self._thread.start()

    def _write(self, cluster: Any, topic: str, first: int, pause: float) -> None:
        producer = Producer({
            "bootstrap.servers": cluster.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 2,
            "message.timeout.ms": 20_000,
        })
        for number in itertools.count(first):
            if self._stop.is_set():
                break
            try:
                producer.produce(
                    topic, value=b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered
                )
            except KafkaException:  # it is denied WRITE from now on
                break
            producer.poll(0)
            time.sleep(pause)
        producer.flush(1)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.add(int(message.value()))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class Reader:
    """A member of a group that notes what it reads and commits each batch behind it."""

    def __init__(self, cluster: Any, topic: str, group: str) -> None:
        self.read: list[int] = []
        self._stop = Event()
        self._thread = Thread(target=self._follow, args=(cluster, topic, group), daemon=True)
        self._thread.start()

    def _follow(self, cluster: Any, topic: str, group: str) -> None:
        consumer = Consumer({
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        })
        consumer.subscribe([topic])
        while not self._stop.is_set():
            messages = [it for it in consumer.consume(200, 0.2) if it.error() is None]
            if messages:
                consumer.commit(asynchronous=False)
                self.read += [int(it.value()) for it in messages]
        consumer.close()

    def wait_for(self, numbers: set[int]) -> None:
        """Wait until all of these were read, for half a minute at most."""
        deadline = time.monotonic() + 30
        while not numbers <= set(self.read) and time.monotonic() < deadline:
            time.sleep(0.1)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def start_again(cluster: Any) -> None:
    """Start a broker that was killed; on a busy machine it may not answer within its minute."""
    try:
        cluster.start()
    except TransientError:
        cluster.start()


def steps_of(report: FailoverReport) -> str:
    """The steps, a line for each, for a test that failed."""
    return "\n".join(f"{it.name} {it.state} {it.seconds} {it.message}" for it in report.steps)


def numbered(first: int, end: int) -> list[Seen]:
    """Return records with these numbers, of now."""
    return [Seen(b"k", b"%d" % number, int(time.time() * 1000)) for number in range(first, end)]


def numbers_in(cluster: Any, topic: str) -> list[int]:
    """Return the numbers that a topic holds, of all partitions."""
    found = read_partitions(cluster, topic, range(PARTITIONS))
    return sorted(int(seen.value) for rows in found.values() for _, seen in rows)


@pytest.fixture
def new_pair(cluster_b, tmp_path: Path) -> Iterator[Callable[..., Pair]]:
    """`new_pair(**properties)` is a pair with a source of its own, which may be killed."""
    from contextlib import ExitStack

    with ExitStack() as running:

        def make(**properties: str) -> Pair:
            source = running.enter_context(EmbeddedKafka("east", tmp_path / "kafka"))
            return Pair(tmp_path, source, cluster_b, **properties)

        yield make


def test_a_planned_failover_under_load_loses_nothing_and_reads_nothing_twice(new_pair) -> None:
    """Producer and consumer work on A until they are stopped; on B the group goes on at its first unread record."""
    pair = new_pair()
    writer, reader = Writer(pair.source, "orders"), Reader(pair.source, "orders", "billing")
    time.sleep(2)
    pair.cycle()
    pair.audit()
    code, dry = pair.command("failover", "--mode", "planned", "--dry-run")
    assert (0, "following", True) == (code, dry["state"], dry["dry_run"])
    assert {"planned"} == {step["state"] for step in dry["steps"]}

    Thread(target=lambda: (time.sleep(3), writer.stop())).start()
    report = pair.fail_over(Mode.PLANNED)
    assert "promoted" == report.state.value, steps_of(report)
    reader.stop()
    written = numbers_in(pair.source, "orders")
    assert writer.acknowledged <= set(written)
    assert written == numbers_in(pair.target, pair.remote)
    assert 0 == sum(part.at_risk_records for topic in report.topics for part in topic.partitions)
    assert [0] * PARTITIONS == [it.again for it in report.groups]

    beyond = Writer(pair.target, pair.remote, first=max(written) + 1)
    goes_on = Reader(pair.target, pair.remote, "billing")
    time.sleep(2)
    beyond.stop()
    goes_on.wait_for(beyond.acknowledged)
    goes_on.stop()
    assert sorted({*written, *beyond.acknowledged}) == sorted(reader.read + goes_on.read)

    before = numbers_in(pair.target, pair.remote)
    pair.cycle()
    assert before == numbers_in(pair.target, pair.remote)
    code, status = pair.command("status")
    assert (0, "promoted") == (code, status["flows"][0]["state"])


def test_a_source_killed_under_load(new_pair) -> None:
    """What is named as lost is what A's log alone holds; a group that was never synced begins at its checkpoint."""
    pair = new_pair()
    writer = Writer(pair.source, "orders")
    time.sleep(1.5)
    commit_group(pair.source, "billing", "orders", 40, 0)
    pair.cycle()
    pair.audit()
    time.sleep(0.5)
    pair.source.kill()
    time.sleep(0.5)
    writer.stop()
    code, dry = pair.command("failover", "--mode", "source-dead", "--dry-run")
    assert (0, "following") == (code, dry["state"])
    code, report = pair.command("failover", "--mode", "source-dead", "--yes")
    assert (0, "promoted") == (code, report["state"]), json.dumps(report["steps"], indent=1)
    assert {None} == {part["at_risk_records"] for part in report["topics"][0]["partitions"]}
    known = {part["partition"]: part["known"] for part in report["topics"][0]["partitions"]}
    code, again = pair.command("failover", "--mode", "source-dead", "--yes")
    assert (1, "promoted") == (code, again["error"]["code"])
    placed = {(it["group"], it["partition"]): it["downstream_offset"] for it in report["groups"]}
    with open_clusters(pair.flow) as clusters:
        there = clusters.target.committed_offsets(["billing"]).require()["billing"]
    mine = {it.partition: found.offset for it, found in there.items() if it.topic == pair.remote}
    assert placed == {("billing", number): offset for number, offset in mine.items()}

    start_again(pair.source)
    on_a, on_b = numbers_in(pair.source, "orders"), numbers_in(pair.target, pair.remote)
    code, status = pair.command("recovery", "status")
    left = {part["partition"]: part["at_risk_records"] for part in status["left_on_source"][0]["partitions"]}
    lost = sorted(set(on_a) - set(on_b))
    assert {number: sum(it % PARTITIONS == number for it in lost) for number in range(PARTITIONS)} == left
    assert all(known[number] <= left[number] for number in left)
    assert writer.acknowledged - set(on_b) <= set(lost)
    pair.cycle()
    assert on_b == numbers_in(pair.target, pair.remote)


@pytest.mark.spark
def test_times_that_no_calendar_holds_stop_nothing(new_pair) -> None:
    """A producer wrote microseconds for milliseconds, and the records between two such were lost."""
    pair = new_pair(twinlog__on__gap="record-and-continue")
    pair.cycle()
    for cluster, topic in ((pair.source, "orders"), (pair.target, pair.remote)):
        alter_configs(cluster, ResourceType.TOPIC, topic, message_timestamp_after_max_ms=str(2**62))
    at = int(time.time() * 1_000_000)
    produce(pair.source, "orders", [Seen(b"k", b"%d" % number, at) for number in range(3)])
    pair.cycle()
    produce(pair.source, "orders", [Seen(b"k", b"%d" % number, 2**61) for number in range(3, 9)])
    admin = AdminClient({"bootstrap.servers": pair.source.bootstrap_servers})
    for future in admin.delete_records([TopicPartition("orders", 0, 6)]).values():
        future.result()
    code, _ = pair.command("run", "--once")
    assert INTERNAL != code
    code, listed = pair.command("topics", "gaps")
    (gap,) = listed["gaps"]
    assert (3, 5, clock.iso(at), clock.iso(2**61)) == (
        gap["first_offset"],
        gap["last_offset"],
        gap["since"],
        gap["until"],
    ), listed
    pair.audit()
    for words in (("status",), ("gate",), ("gate", "--mode", "source-dead")):
        code, answer = pair.command(*words)
        assert INTERNAL != code, answer
    pair.source.kill()
    lost = ("accept", "no-gaps", "--for", "orders", "--partitions", "0", "--offset", "3")
    code, _ = pair.command(*lost, "--reason", "unread")
    assert 0 == code
    code, report = pair.command("failover", "--mode", "source-dead", "--yes")
    assert (0, "promoted") == (code, report["state"]), json.dumps(report["steps"], indent=1)


@pytest.mark.spark
def test_by_the_command_line(new_pair, tmp_path: Path) -> None:
    """Nobody is there to say yes, then `--yes`: the run goes on, clients are switched, the evidence is signed.

    No thread loads modules beside the main one: PySpark's import each other, and one half loaded ended a failover.
    """
    key, public = tmp_path / "key.pem", tmp_path / "pub.pem"
    for words in (
        ("genpkey", "-algorithm", "ed25519", "-out", key),
        ("pkey", "-in", key, "-pubout", "-out", public),
    ):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
    pair = new_pair(
        twinlog__failover__hook__file=str(tmp_path / "clients.yaml"), twinlog__gate__sign__with=str(key)
    )
    produce(pair.source, "orders", numbered(0, 20))
    commit_group(pair.source, "billing", "orders", 7)
    pair.cycle()
    pair.audit()
    produce(pair.source, "orders", numbered(20, 21))

    code, waits, beside = pair.command_beside("failover", "--mode", "planned")
    assert (1, "waiting", "waiting") == (code, waits["state"], state_of(waits, "approve")), waits["steps"]
    assert [] == beside
    code, report = pair.command("failover", "--mode", "planned", "--yes")
    assert (0, "promoted", waits["run"]) == (code, report["state"], report["run"]), report["steps"]
    assert list(range(21)) == numbers_in(pair.target, pair.remote)
    with open_clusters(pair.flow) as clusters:
        there = clusters.target.committed_offsets(["billing"]).require()["billing"]
    assert [7] == [it.offset for at, it in there.items() if at.topic == pair.remote]
    assert [("billing", 7, 7, 0)] == [
        (it["group"], it["upstream_offset"], it["downstream_offset"], it["again"]) for it in report["groups"]
    ]
    assert pair.target.bootstrap_servers in (tmp_path / "clients.yaml").read_text()
    code, history = pair.command("recovery", "status")
    assert ("promoted", 0) == (history["runs"][0]["state"], history["runs"][0]["rpo_seconds"])
    out = StringIO()
    with redirect_stdout(out):
        code = main(["evidence", "verify", report["evidence"], "--key", str(public), "--output", "json"])
    assert (0, True) == (code, json.loads(out.getvalue())["ready"])
    code, refused = pair.command("recovery", "abort", "--reason", "too late")
    assert (1, "promoted") == (code, refused["error"]["code"])
    code, follows = pair.command("recovery", "follow", "--reason", "clients are back", "--yes")
    assert (0, "returned") == (code, follows["state"])


def test_what_is_hidden_from_twinlog_is_never_nothing(tmp_path: Path) -> None:
    """Rights are taken away on either side, before a dry run and while a person is asked: no sum is 0, B no leader."""
    options: dict[str, Any] = {"listeners": ["SASL_PLAINTEXT"], "users": {"alice": "wonder"}}
    with (
        EmbeddedKafka("hideA", tmp_path / "a", **options) as a,
        EmbeddedKafka("hideB", tmp_path / "b", **options) as b,
    ):
        pair = Pair(tmp_path, a, b, user="alice", sync__topic__acls__enabled="false")
        may = AclBinding("TOPIC", "LITERAL", "orders", "User:*", "*", "ALL", "ALLOW")
        on_a, on_b = administrator(a), administrator(b)
        on_a.create_acls([may]).require()
        on_b.create_acls([replace(may, name=pair.remote)]).require()
        produce(a, "orders", numbered(0, 20), 1)
        pair.cycle()
        pair.audit()
        produce(a, "orders", numbered(70, 75), 1)

        def dry_without(cluster: Cluster, name: str, operation: str) -> tuple[int, dict]:
            denial = AclBinding("TOPIC", "LITERAL", name, "User:alice", "*", operation, "DENY")
            cluster.create_acls([denial]).require()
            found = pair.command("failover", "--mode", "planned", "--dry-run")
            cluster.delete_acls([denial]).require()
            return found

        hidden = (on_a, "orders", "READ"), (on_a, "orders", "DESCRIBE"), (on_b, pair.remote, "DESCRIBE")
        for cluster, name, operation in hidden:
            code, dry = dry_without(cluster, name, operation)
            (drain,) = (it["message"] for it in dry["steps"] if it["name"] == "drain")
            assert 0 == code and drain.startswith("at least 0 records are not on"), drain
            assert drain.endswith("of orders could not be looked at"), drain

        denial = AclBinding("TOPIC", "LITERAL", "orders", "User:alice", "*", "DESCRIBE", "DENY")

        def asked(_: str) -> Answer:
            produce(a, "orders", numbered(20, 70), 2)
            on_a.create_acls([denial]).require()
            return Answer.YES

        report = pair.fail_over(Mode.PLANNED, asked)
        assert "refused" == report.state.value, steps_of(report)
        assert "of orders could not be looked at" in steps_of(report)
        on_a.delete_acls([denial]).require()
        report = pair.fail_over(Mode.PLANNED)
        assert "promoted" == report.state.value, steps_of(report)
        assert list(range(75)) == numbers_in(b, pair.remote)


def test_a_group_that_would_skip_records(new_pair) -> None:
    """It was used on B once: it blocks until a person answers for it, and a consumer skips what was said."""
    pair = new_pair()
    produce(pair.source, "orders", numbered(0, 300))
    commit_group(pair.source, "billing", "orders", 100)
    pair.cycle()
    pair.audit()
    commit_group(pair.target, "billing", pair.remote, 250)
    skips = "group billing skips 150 records of orders-0"
    _, groups = pair.command("groups")
    (row,) = groups["flows"][0]["rows"]
    assert (150, False) == (row["records_skipped"], row["exact"])
    _, dry = pair.command("failover", "--mode", "planned", "--dry-run")
    assert skips in " ".join(it["message"] for it in dry["steps"])
    refused = pair.fail_over(Mode.PLANNED)
    assert "not ready, group-not-ahead" in steps_of(refused)
    words = ("accept", "group-not-ahead", "--for", "billing", "--reason", "it has read them there")
    assert 0 == pair.command(*words, "--up-to", "149")[0]
    assert "not ready, group-not-ahead" in steps_of(pair.fail_over(Mode.PLANNED))
    assert 0 == pair.command(*words, "--up-to", "150")[0]
    questions = []
    report = pair.fail_over(Mode.PLANNED, lambda it: questions.append(it) or Answer.YES)
    assert "promoted" == report.state.value, steps_of(report)
    assert skips in questions[0] and "0 of them exact" in steps_of(report)
    evidence = json.loads(Path(report.evidence).read_text())["payload"]["recovery"]
    assert [(0, 150)] == [(it["again"], it["skipped"]) for it in evidence["groups"]]
    reader = Reader(pair.target, pair.remote, "billing")
    reader.wait_for({299})
    reader.stop()
    assert list(range(250, 300)) == reader.read


def administrator(cluster: Any) -> Cluster:
    """Open a cluster as the user that may do everything."""
    host, port = cluster.bootstrap_servers.split(":")
    connection = ConnectionSettings("admin", ((host, int(port)),))
    return Cluster(ClusterSettings("admin", cluster.bootstrap_servers, connection))


def state_of(report: dict, step: str) -> str:
    """The state of one step of a JSON document."""
    return next(it["state"] for it in report["steps"] if it["name"] == step)


def test_a_second_operator_is_told_who_is_busy(new_pair) -> None:
    """He is not let in, in either mode, and what he asked for is not noted."""
    pair = new_pair()
    produce(pair.source, "orders", numbered(0, 20))
    pair.cycle()
    pair.audit()
    seen = []

    def asked(_: str) -> Answer:
        for mode in Mode:
            seen.append(pair.command("failover", "--mode", mode.value, "--yes"))
            _, status = pair.command("recovery", "status")
            seen.append(status)
        return Answer.YES

    report = pair.fail_over(Mode.PLANNED, asked)
    for (code, refused), status in zip(seen[::2], seen[1::2], strict=True):
        assert (1, "live-run") == (code, refused["error"]["code"])
        assert "jo" in refused["error"]["message"]
        assert "planned" == status["run"]["mode"]
    assert "promoted" == report.state.value, steps_of(report)


def test_a_ledger_that_is_gone_behind_the_fence_is_no_empty_one(new_pair, monkeypatch) -> None:
    """The flow is paused, and only the ledger says so: whoever finds it gone there changes nothing."""
    pair = new_pair()
    produce(pair.source, "orders", numbered(0, 20))
    pair.cycle()
    code, _ = pair.command("pause", "--reason", "a look")
    assert 0 == code
    took = Ownership.take

    def take(owned: Ownership, **terms: bool) -> Any:
        grant = took(owned, **terms)
        delete_topic(pair.target, pair.flow.ledger_topic)
        return grant

    monkeypatch.setattr(Ownership, "take", take)
    code, refused = pair.command("failover", "--mode", "source-dead", "--yes")
    assert (3, "unsettled") == (code, refused["error"]["code"])


def test_a_ledger_is_never_empty_after_a_restart_of_its_broker(tmp_path: Path, cluster_a) -> None:
    """Read from the first moment on: an error, or the pause that it holds."""
    with EmbeddedKafka("west", tmp_path / "kafka") as target:
        pair = Pair(tmp_path, cluster_a, target)
        pair.cycle()
        assert 0 == pair.command("pause", "--reason", "a look")[0]
        for _ in range(3):
            target.kill()
            back, found = Thread(target=start_again, args=(target,)), []
            back.start()
            while back.is_alive() or not found:
                try:
                    with open_clusters(pair.flow) as clusters:
                        found.append(read_ledger(pair.flow, clusters.target).phase.value)
                except TwinlogError:
                    continue
            back.join()
            assert {"paused"} == set(found)
