"""Take-overs that write nothing: dry runs and refusals, on clusters in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fake_cluster import FakeCluster

from twinlog.cluster.admin.group_members import ConnectWorkers
from twinlog.cluster.values import PartitionOffsets
from twinlog.copying.ownership import state_topics
from twinlog.errors import ClusterRefused, TerminalError, TwinlogError, UsageError
from twinlog.formats.ledger.records import HANDOVER, FlowPhase, FlowState
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.formats.map.packed_map import PackedMap
from twinlog.formats.mm2.records import Heartbeat
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.lane.copy.state_records import progress_record
from twinlog.lane.spec import FenceMark, StateTopics
from twinlog.migration import handover, takeover
from twinlog.migration.continuation import Continuation
from twinlog.migration.copier import Origin
from twinlog.migration.proof import Place
from twinlog.migration.takeover_report import ProofState, TakeoverReport
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.policy.replication import IdentityReplicationPolicy
from twinlog.state.ledger import Ledger, write_ledger

MARK = FenceMark("run", 0, 0)
NOWHERE = PartitionOffsets(0, 0, 0)
LETTERS = [f"{letter}-{n}" for n, letter in enumerate("abcdefgh")]


def dry(moving: Any, **options: Any) -> TakeoverReport:
    origin = options.pop("origin", moving.origin)
    return takeover.run(
        moving.flow, moving.clusters, origin, run_id="r", dry_run=True, watch_seconds=0, **options
    )


def records(cluster: FakeCluster) -> dict[str, int]:
    return {name: sum(len(log.records) for log in topic.logs) for name, topic in cluster.topics.items()}


@pytest.fixture
def orders(moving: Any) -> Any:
    """Eight records, six of them copied, four of those written down."""
    moving.topic("orders", *LETTERS)
    moving.copy("orders", *LETTERS[:6])
    moving.position("orders", 3)
    return moving


def test_a_dry_run_says_it_all_and_writes_nothing(orders: Any) -> None:
    """Position, where the copy ends, what the map would get."""
    before = records(orders.target)
    report = dry(orders)
    [row] = report.partitions
    assert ("dry-run", ProofState.PROVED, 3, 5, 6, 2, 0, 6) == (
        report.state,
        row.state,
        row.position,
        row.last_upstream,
        row.compared,
        row.beyond,
        row.duplicates,
        row.mapped,
    )
    assert before == records(orders.target)
    assert [] == orders.target.calls
    expected = {"stopped": "done", "begin": "planned", "compare": "done", "write": "planned"}
    assert expected == {it.name.value: it.state.value for it in report.steps}
    assert "would map 6 record(s)" == report.steps[-1].message


def test_what_the_audit_will_call_extra_is_said_beforehand(orders: Any) -> None:
    """What was copied twice beside records of aborted transactions: proved, and yet the gate says no because of it."""
    orders.copy("orders", *LETTERS[4:6])
    assert not any("extra" in it for it in dry(orders).notes)
    prints = orders.source.record_prints

    def some_aborted(*args: Any) -> Any:
        return [replace(it, aborted=it.offset == 5) for it in prints(*args)]

    orders.source.record_prints = some_aborted
    [note] = (it for it in dry(orders).notes if "extra" in it)
    assert "2 record(s) that were copied twice, and 2 of aborted transactions" in note
    assert note.endswith(": orders")
    uncommitted = replace(orders.flow, copy=replace(orders.flow.copy, read_committed=False))
    assert not any("extra" in it for it in dry(replace(orders, flow=uncommitted)).notes)


def test_a_map_that_cannot_be_read_is_named_and_given_nothing(orders: Any) -> None:
    """The copy goes on, but `done` alone would be no good news: groups of this topic are not translated."""
    topic_id = orders.source.describe_topics(["orders"]).found["orders"].topic_id
    orders.target.add_topic(orders.flow.offset_map_topic)
    for first, run in ((0, Extent(0, 4, 2)), (2, Extent(2, 0, 2))):
        key = encode_map_key(MapKey("orders", topic_id, 0, first))
        value = encode_segment(MapSegment(first, first + 2, (run,)))
        orders.target.append(TopicPartition(orders.flow.offset_map_topic, 0), key=key, value=value)
    report = dry(orders)
    assert ("dry-run", 0) == (report.state, report.records_mapped)
    assert any(
        "the offset map of orders-0 cannot be read" in it and "twinlog topics rebuild" in it
        for it in report.notes
    )


@pytest.mark.parametrize(
    ("copied", "position", "words"),
    [
        (["a-0", "X", "c-2"], 1, "holds at downstream offset 1 a record that orders-0 does not have"),
        (LETTERS[:2], 3, "lacks a record"),
        ([], 3, "has never held a record"),
        (LETTERS, 30, "recreated or truncated"),
    ],
)
def test_what_is_refused(moving: Any, copied: list[str], position: int, words: str) -> None:
    """Each with its reason and what to do, and the whole take-over with it."""
    moving.topic("orders", *LETTERS)
    moving.topic("fine", "x")
    moving.copy("orders", *copied)
    moving.position("orders", position)
    report = dry(moving)
    [row] = report.refused
    assert "refused" == report.state
    assert words in row.message
    assert row.hint
    assert "dry-run" == dry(moving, topics=["fine"]).state, "--topics leaves it out"


def test_identical_records_are_ambiguous_only_when_it_matters(moving: Any) -> None:
    """Nobody can tell one record from another that is the same."""
    moving.topic("same", *["s"] * 8)
    moving.copy("same", *["s"] * 5)
    moving.position("same", 4)
    assert "dry-run" == dry(moving).state
    moving.copy("same", "s")
    report = dry(moving)
    assert "identical to the byte and the millisecond" in report.refused[0].message


def test_an_open_transaction_has_to_end_first(orders: Any) -> None:
    """What is not decided yet cannot be compared."""
    orders.target.topics["A.orders"].logs[0].undecided = 1
    assert "a transaction is open" in dry(orders).refused[0].message


def test_nothing_copied_yet_is_nothing_to_prove(orders: Any) -> None:
    """A topic MM2 has not begun with is copied from its first record on."""
    orders.topic("new", "a", "b")
    rows = {it.topic: it for it in dry(orders).partitions}
    assert (ProofState.NOTHING_COPIED, -1) == (rows["new"].state, rows["new"].last_upstream)


@pytest.mark.parametrize(
    ("origin", "code", "words"),
    [
        ({"connector": "A->B.MirrorSourceConnector"}, "no-positions", "MirrorSourceConnector of A"),
        ({"offsets_topic": "strimzi-offsets"}, "no-internal-topic", "strimzi-offsets"),
    ],
)
def test_a_mistaken_name_is_no_mm2_that_never_copied(
    orders: Any, origin: dict[str, str], code: str, words: str
) -> None:
    """The error says what is there instead."""
    with pytest.raises(TerminalError, match=words) as error:
        dry(orders, origin=Origin.of(orders.flow, **origin))
    assert (code, True) == (error.value.code, "--offsets-topic" in error.value.hint)
    assert "run a cycle first" not in error.value.hint, "that would copy everything a second time"


def test_copies_under_other_names_are_asked_for_and_none_is_made(orders: Any) -> None:
    """The policy of the file is not MM2's: nothing is created under its names, and it is the first to look at."""
    named = replace(orders, flow=replace(orders.flow, policy=IdentityReplicationPolicy()))
    before = records(orders.target)
    report = takeover.run(named.flow, named.clusters, named.origin, run_id="r", watch_seconds=0)
    [row] = report.refused
    assert ("refused", True) == (report.state, "replication.policy.class" in row.hint)
    assert "orders-0, the copy of orders-0, is not there" == row.message
    assert (before, []) == (records(orders.target), orders.target.calls)


