"""What a failover left behind, on real brokers: records are compared by identity.

Cost: two minutes on two busy cores; starting brokers, one of them twice, takes much of it.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from in_turn import in_turn
from java_clients import JavaReader
from test_failover import PARTITIONS, Pair, Reader, numbers_in, start_again, steps_of

from lab import (
    Seen,
    ThreadRunner,
    configure,
    create_topic,
    cycle,
    delete_topic,
    produce,
    produce_transaction,
    read_partitions,
    wait_until,
)
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.audit.request import AuditMode, AuditRequest
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.gate.evidence import Seal
from twinlog.groups import checkpoints
from twinlog.kafka_types import TopicPartition
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.monitoring import publish
from twinlog.recovery import failover
from twinlog.recovery.failback import export, failback, home
from twinlog.recovery.failback.home_steps import HOME
from twinlog.recovery.one_sided.read import opened_logs
from twinlog.recovery.procedure import Tail
from twinlog.recovery.report import FailbackReport
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps.world import LOOKING, Answer, Request, Tools
from twinlog.state.ledger import read_ledger, write_ledger

NOW = int(time.time() * 1000)


def seen(number: int) -> Seen:
    """A record that differs from its neighbours in every field; some have no key, some no value."""
    key = None if number % 5 == 0 else b"k%d" % number
    return Seen(key, b"%d" % number, NOW + number, (("h", b"%d" % number), ("h", None)))


def write(cluster, topic: str, numbers: range) -> None:
    for partition in range(PARTITIONS):
        produce(cluster, topic, [seen(it) for it in numbers if it % PARTITIONS == partition], partition)


def origin_of(record: Seen) -> tuple[str, int, int, Seen]:
    """Where an exported record was, and the record as it was there."""
    origin = {name: (value or b"").decode() for name, value in record.headers[-4:]}
    was = Seen(record.key, record.value, int(origin["twinlog.timestamp"]), record.headers[:-4])
    return origin["twinlog.topic"], int(origin["twinlog.partition"]), int(origin["twinlog.offset"]), was


def rows_of(path: str) -> list[tuple[int, Seen]]:
    return [
        (
            row["offset"],
            Seen(
                row["key"],
                row["value"],
                row["timestamp"],
                tuple((it["name"], it["value"]) for it in row["headers"]),
            ),
        )
        for row in pq.read_table(path).to_pylist()
    ]


def test_the_tail_of_a_lost_source_is_exported_once_and_exactly(
    cluster_b, tmp_path: Path, monkeypatch
) -> None:
    """The export dies half way and is run again: topic and files hold what the source's log alone holds, each once."""
    with EmbeddedKafka("east", tmp_path / "kafka") as source:
        pair = Pair(
            tmp_path, source, cluster_b, topics="orders,temp", heartbeats__replication__enabled="false"
        )
        write(source, "orders", range(300))
        produce(source, create_topic(source, "temp"), [seen(1)])
        pair.cycle()
        delete_topic(source, "temp")  # its owner wants that: it is not missed, and its copy stays
        pair.cycle()
        pair.audit()
        code, refused = pair.command("failback", "--save")
        assert (1, "not-promoted") == (code, refused["error"]["code"])
        write(source, "orders", range(300, 600))
        produce_transaction(source, "orders", [seen(900)], 0, commit=False)
        produce_transaction(source, "orders", [seen(603)], 0)
        wait_until(lambda: decided(pair))
        source.kill()
        code, report = pair.command("failover", "--mode", "source-dead", "--yes")
        assert (0, "promoted") == (code, report["state"]), json.dumps(report["steps"], indent=1)
        write(cluster_b, pair.remote, range(1000, 1031))
        left = pair.flow.policy.format_remote_topic(pair.flow.source.alias, "temp")
        produce(cluster_b, left, [seen(1031)])
        start_again(source)

        tail = {
            partition: [(offset, it) for offset, it in rows if int(it.value) >= 300]
            for partition, rows in read_partitions(source, "orders", range(PARTITIONS)).items()
        }
        strays = {
            partition: [(offset, it) for offset, it in rows if int(it.value) >= 1000]
            for partition, rows in read_partitions(cluster_b, pair.remote, range(PARTITIONS)).items()
        }
        code, dry = pair.command("failback", "--save", "--dry-run")
        assert (0, "promoted", 301, 32, 32) == (
            code,
            dry["state"],
            *(dry[it] for it in ("only_on_source", "only_on_target", "strayed")),
        )
        rows = dry["topics"][0]["partitions"]
        assert [len(tail[it]) for it in range(PARTITIONS)] == [it["at_risk_records"] for it in rows]
        assert [len(strays[it]) for it in range(PARTITIONS)] == [it["only_on_target_records"] for it in rows]

        monkeypatch.setattr(export, "CHUNK_BYTES", 500)
        dies_after(monkeypatch, 3)
        code, broken = pair.command("failback", "--save")
        monkeypatch.undo()
        assert (1, "failed") == (code, broken["state"])
        code, done = pair.command("failback", "--save")
        assert (0, "promoted") == (code, done["state"]), json.dumps(done["steps"], indent=1)
        (topic,) = done["tail_topics"]
        found = read_partitions(cluster_b, topic, range(PARTITIONS))
        expected = {
            number: [("orders", number, offset, it) for offset, it in rows] for number, rows in tail.items()
        }
        assert expected == {number: [origin_of(it) for _, it in rows] for number, rows in found.items()}
        files = {(it["topic"], it["partition"]): rows_of(it["path"]) for it in done["files"]}
        assert {("orders", it): tail[it] for it in tail} | {
            (pair.remote, it): strays[it] for it in strays
        } == {it: files[it] for it in files if it != (left, 0)}
        assert [seen(1031)] == [it for _, it in files[left, 0]]
        assert Path(done["evidence"]).exists()

        produce(source, "orders", [seen(1500)], 1)
        code, more = pair.command("failback", "--save")
        assert (0, 302, 302) == (code, more["only_on_source"], len(numbers_in(cluster_b, topic)))


