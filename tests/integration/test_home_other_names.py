"""The way home with MM2's default names, on real brokers: records are compared by identity, and each read is noted."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from threading import Thread

import pytest
from java_clients import JavaReader, JavaWriter
from test_failback import ended_at, seen, write
from test_failover import PARTITIONS, Reader, Writer, numbers_in, start_again, steps_of

from lab import (
    ThreadRunner,
    commit_group,
    configure,
    create_topic,
    cycle,
    grow_topic,
    produce,
    read_partitions,
)
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.audit.request import AuditMode, AuditRequest
from twinlog.cli.main import main
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.gate.evidence import Seal
from twinlog.groups import checkpoints
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.monitoring import publish
from twinlog.recovery import failover
from twinlog.recovery.failback import home
from twinlog.recovery.failback.home_steps import HOME
from twinlog.recovery.one_sided.read import opened_logs
from twinlog.recovery.procedure import Tail
from twinlog.recovery.report import FailbackReport
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps.world import Answer, Request, Tools
from twinlog.recovery.ways_home import way_home
from twinlog.state.ledger import read_ledger


class Pair:
    """A flow with MM2's names between the clusters of all tests, of one topic and one group."""

    def __init__(self, folder: Path, left: EmbeddedKafka, right: EmbeddedKafka, **more: str) -> None:
        a, b = (f"{it}{uuid.uuid4().hex[:5]}" for it in "AB")
        self.left, self.right = left, right
        self.topic, self.copy, self.group = f"orders-{a}", f"{a}.orders-{a}", f"billing-{a}"
        create_topic(left, self.topic, PARTITIONS)
        self.file = configure(
            folder,
            {a: left, b: right},
            [f"{a}->{b}"],
            **{
                "topics": self.topic,
                "groups": self.group,
                "heartbeats__replication__enabled": "false",
                "twinlog__gate__fence__seconds": "1",
                "twinlog__failover__wait__seconds": "30",
                "twinlog__gate__free__disk__percent": "0",
                "twinlog__reports__folder": str(folder),
                **more,
            },
        )
        self.names = f"{a}->{b}", f"{b}->{a}"
        self.take(self.file)

    def take(self, file: Path) -> None:
        """Work with the flows of this file."""
        self.file, self.configuration = file, load(file)
        self.there, self.usual = (self.configuration.flows[it] for it in self.names)

    def cycle(self, flow: FlowSettings | None = None) -> int:
        """Copy, pass groups on, report, audit; return how many records were copied."""
        chosen, started = flow or self.there, int(time.time() * 1000)
        copied = cycle(chosen)
        with open_clusters(chosen) as clusters:
            checkpoints.run(chosen, clusters)
            publish.run(chosen, clusters, uuid.uuid4().hex, None, started)
            audit.run(chosen, clusters, LocalAuditRunner())
        return copied.records

    def tools(self, answer: Answer) -> Tools:
        """Lanes in threads, and this answer."""
        return Tools(ThreadRunner, lambda _: answer, time.sleep, Seal("mm2.properties", "sha"))

    def fail_over(self) -> None:
        """Promote the right side, as planned; no group reads a record again."""
        with open_clusters(self.there) as clusters:
            request = Request("jo")
            report = failover.run(self.there, clusters, request, self.tools(Answer.YES))
        assert "promoted" == report.state.value, steps_of(report)
        assert {0} >= {it.again for it in report.groups}, report.groups

    def home(self, answer: Answer = Answer.YES, tail: Tail | None = None, **changes: bool) -> FailbackReport:
        """Go home, or go on with that."""
        back = way_home(self.configuration, self.there)
        with (
            open_clusters(self.there) as there,
            open_clusters(back) as clusters,
            opened_logs(self.there) as read,
        ):
            ways = Way(self.there, there), Way(back, clusters)
            return home.run(*ways, Request("jo", tail=tail, **changes), self.tools(answer), read)

    def phase(self) -> FlowPhase:
        """The state of the flow."""
        with open_clusters(self.there) as there:
            return read_ledger(self.there, there.target).phase

    def both(self) -> tuple[list[int], list[int]]:
        """What both sides hold."""
        return numbers_in(self.left, self.topic), numbers_in(self.right, self.copy)

    def equal(self) -> bool:
        """Say whether an audit of everything finds the copy equal."""
        with open_clusters(self.there) as clusters:
            found = audit.run(self.there, clusters, LocalAuditRunner(), AuditRequest(AuditMode.FULL))
        assert found.equal, found
        return found.equal


