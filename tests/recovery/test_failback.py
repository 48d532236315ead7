"""What a failover left behind is exported once, whoever is killed or comes in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recovery_world import COPY, ORDERS, Blows, Killed, World

from twinlog.audit.comparison.record_fields import RawRecord
from twinlog.batches.record import record_rest
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, ClusterUnreachable, ExitCode, FencedError, TerminalError
from twinlog.formats.ledger.audit import Unproved
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.recovery import StepState, TailExported
from twinlog.formats.ledger.topics import Incarnation
from twinlog.formats.ledger.writers import FlowClaim
from twinlog.formats.map.offset_map import MapKey, encode_map_key
from twinlog.gate.accepting import accept
from twinlog.gate.evidence import Seal
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.state_records import StateRecord
from twinlog.logs.partition_reader import Lost
from twinlog.policy.selection import NameFilter
from twinlog.recovery import abort
from twinlog.recovery.failback import export, failback
from twinlog.recovery.one_sided.read import Side, Stretch
from twinlog.recovery.report import FailbackReport, State
from twinlog.recovery.steps.world import LOOKING, Request
from twinlog.state.ledger import read_ledger, write_ledger

LEFT = TopicPartition("A.temp", 0)
TAIL = TopicPartition("mm2-tail.A.orders.internal", 0)


class Aftermath:
    """A flow that was failed over; clients wrote to both sides since."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.world.fail_over()
        self.between: list[Callable[[], object]] = []
        self.write(7)
        for number in range(4):
            world.clusters.target.append(COPY, key=b"b", value=b"%d" % number)

    def write(self, count: int) -> None:
        """Write to the source, which the flow does not copy any more."""
        for number in range(count):
            self.world.clusters.source.append(
                ORDERS, key=b"%d" % number if number % 2 else None, value=b"tail", timestamp=number
            )

    def read(self, stretch: Stretch, start: int) -> Iterator[RawRecord | Lost]:
        """Read from memory; something may happen before each record."""
        cluster = self.world.clusters.source if stretch.side is Side.SOURCE else self.world.clusters.target
        for it in cluster.topics[stretch.topic].logs[stretch.partition].read_from(start, read_committed=True):
            if self.between:
                self.between.pop(0)()
            if it.offset < stretch.end and not any(known.has(it.offset) for known in stretch.flows):
                yield RawRecord(it.offset, it.timestamp, bytes(record_rest(it.key, it.value)))

    def fail_back(self, **changes: object) -> FailbackReport:
        """Fail back as a process of its own."""
        tools = replace(LOOKING, seal=Seal("mm2.properties", "sha"))
        request = replace(Request("jo"), **changes)
        return failback.run(self.world.flow, self.world.watched, request, tools, self.read)

    @property
    def tail(self) -> list[tuple[bytes, bytes | None]]:
        """What the source alone has: offset and value."""
        records = self.world.clusters.source.topics["orders"].logs[0].records
        return [(b"%d" % it.offset, it.value) for it in records if it.value == b"tail"]

    @property
    def exported(self) -> list[bytes | None]:
        """The values of the tail's topic, in order."""
        topic = self.world.clusters.target.topics.get(TAIL.topic)
        return [it.value for it in topic.logs[0].records] if topic is not None else []


@pytest.fixture
def make_aftermath(
    make_world: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Aftermath]:
    monkeypatch.setattr(export, "CHUNK_BYTES", 10)
    monkeypatch.setattr(export, "PAUSE_SECONDS", 0)

    def make() -> Aftermath:
        world = make_world()
        found = Aftermath(world)
        fences = [0]

        def taken(*_: object) -> SimpleNamespace:
            fences[0] += 1
            mine = fences[0]

            def write(records: list[StateRecord]) -> None:
                if mine != fences[0]:
                    raise FencedError("another twinlog runs this flow")
                world.blows.change("fence", lambda: [append(world, it) for it in records])

            return SimpleNamespace(write=write)

        monkeypatch.setattr(export, "Ownership", SimpleNamespace(taken=taken))
        return found

    return make


def append(world: World, record: StateRecord) -> None:
    world.clusters.target.append(
        TopicPartition(record.topic, record.partition), key=record.key, value=record.value
    )


@pytest.fixture
def aftermath(make_aftermath: Callable[[], Aftermath]) -> Aftermath:
    return make_aftermath()


