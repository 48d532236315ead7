"""A copy is made anew by one run at a time, and never at the cost of what others wrote into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from fake_cluster import FakeCluster

from twinlog.cluster.api import Clusters
from twinlog.config.flow.copying import LifecycleSettings, RecreatedPolicy
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, TransientError, TwinlogError
from twinlog.formats.ledger.records import LedgerRecord
from twinlog.formats.ledger.topics import DeletedTopic, GroupPosition, Incarnation, Rebuild, RebuildPhase
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.formats.mm2.connect_offset import offset_value, source_offset_key
from twinlog.kafka_types import TopicPartition
from twinlog.lifecycle import apply, rebuild, rebuild_plan
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.policy.replication import IdentityReplicationPolicy
from twinlog.state.ledger import read_ledger
from twinlog.state.progress import read_progress
from twinlog.topics.snapshot import FlowSnapshot
from twinlog.visible import singular

ORDERS = TopicPartition("orders", 0)
BACK = "mm2-ledger.B.internal"
OTHER = "mm2-ledger.C.internal"


@pytest.fixture
def flow(flow: FlowSettings) -> FlowSettings:
    """A->B with unchanged names."""
    return replace(flow, policy=IdentityReplicationPolicy())


@pytest.fixture(autouse=True)
def both_sides(flow, source: FakeCluster, with_internal: FakeCluster, fenced) -> None:
    """`orders` on both sides, with a record of the target's own; the ledger knows which life goes where."""
    for cluster in (source, with_internal):
        cluster.add_topic("orders")
        cluster.append(ORDERS, key=b"k", value=cluster.alias.encode())
    note(with_internal, flow.ledger_topic, life(source, with_internal))


def life(source: FakeCluster, target: FakeCluster) -> Incarnation:
    ids = source.topics["orders"].topic_id, target.topics["orders"].topic_id
    return Incarnation("orders", ids[0], 1, "orders", ids[1], "cluster-A")


def note(cluster: FakeCluster, ledger: str, *records: LedgerRecord) -> None:
    """Write ledger records, into a ledger that is made when it is missing."""
    if ledger not in cluster.topics:
        cluster.add_topic(ledger)
    for it in records:
        cluster.append(TopicPartition(ledger, 0), key=it.key(), value=it.value())


def begun(flow: FlowSettings, clusters: Clusters, phase: RebuildPhase, at_ms: int = 5, **changes) -> Rebuild:
    """A rebuild of `orders` as the ledger of the target has it."""
    ids = [it.topics["orders"].topic_id for it in (clusters.source, clusters.target)]
    made = Rebuild("orders", ids[0], "orders", ids[1], phase, "somebody", "a drill", at_ms)
    made = replace(made, **changes)
    note(clusters.target, flow.ledger_topic, made)
    return made


@pytest.fixture
def run(flow: FlowSettings, clusters: Clusters) -> Callable[..., rebuild.RebuildResult]:
    return lambda **more: rebuild.run(
        flow, clusters, "orders", **{"by": "test", "reason": "drill", "request": "", **more}
    )


def refusal(run: Callable[..., rebuild.RebuildResult]) -> tuple[str, list[str]]:
    """Code and writers of the error a rebuild raises."""
    with pytest.raises(TerminalError) as caught:
        run()
    return caught.value.code, caught.value.data["writers"]


def back_flow(source: FakeCluster, target: FakeCluster) -> None:
    """A flow B->A that copies `orders`, too."""
    note(source, BACK, Incarnation("orders", target.topics["orders"].topic_id, 1, "orders"))


def other_flow(target: FakeCluster, remote_topic_id: str = "") -> None:
    """A flow C->B that copies its `orders` into the same copy, by default as an older release noted it."""
    note(target, OTHER, Incarnation("orders", "c-life", 1, "orders", remote_topic_id))


WRITERS = {"back": "producers of B, from which B->A copies it", "other": "the flow C->B"}