def test_the_way_home_with_other_names_loses_nothing_and_reads_nothing_twice(
    cluster_a, cluster_b, tmp_path: Path
) -> None:
    """Over, work on `A.orders` by producers and a group, home, over, home: each record is on both sides once."""
    pair = Pair(tmp_path, cluster_a, cluster_b)
    write(cluster_a, pair.topic, range(60))
    pair.cycle()
    with pytest.raises(TerminalError, match="failback before failover"):
        pair.home()
    write(cluster_a, pair.topic, range(60, 70))
    on_a = Reader(cluster_a, pair.topic, pair.group)
    on_a.wait_for(set(range(70)))
    on_a.stop()
    pair.fail_over()

    on_b = Reader(cluster_b, pair.copy, pair.group)
    write(cluster_b, pair.copy, range(1000, 1100))
    on_b.wait_for(set(range(1000, 1100)))
    assert pair.equal()  # what clients write behind the copies is theirs
    dry = pair.home(dry_run=True)
    assert ("promoted", 0, 100, 0) == (
        dry.state.value,
        dry.only_on_source,
        dry.only_on_target,
        dry.strayed,
    ), steps_of(dry)
    no = pair.home(Answer.NO)
    assert ("refused", "approve") == (no.state.value, ended_at(no)), steps_of(no)
    assert FlowPhase.FAILING_BACK is pair.phase()
    on_b.stop()
    write(cluster_b, pair.copy, range(1100, 1110))
    report = pair.home()
    assert "following" == report.state.value, steps_of(report)
    assert [it.name for it in HOME] == [it.name for it in report.steps]
    assert FlowPhase.ACTIVE is pair.phase()
    assert [0] * PARTITIONS == [it.again for it in report.groups]

    every = sorted([*range(70), *range(1000, 1110)])
    assert (every, every) == pair.both()
    home_again = Reader(cluster_a, pair.topic, pair.group)
    write(cluster_a, pair.topic, range(75, 80))
    home_again.wait_for({*range(75, 80), *range(1100, 1110)})
    home_again.stop()
    every = sorted([*every, *range(75, 80)])
    assert every == sorted(on_a.read + on_b.read + home_again.read)
    assert 5 == pair.cycle()
    assert 0 == pair.cycle()
    assert (every, every) == pair.both()
    assert pair.equal()


@pytest.mark.long
def test_partitions_and_groups_that_are_new_on_the_target_come_home_too(
    cluster_a, cluster_b, tmp_path: Path
) -> None:
    """A partition that somebody added there, a group that began there, and one that has not read on since."""
    pair = Pair(tmp_path, cluster_a, cluster_b, groups=".*")
    idle, fresh = f"idle-{pair.group}", f"fresh-{pair.group}"
    write(cluster_a, pair.topic, range(30))
    for number in range(PARTITIONS):
        commit_group(cluster_a, idle, pair.topic, 5, number)
    pair.cycle()
    pair.fail_over()
    grow_topic(cluster_b, pair.copy, PARTITIONS + 1)
    write(cluster_b, pair.copy, range(1000, 1030))
    produce(cluster_b, pair.copy, [seen(it) for it in range(2000, 2007)], PARTITIONS)
    began = Reader(cluster_b, pair.copy, fresh)
    began.wait_for({*range(30), *range(1000, 1030), *range(2000, 2007)})
    began.stop()
    report = pair.home()
    assert "following" == report.state.value, steps_of(report)
    found = read_partitions(cluster_a, pair.topic, [PARTITIONS])
    assert list(range(2000, 2007)) == [int(it.value) for _, it in found[PARTITIONS]]
    on_a, behind = Reader(cluster_a, pair.topic, fresh), Reader(cluster_a, pair.topic, idle)
    write(cluster_a, pair.topic, range(30, 36))
    unread = {*range(15, 36), *range(1000, 1030), *range(2000, 2007)}
    behind.wait_for(unread)
    on_a.wait_for(set(range(30, 36)))
    on_a.stop()
    behind.stop()
    assert (sorted(unread), list(range(30, 36))) == (sorted(behind.read), sorted(on_a.read))
    pair.cycle()
    assert 0 == pair.cycle()
    assert pair.equal()