def steps_of(report: FailbackReport) -> dict[str, StepState]:
    return {it.name.value: it.state for it in report.steps}


def test_a_dry_run_counts_and_changes_nothing(aftermath: Aftermath) -> None:
    """Both sides are counted, by partition; no cluster is changed, no file is written."""
    aftermath.world.blows = Blows()
    report = aftermath.fail_back(dry_run=True)
    assert (State.PROMOTED, 7, 4, 4) == (
        report.state,
        report.only_on_source,
        report.only_on_target,
        report.strayed,
    )
    (row,) = report.topics[0].partitions
    assert (5, 12, 7, 5, 9, 4) == (
        row.upstream_from,
        row.upstream_end,
        row.at_risk_records,
        row.downstream_from,
        row.downstream_end,
        row.only_on_target_records,
    )
    assert [] == aftermath.world.blows.names
    assert [StepState.DONE, *[StepState.PLANNED] * 3] == list(steps_of(report).values())


@pytest.mark.parametrize("copy_stays", [True, False])
def test_a_topic_that_neither_side_has_is_no_part_of_it(aftermath: Aftermath, copy_stays: bool) -> None:
    """If its copy is left, clients may have written to it: then the comparison is not in full, and says what to do."""
    source, target = aftermath.world.clusters.source, aftermath.world.clusters.target
    life = Incarnation("gone", "id", 1, "A.gone", source_cluster_id="cluster-A")
    write_ledger(aftermath.world.flow, target, [life])
    aftermath.world.flow = replace(aftermath.world.flow, topics=NameFilter(("orders", "gone")))
    if copy_stays:
        target.add_topic("A.gone")
    assert "gone" not in source.topics
    report = aftermath.fail_back(dry_run=True)
    (compared,) = (it for it in report.steps if it.name.value == "compare")
    assert (StepState.FAILED if copy_stays else StepState.DONE) is compared.state
    assert copy_stays == (
        "not in full: topic gone is gone from A; to leave it out, add it to A->B.topics.exclude"
        in compared.message
    )
    assert copy_stays == compared.message.startswith("at least 7 records are on A alone")
    assert (None if copy_stays else 7) == report.only_on_source


def test_a_yes_to_save_is_for_one_run_of_a_dag(aftermath: Aftermath) -> None:
    """Its name comes from the ledger; a name that the flow does not know as an approver is not written there."""
    flow, target = aftermath.world.flow, aftermath.world.clusters.target
    accept(flow, target, [failback.yes_to_save("ann", "failback/monday")])
    assert "ann" == failback.approver_of(flow, target, "failback/monday")
    with pytest.raises(TerminalError, match="nobody has approved"):
        failback.approver_of(flow, target, "failback/tuesday")
    only = replace(flow, failover=replace(flow.failover, approvers=("jo",)))
    with pytest.raises(TerminalError, match="ann may not say yes"):
        accept(only, target, [failback.yes_to_save("ann", "failback/tuesday")])


def test_heartbeats_are_no_tail(aftermath: Aftermath) -> None:
    """The reverse flow goes on writing them to the source: nobody has to decide about them."""
    aftermath.world.flow = replace(aftermath.world.flow, heartbeats_replication=True)
    source = aftermath.world.clusters.source
    source.add_topic("heartbeats")
    source.append(TopicPartition("heartbeats", 0), key=b"k", value=b"beat", timestamp=1)
    report = aftermath.fail_back(dry_run=True)
    assert (7, ["orders"]) == (report.only_on_source, [it.topic for it in report.topics])


def test_topic_files_and_evidence_hold_the_tail(aftermath: Aftermath) -> None:
    """Many transactions, one file; what was written on the target is in a file of its own."""
    report = aftermath.fail_back()
    assert {StepState.DONE} == set(steps_of(report).values()), report.steps
    assert [b"tail"] * 7 == aftermath.exported
    rows = {it.topic: pq.read_table(it.path).to_pylist() for it in report.files}
    files = [Path(it.path) for it in report.files]
    assert {(0o600, 0o700)} == {(it.stat().st_mode & 0o777, it.parent.stat().st_mode & 0o777) for it in files}
    assert list(range(5, 12)) == [it["offset"] for it in rows["orders"]]
    assert list(range(5, 9)) == [it["offset"] for it in rows["A.orders"]]
    assert Path(report.evidence).exists()
    assert (7, 5, 12) == (
        report.exported[0].records,
        report.exported[0].first,
        report.exported[0].next_offset,
    )


