"""What is read once: by a gate, a cycle, `status` and an audit, counted on the clusters in memory."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from twinlog.audit import audit
from twinlog.cli.replication.cycle import Request, run_cycle
from twinlog.config.flow.values import NEVER
from twinlog.copying.result import CopyResult
from twinlog.cycle import begin, conclude
from twinlog.formats.ledger.topics import TopicPause
from twinlog.gate import ask as gate
from twinlog.gate.ask import GateRequest
from twinlog.judge.check import Mode
from twinlog.kafka_types import TopicPartition
from twinlog.lifecycle import sync_topics
from twinlog.lifecycle.sync_topics import as_left
from twinlog.monitoring import publish, status
from twinlog.monitoring.exporter import Board
from twinlog.state.ledger import write_ledger
from twinlog.steps import checkpoints, copy, discover, offset_syncs, plan_ranges, validate
from twinlog.topics import snapshot as snapshots
from twinlog.topics.snapshot import FlowSnapshot


@pytest.fixture
def reads(flow, clusters, target, monkeypatch):
    """`reads(act)` counts what `act` reads: discoveries, and each of the flow's state topics."""
    found: Counter[str] = Counter()
    read_source = snapshots.read_source

    def counted(*arguments: object) -> object:
        found["discovery"] += 1
        return read_source(*arguments)

    monkeypatch.setattr(snapshots, "read_source", counted)

    def count(act) -> tuple[int, int, int, int]:
        found.clear()
        target.topics_read.clear()
        act()
        names = flow.ledger_topic, flow.offset_map_topic, flow.offsets_topic
        return found["discovery"], *(target.topics_read[name] for name in names)

    return count


@pytest.fixture
def ran(flow, clusters, source, orders, copied):
    """Everything is copied, a group reads it, and a cycle is reported."""
    copied(orders, 0, 5)
    source.commit("billing", orders, 2)
    sync_topics.run(flow, clusters)
    publish.run(flow, clusters, "run-1", None, int(time.time() * 1000))


@pytest.mark.usefixtures("ran")
class TestReadOnce:
    """Discovery, ledger, map and progress, in this order."""

    @pytest.mark.parametrize("mode", Mode)
    def test_gate(self, flow, clusters, reads, mode):
        """Reads each once; with the source the ledger once more, before it watches the ends of what was copied."""

        def ask() -> None:
            gate.run(flow, clusters, GateRequest(mode), sleep=lambda _: None)

        alive = int(mode is Mode.PLANNED)
        assert (alive, 1 + alive, 1, 1) == reads(ask)

    def test_status(self, flow, clusters, reads):
        """Reads each once."""
        assert (1, 1, 1, 1) == reads(lambda: status.run(flow, clusters))

    @pytest.mark.parametrize(
        ("step", "discoveries"),
        [
            (discover.run, 1),
            (sync_topics.run, 1),
            (plan_ranges.run, 1),
            (offset_syncs.run, 0),
            (checkpoints.run, 1),
            (lambda *both: validate.run(*both, "run-2", copied=False), 1),
            (lambda *both: publish.run(*both, "run-2", None, 0), 1),
        ],
        ids=("discover", "sync_topics", "plan_ranges", "offset_syncs", "checkpoints", "validate", "publish"),
    )
    def test_step_by_itself(self, flow, clusters, source, reads, step, discoveries):
        """Discovers once at most, as a task of Airflow in its own process, even if it creates a topic."""
        source.add_topic("users")
        assert discoveries == reads(lambda: step(flow, clusters))[0]

    def test_idle_cycle(self, flow, clusters, reads):
        """Discovers before the copy and after it; lifecycle, rebuilds and duties read the ledger where it decides."""
        audited = replace(flow, audit=replace(flow.audit, schedule=NEVER))
        found = reads(lambda: run_cycle(audited, clusters, Request("run-2"), lambda: None, lambda _: None))
        assert (2, 1) == (found[0], found[2])
        assert found[1] <= 9

    def test_around_a_copy(self, flow, clusters, source, reads):
        """Discovers before it and after it, as a worker of Airflow does whose copy is a Spark job of its own."""
        source.add_topic("users")

        def around() -> None:
            assert begin(flow, clusters, None, None, hint="").synced.changes
            conclude(flow, clusters, "run-2", None, 0, Board(flow), print, failed=False)

        discoveries, _, maps, _ = reads(around)
        assert (2, 1) == (discoveries, maps)

    def test_cycle_that_copies(self, flow, clusters, source, target, orders, copied, reads, monkeypatch):
        """Creates a copy, copies, and discovers no more often: the copy takes the plan's snapshot."""
        source.add_topic("users")
        source.append(TopicPartition("users", 0), key=b"k", value=b"v", timestamp=1)
        given = []

        def copy_users(*_: object, snapshot: FlowSnapshot, **__: object) -> CopyResult:
            given.append(snapshot)
            copied(TopicPartition("users", 0), 0, 1)
            return CopyResult("A->B", "run-2", "done", 1, 2, 0.0, (), ())

        monkeypatch.setattr(copy, "run", copy_users)
        done = []
        audited = replace(flow, audit=replace(flow.audit, schedule=NEVER))
        found = reads(
            lambda: done.append(run_cycle(audited, clusters, Request("run-2"), lambda: None, lambda _: None))
        )
        assert (2, "done") == (found[0], done[0].state)
        assert ["orders", "users"] == [it.topic for it in given[0].discovery.ready_topics]