@pytest.mark.parametrize("who", ["back", "other"])
def test_a_copy_that_others_write_to_is_not_rebuilt(flow, clusters, source, target, run, who) -> None:
    """Nothing is noted and nothing deleted; the plan says who they are."""
    back_flow(source, target) if who == "back" else other_flow(target)
    before = target.topics["orders"]
    assert (WRITERS[who],) == rebuild.plan(flow, clusters, "orders").other_writers
    assert ("rebuild-refused", [WRITERS[who]]) == refusal(run)
    assert (before, {}) == (target.topics["orders"], dict(read_ledger(flow, target).rebuilds))


@pytest.mark.parametrize("alias", ["B", "C"])
def test_state_of_others_that_cannot_be_read_counts_against_it(source, target, run, alias) -> None:
    """What they wrote there is not known; of the reverse flow, neither is whether it fails over."""
    cluster = source if alias == "B" else target
    cluster.add_topic(f"mm2-ledger.{alias}.internal")
    cluster.append(TopicPartition(f"mm2-ledger.{alias}.internal", 0), key=b"?", value=b"?")
    with pytest.raises(TerminalError) as caught:
        run()
    assert "rebuild-refused" == caught.value.code


def test_a_copy_that_is_the_flows_alone_is_rebuilt(flow, source, target, run) -> None:
    """Other flows with other copies, or that wrote into an earlier life of this one, do not matter."""
    note(source, BACK, Incarnation("bills", "b-life", 1, "bills"))
    other_flow(target, "an-earlier-life")
    assert (True, RebuildPhase.DONE) == ((done := run()).deleted, done.phase)
    assert 0 == target.topics["orders"].logs[0].end
    assert RebuildPhase.DONE == read_ledger(flow, target).rebuilds["orders"].phase


def test_a_rebuild_that_is_under_way_spares_what_others_write_meanwhile(
    flow, clusters, source, target, run
) -> None:
    """The noted copy stays while it is shared; once it is gone the rebuild goes on."""
    begun(flow, clusters, RebuildPhase.DELETING)
    back_flow(source, target)
    assert "rebuild-refused" == refusal(run)[0]
    assert 1 == target.topics["orders"].logs[0].end
    target.delete_topics(["orders"])
    assert run().deleted


@pytest.mark.parametrize(("request_", "when"), [("", "this cycle"), ("cli-1", "the next cycle")])
def test_who_copies_the_emptied_topic_is_said(run, request_, when) -> None:
    """A cycle that rebuilds by policy copies the topic itself; after a person's rebuild the next one does."""
    done = run(request=request_)
    assert (f"{done.remote_topic} is empty and is copied anew, beginning with {when}",) == done.notes


def test_each_step_says_what_it_would_do_and_what_it_did(flow, clusters, target, run) -> None:
    """A dry run notes nothing; a second try of the same request finds all done."""
    names = ["note", "delete", "begin", "groups"]
    plan = rebuild.plan(flow, clusters, "orders")
    assert [(it, "planned") for it in names] == [(it.name.value, it.state.value) for it in plan.steps]
    assert (singular(plan.cost), {}) == (plan.steps[1].message, dict(read_ledger(flow, target).rebuilds))
    for expected in (["done"] * 4, ["skipped"] * 3 + ["done"]):
        steps = run(request="r1").steps
        assert [*zip(names, expected, strict=True)] == [(it.name.value, it.state.value) for it in steps]