def test_killed_after_any_change(make_aftermath: Callable[[], Aftermath]) -> None:
    """Another process ends it: each record is exported once, and the files are whole."""
    first = make_aftermath()
    first.world.blows = Blows()
    first.fail_back()
    count = first.world.blows.count
    assert count > 3
    for at in range(1, count + 1):
        it = make_aftermath()
        it.world.blows = Blows(at)
        with pytest.raises(Killed):
            it.fail_back()
        it.world.blows = Blows()
        report = it.fail_back()
        assert State.PROMOTED is report.state, report.steps
        assert [value for _, value in it.tail] == it.exported
        assert [7, 4] == [file.records for file in report.files]


def test_two_operators_at_once(aftermath: Aftermath) -> None:
    """The second one does all of it while the first one reads; the first finds that nothing is left."""
    aftermath.between = [lambda: None] * 15 + [aftermath.fail_back]
    report = aftermath.fail_back()
    assert State.PROMOTED is report.state, report.steps
    assert [b"tail"] * 7 == aftermath.exported


def test_what_came_since_is_exported_next(aftermath: Aftermath) -> None:
    """Clients that still write to the source: the next run exports only what is new."""
    aftermath.fail_back()
    aftermath.write(3)
    report = aftermath.fail_back()
    assert (10, 10) == (report.only_on_source, len(aftermath.exported))
    assert (10, 5, 15) == (
        report.exported[0].records,
        report.exported[0].first,
        report.exported[0].next_offset,
    )


def test_before_a_failover_and_after_the_return(aftermath: Aftermath) -> None:
    """A flow that follows is refused in one line, with nothing changed."""
    abort.follow(aftermath.world.flow, aftermath.world.clusters, by="jo", reason="home")
    aftermath.world.blows = Blows()
    with pytest.raises(TerminalError, match="failback before failover") as refused:
        aftermath.fail_back()
    assert "not-promoted" == refused.value.code
    assert [] == aftermath.world.blows.names


def test_another_cluster_in_the_sources_place(aftermath: Aftermath) -> None:
    """A source with another id is refused: its records are not those of the flow."""
    claim = FlowClaim("A->B", "cluster-A", "cluster-B", 1)
    write_ledger(aftermath.world.flow, aftermath.world.clusters.target, [claim])
    assert State.PROMOTED is aftermath.fail_back(dry_run=True).state
    aftermath.world.clusters.source._cluster_id = "stranger"
    with pytest.raises(TerminalError) as refused:
        aftermath.fail_back(dry_run=True)
    assert "source-changed" == refused.value.code


def test_a_source_that_does_not_answer(aftermath: Aftermath) -> None:
    """It says to wait for it."""
    aftermath.world.lose_source()
    with pytest.raises(ClusterUnreachable, match="is away") as away:
        aftermath.fail_back()
    assert "run it again once A is back" == away.value.hint


def test_the_source_dies_again_in_the_middle(aftermath: Aftermath) -> None:
    """What was committed counts; the next run goes on behind it."""

    def die() -> None:
        raise ClusterUnreachable("cluster A is away", cluster="A")

    aftermath.between = [lambda: None] * 17 + [die] * 40
    report = aftermath.fail_back()
    assert (State.FAILED, StepState.FAILED) == (report.state, steps_of(report)["export-tail"])
    assert ExitCode.CLUSTER is report.exit_code
    assert 0 < len(aftermath.exported) < 7
    aftermath.between = []
    assert State.PROMOTED is aftermath.fail_back().state
    assert [b"tail"] * 7 == aftermath.exported


def test_the_flow_follows_again_in_the_middle(aftermath: Aftermath) -> None:
    """Behind the fence it is seen that the flow is not promoted any more: nothing is written."""

    def follow() -> None:
        state = FlowState(FlowPhase.ACTIVE, 1, "ann", "home")
        write_ledger(aftermath.world.flow, aftermath.world.clusters.target, [state])

    aftermath.between = [lambda: None] * 6 + [follow]
    report = aftermath.fail_back()
    assert StepState.FAILED is steps_of(report)["export-tail"]
    assert [] == aftermath.exported