@pytest.mark.long
@pytest.mark.parametrize(
    ("writer", "reader"), [(Writer, Reader), (JavaWriter, JavaReader)], ids=["librdkafka", "java"]
)
def test_over_and_home_under_load_again_and_again(
    cluster_a, cluster_b, tmp_path: Path, writer: type, reader: type
) -> None:
    """Producers and a group work where clients are, and `B->A` follows: nothing is lost, doubled or read twice."""
    pair = Pair(tmp_path, cluster_a, cluster_b)
    invoices = pair.topic.replace("orders", "invoices")
    create_topic(cluster_b, invoices, PARTITIONS)
    both = configure(
        tmp_path,
        {
            it.alias: cluster
            for it, cluster in ((pair.there.source, cluster_a), (pair.there.target, cluster_b))
        },
        [pair.there.name, pair.usual.name],
        topics=f"{pair.topic},{pair.copy},{invoices}",
        groups=pair.group,
        heartbeats__replication__enabled="false",
        sync__group__offsets__enabled="true",
        twinlog__gate__fence__seconds="1",
        twinlog__failover__wait__seconds="60",
        twinlog__gate__free__disk__percent="0",
        twinlog__reports__folder=str(tmp_path),
    )
    pair.take(both)
    on_a, on_b = (cluster_a, pair.topic), (cluster_b, pair.copy)
    read: list[int] = []
    acknowledged: set[int] = set()

    def work(place: tuple[EmbeddedKafka, str], first: int, move: Callable[[], None]) -> None:
        producer, consumer = writer(*place, first), reader(*place, pair.group)
        time.sleep(2)
        pair.cycle(pair.usual)
        pair.cycle()
        Thread(target=lambda: (time.sleep(3), producer.stop())).start()
        move()
        consumer.stop()
        acknowledged.update(producer.acknowledged)
        read.extend(consumer.read)

    def home() -> None:
        report = pair.home()
        assert "following" == report.state.value, steps_of(report)
        assert {0} == {it.again for it in report.groups}, report.groups

    for number in range(2):
        work(on_a, number * 2_000_000, pair.fail_over)
        write(cluster_b, invoices, range(number * 10, number * 10 + 10))
        work(on_b, number * 2_000_000 + 1_000_000, home)
    for flow in (pair.there, pair.usual):
        pair.cycle(flow)
        assert 0 == pair.cycle(flow)
    left, right = pair.both()
    assert (len(set(left)), left) == (len(left), right)
    assert acknowledged <= set(left)
    assert left == sorted(read)
    assert list(range(20)) == numbers_in(cluster_a, f"{pair.there.target.alias}.{invoices}")
    assert pair.equal()


@pytest.mark.long
def test_the_command_line_knows_the_way_home(cluster_a, cluster_b, tmp_path: Path) -> None:
    """A dry run by the command, what is accepted for the gate of the way home, and its status."""
    pair = Pair(tmp_path, cluster_a, cluster_b)
    write(cluster_a, pair.topic, range(10))
    pair.cycle()
    pair.fail_over()
    write(cluster_b, pair.copy, range(100, 107))
    code, found = command(pair, "failback", "--dry-run")
    assert (0, 0, 7, 0) == (code, found["only_on_source"], found["only_on_target"], found["strayed"])
    name = f"{pair.there.target.alias}.home->{pair.there.source.alias}"
    words = "accept", "free-disk", "--up-to", "9", "--reason", "a lab", "--until", "1h", "--flow", name
    assert "refused" == pair.home(Answer.NO).state.value
    assert 0 == command(pair, *words)[0]
    code, seen = command(pair, "status", "--flow", name, "--flow", pair.there.name)
    assert (0, [name, pair.there.name]) == (code, [it["flow"] for it in seen["flows"]])
    assert [(pair.copy, pair.topic, 0)] == [
        (it["topic"], it["remote_topic"], it["lag_records"]) for it in seen["flows"][0]["topics"]
    ]
    code, done = command(pair, "recovery", "abort", "--reason", "not today")
    assert (0, "promoted") == (code, done["state"])


def command(pair: Pair, *words: str) -> tuple[int, dict]:
    """Run one command line in this process; its exit code and JSON document."""
    out = StringIO()
    with redirect_stdout(out):
        code = main([*words, "--config", str(pair.file), "--output", "json"])
    return code, json.loads(out.getvalue() or "{}")