def test_by_policy_a_shared_copy_is_not_rebuilt_either(flow, clusters, source, target) -> None:
    """It is reported; the topic stays blocked."""
    back_flow(source, target)
    source.delete_topics(["orders"])
    source.add_topic("orders")
    flow = replace(flow, lifecycle=LifecycleSettings(on_recreated=RecreatedPolicy.NEW_INCARNATION))
    result = apply.run(FlowSnapshot(flow, clusters))
    assert ((), [("orders", "rebuild-refused")]) == (
        result.rebuilt,
        [(it.name, it.code) for it in result.refused],
    )
    assert ({}, 1) == (dict(read_ledger(flow, target).rebuilds), target.topics["orders"].logs[0].end)


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_shared_copy_outlives_its_source(flow, clusters, source, target, dry_run, is_shared) -> None:
    """`delete-after` spares it and says so, each time; a copy that is the flow's alone goes."""
    if is_shared:
        back_flow(source, target)
    note(target, flow.ledger_topic, DeletedTopic("orders", source.topics["orders"].topic_id, "orders", 1))
    source.delete_topics(["orders"])
    flow = replace(flow, lifecycle=LifecycleSettings(delete_after_ms=1))
    result = apply.run(FlowSnapshot(flow, clusters), dry_run=dry_run)
    expected = ((), [("orders", apply.SHARED)]) if is_shared else (("orders",), [])
    assert expected == (result.deleted_copies, [(it.name, it.code) for it in result.refused])
    assert (is_shared or dry_run) == ("orders" in target.topics)
    assert (is_shared or dry_run) == ("orders" in read_ledger(flow, target).incarnations)


@pytest.mark.parametrize(("recreated", "upstream"), [(False, 1), (True, None)])
def test_places_in_a_copy_that_somebody_else_made_are_not_kept(
    flow, clusters, source, target, recreated, upstream
) -> None:
    """They are among foreign records, of which the map of the old copy knows nothing."""
    known = MapKey("orders", source.topics["orders"].topic_id, 0, 0)
    piece = encode_segment(MapSegment(0, 1, (Extent(0, 0, 1),)))
    target.append(TopicPartition(flow.offset_map_topic, 0), key=encode_map_key(known), value=piece)
    if recreated:
        target.add_topic("orders")
    target.commit("billing", ORDERS, 1)
    plan = rebuild.plan(flow, clusters, "orders")
    assert (GroupPosition("billing", 0, 1, upstream),) == plan.groups
    assert recreated == any("billing" in note for note in plan.notes)


@pytest.mark.parametrize("there", [1, 2, 5])
def test_who_has_read_the_copy_to_its_end_keeps_its_place(flow, clusters, source, target, there) -> None:
    """A consumer's position lies behind the last marker as often as before it; none of ours is there."""
    known = MapKey("orders", source.topics["orders"].topic_id, 0, 0)
    piece = encode_segment(MapSegment(0, 1, (Extent(0, 0, 1),)))
    target.append(TopicPartition(flow.offset_map_topic, 0), key=encode_map_key(known), value=piece)
    target.commit("billing", ORDERS, there)
    assert (GroupPosition("billing", 0, there, 1),) == rebuild.plan(flow, clusters, "orders").groups


def nothing() -> None:
    """Nothing happens."""


def kept_place(flow: FlowSettings, source: FakeCluster, target: FakeCluster, records: int = 1) -> None:
    """A group stands behind the records of the copy, so that a rebuild waits until they are copied."""
    known = MapKey("orders", source.topics["orders"].topic_id, 0, 0)
    piece = encode_segment(MapSegment(0, records, (Extent(0, 0, records),)))
    target.append(TopicPartition(flow.offset_map_topic, 0), key=encode_map_key(known), value=piece)
    target.commit("billing", ORDERS, records)


def copied_anew(flow: FlowSettings, target: FakeCluster) -> None:
    """The one record of the source lies in the copy, and progress says so."""
    target.append(ORDERS, key=b"k", value=b"A")
    key = source_offset_key(flow.connector_name, "A", 0, "orders")
    target.append(TopicPartition(flow.offsets_topic, 0), key=key, value=offset_value(0))