def test_records_that_the_source_has_deleted_since(aftermath: Aftermath) -> None:
    """The topic keeps them; no smaller file takes the place of the whole one, and the step says so."""
    whole = aftermath.fail_back().files[0]
    aftermath.world.clusters.source.delete_records(ORDERS, 8)
    report = aftermath.fail_back()
    assert (State.FAILED, StepState.FAILED) == (report.state, steps_of(report)["write-files"])
    assert 7 == pq.read_table(whole.path).num_rows
    assert 3 == report.topics[0].partitions[0].expired_offsets


def test_an_open_transaction_is_not_passed_over(aftermath: Aftermath) -> None:
    """What is undecided is named, and the command does not call itself done."""
    aftermath.world.clusters.source.topics["orders"].logs[0].undecided = 2
    report = aftermath.fail_back()
    assert (State.FAILED, 5) == (report.state, len(aftermath.exported))
    assert any("open transaction" in it for it in report.notes)


def test_a_folder_that_cannot_be_written_to(aftermath: Aftermath, tmp_path: Path) -> None:
    """The topics hold the tail all the same, and the step says what to do."""
    (tmp_path / "file").write_text("")
    gate = replace(aftermath.world.flow.gate, reports=tmp_path / "file")
    aftermath.world.flow = replace(aftermath.world.flow, gate=gate)
    report = aftermath.fail_back()
    assert StepState.FAILED is steps_of(report)["write-files"]
    assert [b"tail"] * 7 == aftermath.exported


@given(
    offsets=st.sets(st.integers(0, 60)),
    lost=st.sets(st.integers(0, 60)),
    sizes=st.lists(st.integers(1, 200), min_size=1),
)
def test_chunks_of_any_size_hold_each_record_once(
    base_flow: FlowSettings, offsets: set[int], lost: set[int], sizes: list[int]
) -> None:
    """In order, to the end, and the count is that of the records; what cannot be read holds nothing up."""
    tails = [Stretch(Side.SOURCE, "orders", "id", number, 10, 50) for number in (0, 1)]

    def read(stretch: Stretch, start: int) -> Iterator[RawRecord | Lost]:
        for offset in sorted(offsets | lost):
            if start <= offset < stretch.end:
                if offset in lost:
                    yield Lost(offset, offset + 1, Unproved.UNREADABLE)
                else:
                    yield RawRecord(offset, offset, bytes(record_rest(b"k", b"%d" % offset)))

    notes: dict[int, TailExported] = {}
    found: dict[int, list[int]] = {0: [], 1: []}
    turn = 0
    while export.left(tails, notes.values()):
        records, noted = export.chunk(
            base_flow, tails, notes.values(), "r", read, 1, sizes[turn % len(sizes)]
        )
        assert noted
        for it in records:
            found[it.partition].append(int(it.value or b""))
        notes |= {it.partition: it for it in noted}
        turn += 1
    expected = sorted(it for it in offsets - lost if 10 <= it < 50)
    assert {0: expected, 1: expected} == found
    assert [len(expected)] * 2 == [notes[it].records for it in (0, 1)]


def test_the_run_of_a_flow_promoted_by_hand(flow: FlowSettings, aftermath: Aftermath) -> None:
    """A new failover begins a new count: notes of an earlier one are not of it."""
    aftermath.fail_back()
    state = FlowState(FlowPhase.PROMOTED, 99, "jo", "again")
    clusters: Clusters = aftermath.world.clusters
    write_ledger(aftermath.world.flow, clusters.target, [state])
    tails = [Stretch(Side.SOURCE, "orders", clusters.source.topics["orders"].topic_id, 0, 5, 12)]
    ledger = read_ledger(aftermath.world.flow, clusters.target)
    assert "promoted-99" == export.require_promoted(flow, ledger)
    assert () == export.of_run(ledger, "promoted-99", tails)