def test_names_of_a_connect_cluster(orders: Any) -> None:
    """Strimzi's connector and topic, given by option."""
    orders.target.add_topic("strimzi-offsets")
    key_topic = TopicPartition("strimzi-offsets", 0)
    name = "A->B.MirrorSourceConnector"
    orders.position("orders", 3, connector=name)
    record = orders.target.topics[orders.flow.offsets_topic].logs[0].records.pop()
    orders.target.append(key_topic, key=record.key, value=record.value)
    origin = Origin.of(orders.flow, name, "strimzi-offsets", "strimzi-connect")
    orders.target.workers["strimzi-connect"] = ConnectWorkers(3, {name: 0, "other": 9})
    assert "dry-run" == dry(orders, origin=origin).state
    orders.target.workers["strimzi-connect"] = ConnectWorkers(3, {name: 2})
    with pytest.raises(TerminalError, match="run 2 task") as error:
        dry(orders, origin=origin)
    assert "mm2-running" == error.value.code


def test_a_running_worker_is_refused(orders: Any) -> None:
    """In dedicated mode one member is enough, whatever it does."""
    orders.target.workers["A-mm2"] = ConnectWorkers(1, {})
    with pytest.raises(TerminalError, match="worker group A-mm2 on B has 1 member") as error:
        dry(orders)
    assert "mm2-running" == error.value.code