def test_what_another_run_began_meanwhile_is_not_begun_again(flow, source, target, fenced, run) -> None:
    """It is being copied: only its groups are looked after."""
    kept_place(flow, source, target)
    fenced.append(run)
    assert (False, ("billing",)) == ((done := run()).deleted, done.waiting)
    assert 2 == read_ledger(flow, target).incarnations["orders"].number


@pytest.mark.parametrize(("asked", "again"), [("r1", False), ("r2", True), ("", True)])
def test_a_request_that_another_run_has_met_is_met(fenced, run, asked, again) -> None:
    """Of a retry beside the first try, say; another request is one of its own."""
    fenced.append(lambda: run(request="r1"))
    assert again == run(request=asked).deleted


@pytest.mark.parametrize("waits", [False, True])
def test_what_was_copied_meanwhile_is_not_forgotten(flow, source, target, fenced, run, waits) -> None:
    """Two runs went on with one rebuild; the other was faster, and a cycle has copied since."""
    if waits:
        kept_place(flow, source, target)
    fenced += [nothing, lambda: (run(), copied_anew(flow, target))]
    assert (False, RebuildPhase.DONE) == ((done := run()).deleted, done.phase)
    assert {ORDERS: 0} == read_progress(flow, target)


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (lambda target: target.append(ORDERS, key=b"k", value=b"foreign"), "rebuild-refused"),
        (lambda target: target.delete_topics(["orders"]), "overtaken"),
        (lambda target: target.add_topic("orders"), "overtaken"),
    ],
)
def test_a_copy_that_is_not_as_it_was_made_is_not_begun(flow, target, fenced, run, happens, code) -> None:
    """Nothing is written; the rebuild can be gone on with."""
    fenced += [nothing, lambda: happens(target)]
    with pytest.raises(TwinlogError) as caught:
        run()
    ledger = read_ledger(flow, target)
    assert (code, RebuildPhase.DELETING, 1) == (
        caught.value.code,
        ledger.rebuilds["orders"].phase,
        ledger.incarnations["orders"].number,
    )


def test_a_rebuild_that_was_begun_since_is_left_to_others(flow, clusters, target, fenced, run) -> None:
    """What we were about to begin is over."""
    fenced += [nothing, lambda: begun(flow, clusters, RebuildPhase.DELETING, at_ms=7)]
    with pytest.raises(TransientError, match="another rebuild"):
        run()
    assert 7 == read_ledger(flow, target).rebuilds["orders"].at_ms


def half_copied(
    flow: FlowSettings, source: FakeCluster, target: FakeCluster, run, request: str = "r1"
) -> str:
    """Ask for a rebuild, and copy the first of two records: `billing`, behind both, waits.  Return the copy's id."""
    source.append(ORDERS, key=b"k", value=b"A")
    target.append(ORDERS, key=b"k", value=b"A")
    kept_place(flow, source, target, 2)
    run(request="r1")
    target.delete_groups(["billing"])  # a broker forgets what was committed on a topic that is deleted
    copied_anew(flow, target)
    return target.topics["orders"].topic_id


@pytest.mark.parametrize(("asked", "anew"), [("r2", True), ("r1", False), ("", False)])
def test_who_asks_anew_gets_a_new_copy(flow, source, target, fenced, run, asked, anew) -> None:
    """The one under way may have stopped; a retry goes on, as cycles do. The place that waits is kept either way."""
    before = half_copied(flow, source, target, run)
    done = run(request=asked)
    assert (anew, anew, ("billing",)) == (
        done.deleted,
        before != target.topics["orders"].topic_id,
        done.waiting,
    )
    kept = read_ledger(flow, target).rebuilds["orders"]
    assert (asked if anew else "r1", RebuildPhase.COPYING, [2]) == (
        kept.request,
        kept.phase,
        [it.upstream for it in kept.groups],
    )
    assert ({} if anew else {ORDERS: 0}) == read_progress(flow, target)
    assert not run(request=asked).deleted