class TestLeftBehind:
    """A topic that the flow copied before, and does not any more."""

    @pytest.fixture
    def with_temp(self, world: World) -> World:
        """The flow copies `temp`, too."""
        world.clusters.source.add_topic("temp")
        world.cycle()
        return world

    def aftermath(self, world: World) -> Aftermath:
        """The flow was failed over; clients wrote three records to the copy of `temp`."""
        found = Aftermath(world)
        for number in range(3):
            world.clusters.target.append(LEFT, key=None, value=b"%d" % number)
        return found

    def dry(self, found: Aftermath) -> FailbackReport:
        return found.fail_back(dry_run=True)

    @pytest.mark.parametrize("left_out", [False, True], ids=["deleted", "left-out"])
    def test_its_copy_is_looked_at_and_stops_nothing(self, with_temp: World, left_out: bool):
        """Records that clients wrote there are counted, and stay; nobody misses the topic itself."""
        world = with_temp
        if left_out:
            world.flow = replace(world.flow, topics=NameFilter(("orders",)))
        else:
            del world.clusters.source.topics["temp"]
            world.cycle()
        report = self.dry(self.aftermath(world))
        assert (State.PROMOTED, 7, 4 + 3, 4 + 3) == (
            report.state,
            report.only_on_source,
            report.only_on_target,
            report.strayed,
        )
        assert [("A.orders", 4), ("A.temp", 3)] == [
            (it.remote_topic, it.partitions[0].only_on_target_records) for it in report.topics
        ]
        assert "what clients wrote to A.temp stays on B: the flow has left temp behind" in report.notes

    def test_a_copy_that_is_gone_as_well_is_not_missed(self, with_temp: World):
        """Its topic was seen deleted before the failover."""
        del with_temp.clusters.source.topics["temp"]
        with_temp.cycle()
        del with_temp.clusters.target.topics["A.temp"]
        report = self.dry(Aftermath(with_temp))
        assert (State.PROMOTED, ["orders"]) == (report.state, [it.topic for it in report.topics])

    def test_a_topic_that_is_gone_since_the_failover_is_missed(self, with_temp: World):
        """The source may have lost it: clients cannot go back to what is not there."""
        found = self.aftermath(with_temp)
        del with_temp.clusters.source.topics["temp"]
        report = self.dry(found)
        assert (State.FAILED, ExitCode.SAYS_NO) == (report.state, report.exit_code)
        assert "topic temp is gone from A; to leave it out, add it to A->B.topics.exclude" in report.notes

    def test_a_topic_that_is_gone_can_be_left_out(self, with_temp: World):
        """That is the way home if it was lost with the source."""
        found = self.aftermath(with_temp)
        del with_temp.clusters.source.topics["temp"]
        with_temp.flow = replace(with_temp.flow, topics=NameFilter(("orders",)))
        assert (State.PROMOTED, 4 + 3) == ((report := self.dry(found)).state, report.strayed)

    @pytest.mark.parametrize("verb", ["describe_topics", "offsets"])
    def test_a_copy_that_cannot_be_looked_at_is_named_and_stops_nothing(self, with_temp: World, verb: str):
        """It stays where it is, whatever it holds."""
        del with_temp.clusters.source.topics["temp"]
        with_temp.cycle()
        found = self.aftermath(with_temp)
        with_temp.clusters.target.refuse(verb, "A.temp", ClusterRefused("not allowed", code="unauthorised"))
        report = self.dry(found)
        why = "A.temp stays on B, and what clients wrote there is not known: not allowed"
        assert (State.PROMOTED, True) == (report.state, why in report.notes)

    def test_a_copy_that_was_created_again_is_not_the_flows(self, with_temp: World):
        """Its records belong to its new owner."""
        del with_temp.clusters.source.topics["temp"]
        with_temp.cycle()
        del with_temp.clusters.target.topics["A.temp"]
        with_temp.clusters.target.add_topic("A.temp")
        report = self.dry(self.aftermath(with_temp))
        assert ["orders"] == [it.topic for it in report.topics]

    def test_a_map_of_it_that_cannot_be_read_stops_nothing(self, with_temp: World):
        """Where its copies end is not known, and is said."""
        world = with_temp
        key = encode_map_key(MapKey("temp", world.clusters.source.topics["temp"].topic_id, 0, 0))
        del world.clusters.source.topics["temp"]
        world.cycle()
        found = self.aftermath(world)
        world.clusters.target.append(TopicPartition(world.flow.offset_map_topic, 0), key=key, value=b"?")
        report = self.dry(found)
        named = any(
            "A.temp stays on B, and what clients wrote there is not known" in it for it in report.notes
        )
        assert (State.PROMOTED, True) == (report.state, named)

    def test_its_records_are_in_files(self, with_temp: World):
        """As what clients wrote to other copies that no flow brings home."""
        del with_temp.clusters.source.topics["temp"]
        with_temp.cycle()
        report = self.aftermath(with_temp).fail_back()
        assert [3] == [it.records for it in report.files if it.topic == "A.temp"]