def decided(pair: Pair) -> bool:
    """The markers of all transactions are in the logs of the source: a coordinator answers before it writes them."""
    places = [TopicPartition("orders", number) for number in range(PARTITIONS)]
    with open_clusters(pair.flow) as clusters:
        ends = clusters.source.offsets(places).found
    return len(ends) == PARTITIONS and all(it.end == it.stable_end for it in ends.values())


def dies_after(monkeypatch: pytest.MonkeyPatch, chunks: int) -> None:
    """Let the process lose its last transaction, right after so many chunks were committed."""
    real, count = export._one_chunk, iter(range(chunks))

    def one(*args: object) -> int:
        if next(count, None) is None:
            raise export.TerminalError("killed", code="killed")
        return real(*args)

    monkeypatch.setattr(export, "_one_chunk", one)


def test_what_the_reverse_flow_brought_home_is_no_tail(cluster_a, cluster_b, tmp_path: Path) -> None:
    """Both ways with unchanged names: records from the target are not exported, and what is not home yet is counted."""
    left, right = (f"{it}{uuid.uuid4().hex[:5]}" for it in "AB")
    topic = f"home-{left}"
    for cluster in (cluster_a, cluster_b):
        create_topic(cluster, topic)
    file = configure(
        tmp_path,
        {left: cluster_a, right: cluster_b},
        [f"{left}->{right}", f"{right}->{left}"],
        topics=topic,
        heartbeats__replication__enabled="false",
        replication__policy__class="org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        twinlog__reports__folder=str(tmp_path),
    )
    flows = load(file).flows
    there, back = flows[f"{left}->{right}"], flows[f"{right}->{left}"]
    produce(cluster_a, topic, [seen(it) for it in range(10)])
    cycle(there)
    with open_clusters(there) as clusters:
        write_ledger(there, clusters.target, [FlowState(FlowPhase.PROMOTED, NOW, "jo", "failover")])
    produce(cluster_b, topic, [seen(it) for it in range(100, 120)])
    cycle(back)
    produce(cluster_a, topic, [seen(it) for it in range(10, 13)])
    produce(cluster_b, topic, [seen(it) for it in range(120, 124)])

    tools = replace(LOOKING, seal=Seal("mm2.properties", "sha"))
    with open_clusters(there) as clusters, opened_logs(there) as read:
        report = failback.run(there, clusters, Request("jo"), tools, read, back)
    assert ("promoted", 3, 4, 0) == (
        report.state.value,
        report.only_on_source,
        report.only_on_target,
        report.strayed,
    ), report.steps
    assert [seen(it).value for it in (10, 11, 12)] == [
        it.value for rows in read_partitions(cluster_b, report.tail_topics[0], [0]).values() for _, it in rows
    ]