@pytest.mark.parametrize(
    ("group", "connector", "runs"),
    [
        ("connect-x", "MirrorSourceConnector", True),
        ("connect-x", "jdbc", False),
        ("C-mm2", "MirrorSourceConnector", False),
        ("C-mm2", "orders", True),
    ],
)
def test_a_connect_cluster_that_nobody_named_is_seen(
    orders: Any, group: str, connector: str, runs: bool
) -> None:
    """It is idle, and may be paused: its tasks alone show it; dedicated workers of another source are not meant."""
    named = "" if connector == "jdbc" else connector
    orders.target.workers[group] = ConnectWorkers(1, {connector: 2})
    expected = [f"workers of {group} on B run 2 task(s) of {connector}"] if runs else []
    assert expected == Origin.of(orders.flow, named).running(orders.target)
    orders.target.workers[group] = ConnectWorkers(1, {connector: 0})
    assert [] == Origin.of(orders.flow, named).running(orders.target)


def test_workers_that_rebalance_may_run_anything(orders: Any) -> None:
    """A group tells no tasks then, and a connector that was paused or restarted just now has them again in a moment."""
    orders.target.workers["connect-x"] = ConnectWorkers(1, {}, rebalancing=True)
    expected = ["workers of connect-x on B rebalance, and do not tell what they run"]
    assert expected == orders.origin.running(orders.target)


def test_not_being_told_who_runs_is_a_refusal(orders: Any) -> None:
    """A missing right is never taken for a stopped MM2."""
    orders.target.refuse(
        "connect_workers", "A-mm2", ClusterRefused("no", hint="grant DESCRIBE on group A-mm2")
    )
    with pytest.raises(ClusterRefused, match="grant DESCRIBE"):
        dry(orders)


@pytest.mark.parametrize("what", ["record", "position", "beat"])
def test_whoever_moves_something_runs(
    orders: Any, running: Callable[[Callable[[], object]], None], what: str
) -> None:
    """Records, positions and heartbeats are watched."""
    orders.target.add_topic("heartbeats")
    beat = Heartbeat("A", "B", 5)
    deeds: dict[str, Callable[[], object]] = {
        "record": lambda: orders.copy("orders", "g"),
        "position": lambda: orders.position("orders", 5),
        "beat": lambda: orders.target.append(
            TopicPartition("heartbeats", 0), key=beat.key(), value=beat.value()
        ),
    }
    running(deeds[what])
    with pytest.raises(TerminalError, match="still") as error:
        dry(orders)
    assert "mm2-running" == error.value.code


def test_a_flow_that_was_failed_over_is_left_alone(orders: Any) -> None:
    """Who copies is not the question there."""
    orders.target.add_topic(orders.flow.ledger_topic)
    write_ledger(orders.flow, orders.target, [FlowState(FlowPhase.PROMOTED, 1, "me", "why")])
    for step in (takeover, handover):
        with pytest.raises(TerminalError, match="promoted"):
            step.run(orders.flow, orders.clusters, orders.origin, run_id="r", dry_run=True, watch_seconds=0)


@pytest.mark.parametrize(
    ("by", "records"), [("ann", 0), (HANDOVER, 1), (None, 1)], ids=["paused", "handed-over", "new"]
)
def test_what_a_person_paused_stays_paused(orders: Any, by: str | None, records: int) -> None:
    """Who paused it lets it go on; a take-over ends what a hand-over began."""
    paused = FlowState(FlowPhase.PAUSED, 1, by, "disks") if by else None
    orders.target.add_topic(orders.flow.ledger_topic)
    orders.target.add_topic(orders.flow.offset_map_topic)
    state = state_topics(orders.flow, orders.clusters)
    assert records == len(takeover.active_again(state, Ledger(flow_state=paused)))