@pytest.mark.usefixtures("orders")
def test_audit_reads_ledger_and_map_again_after_the_ends_of_the_logs(flow, clusters, reads):
    """What was left out on purpose since progress was read must not look lost."""
    runner = SimpleNamespace(slots=1, run=lambda _: ())
    assert (1, 2, 2, 1) == reads(lambda: audit.run(flow, clusters, runner))


class TestSnapshot:
    """FlowSnapshot: lazy, read once, dated, renewed after changes of our own."""

    def test_a_part_is_read_when_it_is_asked_for(self, flow, clusters, reads):
        """The snapshot itself reads nothing."""
        assert (0, 0, 0, 0) == reads(lambda: FlowSnapshot(flow, clusters))
        assert (0, 1, 0, 1) == reads(
            lambda: [FlowSnapshot(flow, clusters).progress, FlowSnapshot(flow, clusters).ledger]
        )

    def test_it_stays_as_it_was_read(self, flow, clusters, source, orders):
        """Whatever is true by now: that is for those who hold the fence to read."""
        seen = FlowSnapshot(flow, clusters).read_state()
        before = seen.ledger, seen.discovery, seen.at_ms
        source.add_topic("users")
        write_ledger(flow, clusters.target, [TopicPause("orders", 1, "me", "tests")])
        assert before == (seen.ledger, seen.discovery, seen.at_ms)

    def test_it_is_dated_when_the_topics_were_read(self, flow, clusters, orders, monkeypatch):
        """Not when somebody asks for the date."""
        moments = iter([10, 20])
        monkeypatch.setattr("twinlog.clock.now_ms", lambda: next(moments))
        seen = FlowSnapshot(flow, clusters)
        assert ("orders", 10, 10) == (seen.discovery.topics[0].topic, seen.at_ms, seen.at_ms)

    def test_the_state_is_read_before_the_ends_of_the_logs(
        self, flow, clusters, orders, target, source, monkeypatch
    ):
        """Ledger, map, progress, and only then both clusters' topics."""
        order = []
        latest, offsets = target.latest_records, source.offsets
        monkeypatch.setattr(target, "latest_records", lambda topic: order.append(topic) or latest(topic))
        monkeypatch.setattr(source, "offsets", lambda which: order.append("ends") or offsets(which))
        assert FlowSnapshot(flow, clusters).read_state().discovery.topics
        assert [flow.ledger_topic, flow.offset_map_topic, flow.offsets_topic, "ends"] == order

    def test_own_changes_renew_all_but_the_source(self, flow, clusters, source, with_internal, reads):
        """The copy that was created is there, and where it begins; the source is not read again."""
        source.add_topic("users", 2)
        seen = FlowSnapshot(flow, clusters)
        assert seen.discovery.topics[0].remote is None
        done = sync_topics.run(flow, clusters, snapshot=seen)
        renewed = []
        assert 0 == reads(lambda: renewed.append(as_left(seen, done).discovery))[0]
        assert (2, [0, 0]) == (
            renewed[0].topics[0].remote.partitions,
            [it.begins for it in renewed[0].topics[0].partitions],
        )

    def test_without_changes_nothing_is_renewed(self, flow, clusters, orders):
        """The second cycle of a flow changes nothing."""
        sync_topics.run(flow, clusters)
        seen = FlowSnapshot(flow, clusters)
        assert as_left(seen, sync_topics.run(flow, clusters, snapshot=seen)) is seen