def test_who_went_on_with_a_rebuild_of_others_does_not_begin_another(
    flow, clusters, source, target, run
) -> None:
    """Both requests are met, and a retry of either is, too."""
    places = (GroupPosition("billing", 0, 1, 1),)
    begun(flow, clusters, RebuildPhase.DELETING, request="r1", groups=places)
    assert [True, False, False, True] == [run(request=it).deleted for it in ("r2", "r2", "r1", "r3")]


def test_a_place_that_waits_in_a_life_that_has_ended_is_the_first_record(
    flow, clusters, source, target
) -> None:
    """Nothing of the life that was appended since was read."""
    places = (GroupPosition("billing", 0, 4, 4),)
    begun(flow, clusters, RebuildPhase.COPYING, topic_id="earlier", groups=places)
    assert (replace(places[0], upstream=0),) == rebuild.plan(flow, clusters, "orders").groups


@pytest.mark.parametrize(
    "value", [b"\x09\x00\x00", encode_segment(MapSegment(0, 4, (Extent(0, 3, 4),)))[:-1]]
)
def test_a_place_waits_while_the_new_map_cannot_be_read(flow, clusters, source, target, value) -> None:
    """Whether its head or its runs are damaged: the copy's beginning would be read a second time."""
    places = (GroupPosition("billing", 0, 4, 4),)
    begun(flow, clusters, RebuildPhase.COPYING, topic_id=source.topics["orders"].topic_id, groups=places)
    key = source_offset_key(flow.connector_name, "A", 0, "orders")
    target.append(TopicPartition(flow.offsets_topic, 0), key=key, value=offset_value(3))
    at = encode_map_key(MapKey("orders", source.topics["orders"].topic_id, 0, 0))
    target.append(TopicPartition(flow.offset_map_topic, 0), key=at, value=value)
    rebuild.restore_reached(flow, clusters)
    assert {} == target.committed_offsets(["billing"]).found["billing"]
    assert RebuildPhase.COPYING is read_ledger(flow, target).rebuilds["orders"].phase

    whole = encode_segment(MapSegment(0, 4, (Extent(0, 3, 4),)))
    target.append(TopicPartition(flow.offset_map_topic, 0), key=at, value=whole)
    rebuild.restore_reached(flow, clusters)
    assert 7 == target.committed_offsets(["billing"]).found["billing"][ORDERS].offset
    assert RebuildPhase.DONE is read_ledger(flow, target).rebuilds["orders"].phase


def test_a_forged_rebuild_deletes_no_topic_of_the_target(flow, clusters, target) -> None:
    """Who may write to the ledger may not delete by it what is no copy of the flow."""
    payroll = target.add_topic("payroll")
    forged = begun(
        flow,
        clusters,
        RebuildPhase.DELETING,
        remote_topic="payroll",
        old_remote_topic_id=payroll.topic_id,
    )
    with pytest.raises(TerminalError, match="whose copy is orders") as caught:
        rebuild.delete_copy(flow, clusters, forged)
    assert rebuild_plan.REFUSED == caught.value.code
    assert "payroll" in target.topics


def test_a_forged_rebuild_stops_no_topic_and_is_named(flow, clusters, target, run) -> None:
    """The topic is copied as before, the discovery says what the ledger holds, and ours takes its place."""
    payroll = target.add_topic("payroll")
    begun(
        flow,
        clusters,
        RebuildPhase.DELETING,
        remote_topic="payroll",
        old_remote_topic_id=payroll.topic_id,
    )
    discovery = FlowSnapshot(flow, clusters).discovery
    assert ["orders"] == [it.topic for it in discovery.ready_topics]
    (told,) = [it for it in discovery.problems if it.code == "strange-rebuild"]
    assert (False, True) == (told.blocking, "the ledger wants payroll deleted on B" in told.message)
    assert (True, "payroll" in target.topics) == (run(request="cli-1").deleted, True)
    assert () == read_ledger(flow, target).strange_rebuilds