def test_a_name_that_is_not_replicated(orders: Any) -> None:
    """--topic takes source topics."""
    with pytest.raises(UsageError, match="does not replicate topic nope"):
        dry(orders, topics=["nope"])


def test_handing_over_what_was_never_copied(moving: Any) -> None:
    """MM2 needs nothing for that."""
    with pytest.raises(TwinlogError, match="nothing to hand over"):
        handover.run(moving.flow, moving.clusters, moving.origin, run_id="r", dry_run=True, watch_seconds=0)


def test_handing_over_a_copy_that_goes_further_than_progress(orders: Any) -> None:
    """Somebody else copied: a take-over sorts that out."""
    report = handover.run(
        orders.flow, orders.clusters, orders.origin, run_id="r", dry_run=True, watch_seconds=0
    )
    assert "holds 2 record(s) beyond twinlog's progress" in report.refused[0].message


STATE = StateTopics("offsets", 4, "map", 4, "ledger", "ours", "A")


@pytest.mark.parametrize(
    ("origin", "topics", "written"),
    [
        (Origin("theirs", "offsets", "group"), ["a"], [("b", 0, 7)]),
        (Origin("ours", "connect-offsets", "group"), ["a"], [("b", 0, 7)]),
        (Origin("theirs", "connect-offsets", "group"), None, []),
        (Origin("ours", "offsets", "group"), ["a"], []),
    ],
)
def test_what_is_not_taken_over_now_goes_on_where_mirror_maker_left_it(
    origin: Origin, topics: list[str] | None, written: list[tuple[str, int, int]]
) -> None:
    """Under the flow's names, where its own were others; what the flow has copied itself since counts more."""
    positions = {TopicPartition("a", 0): 3, TopicPartition("b", 0): 7, TopicPartition("c", 0): 9}
    ours = {("c", 0): 20}
    expected = [progress_record(STATE, *it) for it in written]
    assert expected == list(takeover.left_as_they_are(STATE, ours, origin, positions, topics))


@pytest.mark.parametrize(
    ("ours", "theirs", "written"),
    [
        ({}, 7, [("b", 0, 7)]),
        ({("b", 0): 6}, 7, [("b", 0, 7)]),
        ({("b", 0): 7}, 7, []),
        ({("b", 0): 8}, 7, []),
    ],
)
def test_what_mirror_maker_copied_since_a_handover_is_not_copied_again(
    ours: dict[tuple[str, int], int], theirs: int, written: list[tuple[str, int, int]]
) -> None:
    """The farther of both positions counts; what is written says nothing of where the copy ends."""
    origin = Origin("theirs", "connect-offsets", "group")
    positions = {TopicPartition("b", 0): theirs}
    found = list(takeover.left_as_they_are(STATE, ours, origin, positions, ["a"]))
    assert [progress_record(STATE, *it) for it in written] == found
    assert all(not it.headers for it in found)


def test_what_is_left_out_of_the_map_is_noted() -> None:
    """From where the map ended to what was proved, or to where a topic that is left goes on."""
    life = SourceIncarnation("orders", "id", 0)
    place = Place(TopicPartition("orders", 0), TopicPartition("A.orders", 0), "id", NOWHERE, NOWHERE, 30)
    known = {life: PackedMap.of({0: encode_segment(MapSegment(0, 10, (Extent(0, 0, 10),)))})}
    proved = (MapSegment(15, 30, (Extent(15, 20, 15),)),)

    def noted(known: Any, segments: Any, left: Any, at: int = 10) -> list[tuple[int, int]]:
        maps = {} if segments is None else {place: Continuation(at, segments, replaces=False, fits=True)}
        return [(it.start, it.end) for it in takeover.left_unmapped(known, maps, left, 7)]

    there = TopicPartition("orders", 0)
    assert [(10, 15)] == noted(known, proved, {})
    assert [(0, 15)] == noted({}, proved, {}, 0)
    assert [] == noted(known, (MapSegment(10, 30, ()),), {})
    assert [(10, 21)] == noted(known, None, {there: 20})
    assert [] == noted(known, None, {there: 9})
    assert [(10, 21)] == noted(known, (), {there: 20}), "what was compared told no order"
    assert [] == noted(known, (), {there: 9})
