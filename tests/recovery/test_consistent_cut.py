"""A failover whose source is lost places groups before the consistent cut, or waits and says why there is none."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from recovery_world import COPY, ORDERS, Blows, Killed, World, new_world, replace_what_needs_brokers

from twinlog.audit.comparison.record_fields import RawRecord
from twinlog.cluster.admin.groups import GroupState
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.settings import FlowSettings
from twinlog.cut import read
from twinlog.cut.plan import NoCut
from twinlog.errors import UsageError
from twinlog.formats.ledger.records import FlowPhase, LaneFence
from twinlog.formats.ledger.topics import DeletedTopic, Incarnation
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.formats.mm2.connect_offset import offset_value, source_offset_key
from twinlog.formats.transactions import PARTITION, Event, EventKind, Look, Seen, parse
from twinlog.gate.suites.suites import Mode
from twinlog.kafka_types import TopicPartition
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.recovery.report import FailoverReport, State
from twinlog.recovery.steps import consistent_cut
from twinlog.recovery.steps.consistent_cut import OPTION, FoundCut, read_cut
from twinlog.recovery.steps.scene import Answer
from twinlog.state.ledger import read_ledger, write_ledger

RECORDING = "run/1"


def note(world: World, *records: Seen | Look) -> None:
    """Write what lanes and drivers note."""
    target = world.clusters.target
    target.produce(world.flow.transactions_topic, [InternalRecord(it.key(), it.value()) for it in records])


def topic_id(world: World) -> str:
    return world.clusters.source.topics["orders"].topic_id


def look(world: World, end: int, at_ms: int = 1_000) -> Look:
    return Look(RECORDING, at_ms, {"orders": topic_id(world)}, {ORDERS: end}, {ORDERS: end})


def torn(world: World) -> None:
    """Offsets 2 and 4 of five are of a transaction whose marker no look has seen."""
    events = Event(2, 7, 0, EventKind.BEGAN), Event(4, 7, 0, EventKind.COMMITTED)
    note(
        world,
        look(world, 0, 1_000),
        look(world, 3, 2_000),
        Seen("orders", topic_id(world), 0, RECORDING, 0, 5, events),
    )


def lose_copy(world: World, *, recreated: bool) -> None:
    """A person deletes A.orders on the target."""
    target = world.clusters.target
    del target.topics[COPY.topic]
    if recreated:
        target.add_topic(COPY.topic)


@pytest.fixture
def make_world(flow: FlowSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], World]:
    """`make_world()` has copied five records, of which `billing` has read three, and lost its source."""

    def make() -> World:
        noting = replace(flow, copy=replace(flow.copy, consistent_cut=True))
        made = new_world(noting, tmp_path)
        replace_what_needs_brokers(made, monkeypatch)
        target = made.clusters.target

        def records(flow, place, start, end):
            log = target.topics[place.topic].logs[PARTITION].records
            return (parse(it.key, it.value) for it in log if start <= it.offset < end)

        @contextmanager
        def opened(_):
            def reading(stretch, start):
                log = target.topics[stretch.topic].logs[stretch.partition].records
                return (
                    RawRecord(it.offset, it.timestamp, b"\x02k\x02v\x00") for it in log if it.offset >= start
                )

            yield reading

        monkeypatch.setattr(read, "_records", records)
        monkeypatch.setattr(consistent_cut, "opened_logs", opened)
        made.cycle()
        made.audit()
        write_ledger(made.flow, target, [LaneFence("run", 1, 1, RECORDING)])
        made.lose_source()
        return made

    return make


@pytest.fixture
def world(make_world: Callable[[], World]) -> World:
    return make_world()


def fail_over(world: World, **changes) -> FailoverReport:
    return world.fail_over(Mode.SOURCE_DEAD, **{"consistent_cut": True, **changes})


def message(report: FailoverReport, step: str = "consistent-cut") -> str:
    return next(it.message for it in report.steps if it.name.value == step)


def there(world: World, group: str = "billing") -> int:
    return world.clusters.target.committed_offsets([group]).found[group][COPY].offset


def test_groups_go_on_before_the_cut(world: World) -> None:
    """What lies behind it is counted by partition, named, and in a file."""
    torn(world)
    report = fail_over(world)
    assert State.PROMOTED is report.state, report.steps
    assert 2 == there(world)
    assert [("billing", 3, 2)] == [
        (it.group, it.upstream_offset, it.downstream_offset) for it in report.groups
    ]
    (row,) = report.topics[0].partitions
    assert (2, 2, 3) == (row.cut_upstream, row.cut_downstream, row.behind_cut)
    assert report.cut is not None
    assert (2_000, 1, 3, [3]) == (
        report.cut.as_of_ms,
        report.cut.transactions,
        report.cut.records,
        [it.records for it in report.cut.files],
    )
    assert "3 records of 1 partitions lie behind the cut" in message(report)
    assert "groups go on before the consistent cut as of" in world.questions[0]
    assert read_ledger(world.flow, world.clusters.target).recoveries[0].consistent_cut


def test_a_group_that_group_sync_had_put_behind_the_cut_goes_back_to_it(world: World) -> None:
    """Unless it works there: then the failover waits."""
    torn(world)
    target = world.clusters.target
    target.commit("billing", COPY, 3)
    listed = target.groups
    target.groups = lambda: [replace(it, state=GroupState.STABLE) for it in listed()]
    report = fail_over(world)
    assert (State.WAITING, 3) == (report.state, there(world))
    assert "it has members on B, and stands at 3 instead of 2" in message(report, "groups")
    target.groups = listed
    assert State.PROMOTED is fail_over(world).state
    assert 2 == there(world)


def test_a_group_that_stands_before_the_cut_stays(world: World) -> None:
    """A cut moves nobody on."""
    torn(world)
    note(world, look(world, 5, 3_000))
    report = fail_over(world)
    assert (State.PROMOTED, 3) == (report.state, there(world))
    assert report.cut is not None
    assert (0, 0, ()) == (report.cut.records, report.cut.transactions, report.cut.files)


def test_without_a_cut_it_waits_and_goes_on_without_the_option(world: World) -> None:
    """Nothing was noted: no look, so nothing tells what was copied whole."""
    report = fail_over(world)
    assert State.WAITING is report.state
    assert "no consistent cut: no look at the source was noted yet that counts" in message(report)
    again = fail_over(world, consistent_cut=None)
    assert State.WAITING is again.state, "the failover under way goes on as it began"
    done = fail_over(world, consistent_cut=False)
    assert (State.PROMOTED, 3, None) == (done.state, there(world), done.cut)


def test_of_two_places_for_groups_the_one_asked_for_last_counts(world: World) -> None:
    """A failover under way goes on with it."""
    now = int(time.time() * 1000)
    assert State.WAITING is fail_over(world).state
    run = read_ledger(world.flow, world.clusters.target).recoveries[0]
    world.fail_over(Mode.SOURCE_DEAD, Answer.NOBODY, groups_at_ms=now)
    changed = read_ledger(world.flow, world.clusters.target).recoveries[0]
    assert (run.run, now, False) == (changed.run, changed.groups_at_ms, changed.consistent_cut)
    fail_over(world)
    changed = read_ledger(world.flow, world.clusters.target).recoveries[0]
    assert (run.run, None, True) == (changed.run, changed.groups_at_ms, changed.consistent_cut)


def test_a_dry_run_shows_it_and_changes_nothing(world: World) -> None:
    """With the places of groups, and without files."""
    torn(world)
    world.blows = Blows()
    report = fail_over(world, dry_run=True)
    assert "3 records of 1 partitions lie behind the cut" in message(report)
    assert [("billing", 2)] == [(it.group, it.downstream_offset) for it in report.groups]
    assert report.cut is not None
    assert (3, ()) == (report.cut.records, report.cut.files)
    assert "--consistent-cut" in report.next
    assert 0 == world.blows.count


def test_killed_at_every_change_it_goes_on_to_the_same_end(make_world: Callable[[], World]) -> None:
    """The next command needs no option: the run knows it."""
    for at in range(1, 100):
        world = make_world()
        torn(world)
        world.blows = Blows(at)
        try:
            fail_over(world)
        except Killed:
            world.blows = Blows()
            ledger = read_ledger(world.flow, world.clusters.target)
            begun = bool(ledger.recoveries)
            if not begun or not ledger.recoveries[-1].cleared:
                again = fail_over(world, by="ann", consistent_cut=None if begun else True)
                assert State.PROMOTED is again.state, again.steps
        else:
            assert at > len(world.blows.names)
            break
        phase = read_ledger(world.flow, world.clusters.target).phase
        assert (2, FlowPhase.PROMOTED) == (there(world), phase)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"mode": Mode.PLANNED}, "a planned failover loses nothing"),
        ({"groups_at_ms": 1}, "both say where groups go on"),
    ],
)
def test_what_makes_no_sense_is_refused_and_begins_nothing(world: World, changes: dict, why: str) -> None:
    """In one line that names the option."""
    mode = changes.pop("mode", Mode.SOURCE_DEAD)
    for dry_run in (False, True):
        with pytest.raises(UsageError, match=f"{OPTION}.*{why}"):
            world.fail_over(mode, consistent_cut=True, dry_run=dry_run, **changes)
    assert FlowPhase.ACTIVE is read_ledger(world.flow, world.clusters.target).phase


def test_it_has_to_be_on_while_records_are_copied(world: World) -> None:
    """And it is too late once the target is promoted."""
    torn(world)
    usual = world.flow
    world.flow = replace(usual, copy=replace(usual.copy, consistent_cut=False))
    with pytest.raises(UsageError, match=r"twinlog\.consistent\.cut is off"):
        fail_over(world)
    assert State.PROMOTED is fail_over(world, consistent_cut=None).state
    world.flow = usual
    with pytest.raises(UsageError, match="is promoted"):
        fail_over(world)


def test_a_recording_that_another_driver_broke_off_tells_nothing(world: World) -> None:
    """Something was copied of which nothing was noted."""
    torn(world)
    target = world.clusters.target
    assert isinstance(read_cut(world.flow, target, read_ledger(world.flow, target)), FoundCut)
    write_ledger(world.flow, target, [LaneFence("run", 1, 2, "")])
    found = read_cut(world.flow, target, read_ledger(world.flow, target))
    assert "no run of the flow has noted transactions" == found.reason
    write_ledger(world.flow, target, [LaneFence("run", 1, 3, "run/3")])
    found = read_cut(world.flow, target, read_ledger(world.flow, target))
    assert "no look at the source was noted yet that counts" == found.reason


@pytest.mark.parametrize("recreated", [False, True])
def test_without_the_copy_of_a_topic_that_was_still_copied_there_is_no_cut(
    world: World, recreated: bool
) -> None:
    """Records of transactions are gone with it, so no transaction is known to be whole."""
    torn(world)
    lose_copy(world, recreated=recreated)
    report = fail_over(world)
    assert State.WAITING is report.state
    assert "no consistent cut: A.orders, the copy of orders, was deleted, or created again" in message(report)


def test_the_copy_of_a_topic_that_is_not_copied_any_more_may_be_gone(world: World) -> None:
    """It was left out of the flow, and then deleted: the cut is that of the others."""
    torn(world)
    note(world, Look(RECORDING, 3_000, {}, {}, {}))
    lose_copy(world, recreated=False)
    found = read_cut(world.flow, world.clusters.target, read_ledger(world.flow, world.clusters.target))
    assert FoundCut((), 3_000, 1) == found


def test_a_topic_of_which_nothing_was_copied_yet_has_no_place(world: World) -> None:
    """A look has seen it, empty, and the driver died before its copy was made."""
    torn(world)
    new = TopicPartition("new", 0)
    seen = look(world, 3, 3_000)
    note(
        world,
        replace(
            seen,
            topic_ids={**seen.topic_ids, "new": "new-id"},
            before={**seen.before, new: 0},
            after={**seen.after, new: 0},
        ),
    )
    found = read_cut(world.flow, world.clusters.target, read_ledger(world.flow, world.clusters.target))
    assert isinstance(found, FoundCut)
    assert {COPY: 2} == found.limits


TEMP = TopicPartition("temp", 0)


@pytest.mark.parametrize("copy_deleted", [False, True])
def test_looks_count_that_saw_a_topic_that_was_deleted_since(
    make_world: Callable[[], World], copy_deleted: bool
) -> None:
    """It was copied as far as they saw it, and then deleted on the source, and perhaps on the target."""
    world = make_world()
    flow, target = world.flow, world.clusters.target
    target.add_topic("A.temp")
    for _ in range(2):
        target.append(TopicPartition("A.temp", 0), key=None, value=b"v")
    key = source_offset_key(flow.connector_name, "A", 0, "temp")
    target.append(TopicPartition(flow.offsets_topic, 0), key=key, value=offset_value(1))
    map_key = encode_map_key(MapKey("temp", "id", 0, 0))
    piece = encode_segment(MapSegment(0, 2, (Extent(0, 0, 2),)))
    target.append(TopicPartition(flow.offset_map_topic, 0), key=map_key, value=piece)
    lives = read_ledger(flow, target).incarnations["orders"], target.topics["A.temp"].topic_id
    life = replace(lives[0], topic="temp", topic_id="id", remote_topic="A.temp", remote_topic_id=lives[1])
    write_ledger(flow, target, [life, DeletedTopic("temp", "id", "A.temp", 3)])
    if copy_deleted:
        del target.topics["A.temp"]
    both = look(world, 5)
    ids, ends = {**both.topic_ids, "temp": "id"}, {**both.before, TEMP: 2}
    note(world, Look(RECORDING, 1_000, ids, ends, ends))
    found = read_cut(flow, target, read_ledger(flow, target))
    assert isinstance(found, FoundCut), found
    assert ([ORDERS] if copy_deleted else [ORDERS, TEMP]) == [it.source for it in found.places]


def test_a_topic_that_was_created_again_is_named(world: World) -> None:
    """No look since has seen the topic that is copied."""
    other = Look(RECORDING, 3_000, {"orders": "other"}, {ORDERS: 1}, {ORDERS: 1})
    note(world, look(world, 9, 2_000), other)
    found = read_cut(world.flow, world.clusters.target, read_ledger(world.flow, world.clusters.target))
    assert isinstance(found, NoCut)
    assert "saw another topic orders than the one that is copied" in found.reason
    assert "orders-0 is copied to offset 5, and reached 9" in found.reason


def test_where_the_records_of_a_topic_are_that_is_not_copied_any_more_does_not_matter(world: World) -> None:
    """Its map is lost, and all that was copied of it lies before the cut."""
    target = world.clusters.target
    target.add_topic("A.old")
    write_ledger(world.flow, target, [Incarnation("old", "old-id", 1, "A.old")])
    key = source_offset_key(world.flow.connector_name, "A", 0, "old")
    target.append(TopicPartition(world.flow.offsets_topic, 0), key=key, value=offset_value(7))
    torn(world)
    found = read_cut(world.flow, target, read_ledger(world.flow, target))
    assert isinstance(found, FoundCut), found
    assert {COPY: 2} == found.limits