class BothWays:
    """Two flows with unchanged names between the clusters of all tests, of one topic and one group."""

    def __init__(self, folder: Path, left: EmbeddedKafka, right: EmbeddedKafka) -> None:
        a, b = (f"{it}{uuid.uuid4().hex[:5]}" for it in "AB")
        self.left, self.right = left, right
        self.topic, self.group = f"home-{a}", f"billing-{a}"
        for cluster in (left, right):
            create_topic(cluster, self.topic, PARTITIONS)
        self.file = configure(
            folder,
            {a: left, b: right},
            [f"{a}->{b}", f"{b}->{a}"],
            topics=self.topic,
            groups=self.group,
            heartbeats__replication__enabled="false",
            replication__policy__class="org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            twinlog__gate__fence__seconds="1",
            twinlog__failover__wait__seconds="30",
            twinlog__gate__free__disk__percent="0",
            twinlog__reports__folder=str(folder),
        )
        flows = load(self.file).flows
        self.there, self.back = flows[f"{a}->{b}"], flows[f"{b}->{a}"]

    def cycle(self, flow: FlowSettings) -> int:
        """Copy, pass groups on, report, audit; return how many records were copied."""
        started = int(time.time() * 1000)
        copied = cycle(flow)
        with open_clusters(flow) as clusters:
            checkpoints.run(flow, clusters)
            publish.run(flow, clusters, uuid.uuid4().hex, None, started)
            audit.run(flow, clusters, LocalAuditRunner())
        return copied.records

    def tools(self, answer: Answer) -> Tools:
        """Lanes in threads, and this answer."""
        return Tools(ThreadRunner, lambda _: answer, time.sleep, Seal("mm2.properties", "sha"))

    def fail_over(self) -> None:
        """Promote the right side, as planned; no group reads a record again."""
        request = Request("jo")
        with open_clusters(self.there) as clusters, open_clusters(self.back) as back:
            tools = replace(self.tools(Answer.YES), reverse=Way(self.back, back))
            report = failover.run(self.there, clusters, request, tools)
        assert "promoted" == report.state.value, steps_of(report)
        assert [0] * PARTITIONS == [it.again for it in report.groups]

    def home(self, answer: Answer = Answer.YES, tail: Tail | None = None, **changes: bool) -> FailbackReport:
        """Go home, or go on with that."""
        request = Request("jo", tail=tail, **changes)
        with (
            open_clusters(self.there) as there,
            open_clusters(self.back) as back,
            opened_logs(self.there) as read,
        ):
            ways = Way(self.there, there), Way(self.back, back)
            return home.run(*ways, request, self.tools(answer), read)

    def phases(self) -> tuple[FlowPhase, FlowPhase]:
        """The states of both flows."""
        with open_clusters(self.there) as there, open_clusters(self.back) as back:
            return (
                read_ledger(self.there, there.target).phase,
                read_ledger(self.back, back.target).phase,
            )


@pytest.mark.parametrize("reader", [Reader, *in_turn(JavaReader)])
def test_the_way_home_loses_nothing_and_reads_nothing_twice(
    cluster_a, cluster_b, tmp_path: Path, reader: type
) -> None:
    """Over, work on B by producers and a group, home: each record is on both sides once, and was read once."""
    world = BothWays(tmp_path, cluster_a, cluster_b)
    topic = world.topic
    write(cluster_a, topic, range(60))
    for flow in (world.there, world.back):
        world.cycle(flow)
    with pytest.raises(TerminalError, match="failback before failover"):
        world.home()
    write(cluster_a, topic, range(60, 70))  # no cycle comes before the failover
    on_a = reader(cluster_a, topic, world.group)
    on_a.wait_for(set(range(70)))
    on_a.stop()
    world.fail_over()

    on_b = reader(cluster_b, topic, world.group)
    write(cluster_b, topic, range(1000, 1100))
    on_b.wait_for(set(range(1000, 1100)))
    write(cluster_a, topic, range(70, 75))  # nobody denies it here: clients that were not switched
    dry = world.home(dry_run=True)
    assert ("promoted", 5, 100) == (dry.state.value, dry.only_on_source, dry.only_on_target), steps_of(dry)
    waits = world.home()
    assert ("waiting", "bring-home") == (waits.state.value, ended_at(waits)), steps_of(waits)
    assert (FlowPhase.FAILING_BACK, FlowPhase.FAILING_OVER) == world.phases()
    assert 0 == world.cycle(world.back)
    no = world.home(Answer.NO, Tail.KEEP)
    assert ("refused", "approve") == (no.state.value, ended_at(no)), steps_of(no)
    on_b.stop()
    write(cluster_b, topic, range(1100, 1110))
    report = world.home(tail=Tail.KEEP)
    assert "following" == report.state.value, steps_of(report)
    assert [it.name for it in HOME] == [it.name for it in report.steps]
    assert (FlowPhase.ACTIVE, FlowPhase.ACTIVE) == world.phases()
    assert [0] * PARTITIONS == [it.again for it in report.groups]
    assert 5 == sum(it.records for it in report.exported)

    every = sorted([*range(75), *range(1000, 1110)])
    assert every == numbers_in(cluster_a, topic) == numbers_in(cluster_b, topic)
    home_again = reader(cluster_a, topic, world.group)
    write(cluster_a, topic, range(75, 80))
    home_again.wait_for({*range(75, 80), *range(1100, 1110)})
    home_again.stop()
    assert sorted([*every, *range(75, 80)]) == sorted(on_a.read + on_b.read + home_again.read)
    assert (5, 0) == (world.cycle(world.there), world.cycle(world.back))
    assert numbers_in(cluster_a, topic) == numbers_in(cluster_b, topic)
    with open_clusters(world.there) as there, open_clusters(world.back) as back:
        verdicts = [
            audit.run(flow, clusters, LocalAuditRunner(), AuditRequest(AuditMode.FULL))
            for flow, clusters in ((world.there, there), (world.back, back))
        ]
    assert [True, True] == [it.equal for it in verdicts], verdicts


def ended_at(report: FailbackReport) -> str:
    """The step that went no further."""
    return next(it.name.value for it in report.steps if it.state.value in {"failed", "waiting"})