@pytest.mark.long
def test_b_is_killed_on_the_way_home(cluster_a, tmp_path: Path) -> None:
    """A is promoted by the command line alone; what B alone has is known, and is exported once B is back."""
    with EmbeddedKafka("west", tmp_path / "kafka") as right:
        pair = Pair(tmp_path, cluster_a, right)
        home_again = f"{pair.there.target.alias}.home->{pair.there.source.alias}"
        write(cluster_a, pair.topic, range(60))
        on_a = Reader(cluster_a, pair.topic, pair.group)
        on_a.wait_for(set(range(60)))
        on_a.stop()
        pair.cycle()
        code, refused = command(pair, "failover", "--mode", "source-dead", "--flow", home_again, "--dry-run")
        assert (1, "no-failover") == (code, refused["error"]["code"])
        pair.fail_over()
        write(right, pair.copy, range(1000, 1040))
        on_b = Reader(right, pair.copy, pair.group)
        on_b.wait_for(set(range(1000, 1040)))
        on_b.stop()
        assert "refused" == pair.home(Answer.NO).state.value
        write(right, pair.copy, range(1040, 1063))
        right.kill()

        code, lost = command(pair, "failback", "--yes")
        assert (3, True) == (code, home_again in lost["error"]["hint"]), lost
        words = "failover", "--mode", "source-dead", "--flow", home_again
        code, dry = command(pair, *words, "--dry-run")
        assert (0, "waiting") == (code, dry["state"]), dry
        code, done = command(pair, *words, "--yes")
        assert (0, "promoted") == (code, done["state"]), json.dumps(done, indent=1)
        came = numbers_in(cluster_a, pair.topic)
        assert sorted([*range(60), *range(1000, 1040)]) == came
        reader = Reader(cluster_a, pair.topic, pair.group)
        write(cluster_a, pair.topic, range(100, 110))
        reader.wait_for(set(range(100, 110)))
        reader.stop()
        assert not set(reader.read) & set(range(1000, 1040))
        code, status = command(pair, "recovery", "status", "--flow", home_again)
        assert (0, "promoted") == (code, status["state"])

        start_again(right)
        code, saved = command(pair, "failback", "--save", "--flow", home_again)
        assert (0, 23) == (code, saved["only_on_source"]), saved
        for flow in (pair.there.name, home_again):
            code, done = command(pair, "recovery", "follow", "--yes", "--reason", "B is back", "--flow", flow)
            assert (0, "returned") == (code, done["state"]), done
        assert 10 == pair.cycle()
        left, there = pair.both()
        assert sorted({*left, *range(1040, 1063)}) == there
        pair.fail_over()  # its audit knows that somebody answers for what never came home


@pytest.mark.long
def test_b_is_lost_before_a_way_home_has_begun(cluster_a, tmp_path: Path) -> None:
    """Clients go back to A by hand; once B is back, the way home puts what they wrote there behind what A has since."""
    with EmbeddedKafka("west", tmp_path / "kafka") as right:
        pair = Pair(tmp_path, cluster_a, right)
        home_again = f"{pair.there.target.alias}.home->{pair.there.source.alias}"
        write(cluster_a, pair.topic, range(60))
        on_a = Reader(cluster_a, pair.topic, pair.group)
        on_a.wait_for(set(range(60)))
        on_a.stop()
        pair.cycle()
        pair.fail_over()
        write(right, pair.copy, range(1000, 1040))
        on_b = Reader(right, pair.copy, pair.group)
        on_b.wait_for(set(range(1000, 1040)))
        on_b.stop()
        right.kill()

        code, refused = command(pair, "failover", "--mode", "source-dead", "--flow", home_again, "--yes")
        assert (1, "no-failover") == (code, refused["error"]["code"]), refused
        write(cluster_a, pair.topic, range(60, 90))
        since = Reader(cluster_a, pair.topic, pair.group)
        since.wait_for(set(range(60, 90)))
        since.stop()
        assert list(range(60, 90)) == sorted(since.read)

        start_again(right)
        report = pair.home()
        assert ("waiting", "bring-home") == (report.state.value, ended_at(report)), steps_of(report)
        report = pair.home(tail=Tail.KEEP)
        assert "following" == report.state.value, steps_of(report)
        every = sorted([*range(90), *range(1000, 1040)])
        assert (every, every) == pair.both()
        assert 40 == sum(it.again for it in report.groups)  # A does not know what the group has read on B
        again = Reader(cluster_a, pair.topic, pair.group)
        write(cluster_a, pair.topic, range(90, 96))
        again.wait_for(set(range(90, 96)))
        again.stop()
        assert [*range(90, 96), *range(1000, 1040)] == sorted(again.read)
        pair.cycle()
        assert 0 == pair.cycle()
        every = sorted([*every, *range(90, 96)])
        assert (every, every) == pair.both()
        assert pair.equal()
        pair.fail_over()
