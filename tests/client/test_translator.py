"""Translation of a flow's offsets: the map's answers, MM2's behind them, and every kind of bad input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fake_cluster import FakeCluster

from twinlog.client.pairs import Ask, Basis, Reason
from twinlog.client.translator import FlowTranslator
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import CopiedBy, FlowSettings
from twinlog.errors import ClusterRefused, TerminalError
from twinlog.formats.ledger.observed import Observed
from twinlog.formats.ledger.records import Incarnation
from twinlog.formats.ledger.topics import Beginning
from twinlog.formats.ledger.writers import FlowClaim
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.formats.mm2.records import OffsetSync
from twinlog.kafka_types import TopicPartition
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.policy.replication import IdentityReplicationPolicy
from twinlog.state.ledger import write_ledger


@pytest.mark.parametrize(("upstream", "downstream"), [(0, 2), (3, 5), (4, 7), (5, 7), (9, 11), (10, 12)])
def test_every_copied_offset_is_exact(orders: Any, upstream: int, downstream: int) -> None:
    """The next record to read, also where an offset holds none."""
    [found] = orders.translate(("orders", 0, upstream))
    assert (downstream, True, False, 0, Basis.MAP) == (
        found.downstream_offset,
        found.exact,
        found.ahead,
        found.again,
        found.basis,
    )
    assert ("A.orders", "orders", True) == (found.topic, found.source_topic, found.answered)


def test_beyond_the_copy(orders: Any) -> None:
    """Goes on at its end, and says how much comes again."""
    [found] = orders.translate(("orders", 0, 12))
    assert (12, True, Reason.NOT_COPIED_YET) == (found.downstream_offset, found.ahead, found.reason)
    assert found.again and found.again >= 2


@pytest.mark.parametrize(("downstream", "upstream"), [(2, 0), (5, 3), (6, 5), (7, 5), (11, 9), (12, 10)])
def test_and_back(orders: Any, downstream: int, upstream: int) -> None:
    """The same map, read the other way."""
    [found] = orders.reverse(("A.orders", 0, downstream))
    assert (upstream, downstream, True) == (found.upstream_offset, found.downstream_offset, found.exact)


@pytest.mark.parametrize(
    ("ask", "reason", "words"),
    [
        (("orders", 0, -1), Reason.NEGATIVE, "negative"),
        (("orders", 0, 13), Reason.BEYOND_END, "orders-0 ends at 12"),
        (("orders", 7, 0), Reason.UNKNOWN_PARTITION, "no partition 7"),
        (("nothing", 0, 0), Reason.UNKNOWN_TOPIC, "A has no topic nothing"),
    ],
)
def test_bad_offsets_are_answered_one_by_one(
    orders: Any, ask: tuple[str, int, int], reason: Reason, words: str
) -> None:
    """What is wrong with one does not keep the others from being answered."""
    bad, good = orders.translate(ask, ("orders", 0, 1))
    assert (None, reason, False) == (bad.downstream_offset, bad.reason, bad.answered)
    assert words in bad.message
    assert 3 == good.downstream_offset


def test_bad_offsets_on_the_way_back(orders: Any) -> None:
    """Names and ends are the target's there."""
    strange, far, negative = orders.reverse(("strange", 0, 1), ("A.orders", 0, 99), ("A.orders", 0, -5))
    assert [Reason.UNKNOWN_TOPIC, Reason.BEYOND_END, Reason.NEGATIVE] == [
        strange.reason,
        far.reason,
        negative.reason,
    ]
    assert "strange is no copy of flow A->B" == strange.message


def test_before_the_beginning(orders: Any) -> None:
    """Still translated, with a remark: the records are in the copy."""
    orders.source.delete_records(TopicPartition("orders", 0), 3)
    [found] = orders.translate(("orders", 0, 1))
    assert (3, True, Reason.BEFORE_BEGINNING) == (found.downstream_offset, found.exact, found.reason)


def test_below_the_targets_log_start(orders: Any) -> None:
    """What the target has deleted cannot be read again there."""
    orders.target.delete_records(TopicPartition("A.orders", 0), 8)
    assert 8 == orders.translate(("orders", 0, 1))[0].downstream_offset


def test_what_is_unread_and_not_there_is_said(orders: Any) -> None:
    """How much at most; with the source gone nobody knows what it had left.  What it has deleted as well is no loss."""
    orders.target.delete_records(TopicPartition("A.orders", 0), 8)
    [found] = orders.translate(("orders", 0, 1))
    assert (8, False, 4, Reason.MISSING_THERE) == (
        found.downstream_offset,
        found.exact,
        found.missing,
        found.reason,
    )
    orders.source.delete_records(TopicPartition("orders", 0), 6)
    [found] = orders.translate(("orders", 0, 1))
    assert (True, 0, Reason.BEFORE_BEGINNING) == (found.exact, found.missing, found.reason)
    orders.lose_source()
    [found] = orders.translate(("orders", 0, 1))
    assert (False, 4) == (found.exact, found.missing)


@pytest.mark.parametrize(
    ("into_empty", "expected"),
    [(True, (0, True, 0, Reason.NONE)), (False, (0, False, 2, Reason.MISSING_THERE))],
)
def test_back_from_in_front_of_the_first_copied_record(
    orders: Any, into_empty: bool, expected: tuple[object, ...]
) -> None:
    """An aborted transaction holds nothing, if the ledger says that the copy began empty; it may be MM2's otherwise."""
    life = orders.source.topics["orders"].topic_id
    begins = Beginning("orders", life, {"0": 0}, {"0": 0}, 1, into_empty)
    write_ledger(orders.flow, orders.target, [begins])
    [found] = orders.reverse(("A.orders", 0, 0))
    assert expected == (found.upstream_offset, found.exact, found.missing, found.reason)


def test_a_recreated_topic(orders: Any) -> None:
    """Its offsets are others now: no answer from the life before."""
    orders.source.add_topic("orders")
    orders.fill(orders.source, "orders", 12)
    [found] = orders.translate(("orders", 0, 1))
    assert (Reason.RECREATED, None) == (found.reason, found.downstream_offset)


@pytest.mark.parametrize("lost", [False, True])
def test_a_recreated_copy(orders: Any, lost: bool) -> None:
    """The map is about the one before; asked when the source is lost, too, which is when it matters most."""
    copied_into = orders.target.topics["A.orders"].topic_id
    known = Incarnation("orders", orders.source.topics["orders"].topic_id, 1, "A.orders", copied_into)
    write_ledger(orders.flow, orders.target, [known])
    assert Reason.RECREATED is not orders.translate(("orders", 0, 3))[0].reason
    del orders.target.topics["A.orders"]
    orders.target.add_topic("A.orders")
    orders.fill(orders.target, "A.orders", 5)
    if lost:
        orders.lose_source()
    for (found,) in (orders.translate(("orders", 0, 3)), orders.reverse(("A.orders", 0, 3))):
        assert (Reason.RECREATED, False) == (found.reason, found.exact)
        assert "A.orders was deleted and created again on B" in found.message


def test_a_topic_without_a_copy(orders: Any) -> None:
    """Not copied yet is no guess either."""
    orders.source.add_topic("new")
    [found] = orders.translate(("new", 0, 0))
    assert (Reason.NOT_COPIED_YET, None) == (found.reason, found.downstream_offset)


@pytest.fixture
def taken_over(orders: Any) -> Any:
    """A copy MM2 began: the map knows upstream offsets from 6 on, MM2's syncs say what was before."""
    orders.source.add_topic("old")
    orders.target.add_topic("A.old")
    orders.fill(orders.source, "old", 12)
    orders.fill(orders.target, "A.old", 12)
    orders.mapped("old", 6, 12, [Extent(6, 6, 6)])
    orders.seen("old")
    topic = orders.flow.policy.offset_syncs_topic("B")
    orders.source.add_topic(topic)
    for sync in (OffsetSync("old", 0, 0, 0), OffsetSync("old", 0, 9, 9)):
        orders.source.append(TopicPartition(topic, 0), key=sync.key(), value=sync.value())
    return orders


def test_below_the_map_mm2s_rule_answers_and_says_so(taken_over: Any) -> None:
    """Never exact, never later than right."""
    found = taken_over.translate(*(("old", 0, offset) for offset in range(8)))
    assert [Basis.OFFSET_SYNCS] * 6 + [Basis.MAP] * 2 == [it.basis for it in found]
    assert [0, 1, 1, 1, 1, 1, 6, 7] == [it.downstream_offset for it in found]
    assert [False] * 6 + [True] * 2 == [it.exact for it in found]


def test_below_the_map_without_syncs_there_is_no_answer(taken_over: Any) -> None:
    """With the source gone, so are its syncs."""
    taken_over.lose_source()
    low, high = taken_over.translate(("old", 0, 2), ("old", 0, 7))
    assert (Reason.NOT_MAPPED, None, 7) == (low.reason, low.downstream_offset, high.downstream_offset)


@pytest.fixture
def both_ways(world: Any) -> Any:
    """Under one name, A and B each hold a hundred records of their own, and behind them copies of the other's."""
    made = replace(world, flow=replace(world.flow, policy=IdentityReplicationPolicy()))
    back = replace(world.flow, source=world.flow.target, target=world.flow.source)
    made.source.add_topic(back.offset_map_topic)
    made.source.add_topic(back.ledger_topic)
    for cluster in (made.source, made.target):
        cluster.add_topic("t")
        made.fill(cluster, "t", 200)
    here, there = (cluster.topics["t"].topic_id for cluster in (made.source, made.target))
    write_ledger(made.flow, made.target, [Incarnation("t", here, 1, "t", there)])
    write_ledger(back, made.source, [Incarnation("t", there, 1, "t", here)])
    made.mapped("t", 0, 200, [Extent(0, 100, 100)])
    key = encode_map_key(MapKey("t", there, 0, 0))
    value = encode_segment(MapSegment(0, 200, (Extent(0, 100, 100),)))
    made.source.append(TopicPartition(back.offset_map_topic, 0), key=key, value=value)
    return made


def test_both_ways_under_one_name_nothing_unread_is_skipped(both_ways: Any) -> None:
    """Who stands at 50 has read none of the other side's records: it goes on at their first, as checkpoints say."""
    [there] = both_ways.translate(("t", 0, 50))
    [back] = both_ways.reverse(("t", 0, 50))
    assert (0, True, 50, Reason.NONE) == (there.downstream_offset, there.exact, there.again, there.reason)
    assert (0, True, 50, Reason.NONE) == (back.upstream_offset, back.exact, back.again, back.reason)


def test_under_one_name_a_lost_source_leaves_the_way_back_unknown(both_ways: Any) -> None:
    """Its map is on the source: what is left is an answer for the source's own records, and is not called exact."""
    both_ways.lose_source()
    [found] = both_ways.translate(("t", 0, 50))
    assert (150, False, None) == (found.downstream_offset, found.exact, found.again)
    assert Reason.REVERSE_UNKNOWN is found.reason
    assert "by the records of A alone" in found.message


def test_the_source_may_be_gone(orders: Any) -> None:
    """Map and ledger are on the target."""
    orders.lose_source()
    assert 7 == orders.translate(("orders", 0, 5))[0].downstream_offset
    assert 5 == orders.reverse(("A.orders", 0, 7))[0].upstream_offset


@pytest.mark.parametrize("value", [b"\x07\x01\x02", b"\x01\x05\x05\x00"])
def test_a_corrupt_map_answers_nothing(orders: Any, value: bytes) -> None:
    """An unknown version, or bytes cut off: no answer, and the record that is at fault is named."""
    at = TopicPartition(orders.flow.offset_map_topic, 0)
    key = orders.target.topics[at.topic].logs[0].records[0].key
    orders.target.append(at, key=key, value=value)
    (answer,) = orders.translate(("orders", 0, 5))
    assert (Reason.MAP_UNREADABLE, None, False) == (answer.reason, answer.downstream_offset, answer.answered)
    last = len(orders.target.topics[at.topic].logs[0].records) - 1
    assert f"offset {last} of {at.topic}-0" in answer.message


@pytest.mark.parametrize("topic", ["mm2-offset-map.A.internal", "mm2-ledger.A.internal"])
def test_a_missing_right_is_the_error(orders: Any, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never an answer without what may not be read."""
    latest, latest_records = orders.target.latest, orders.target.latest_records

    def refusing(name: str, read: Any = latest_records) -> object:
        if name == topic:
            raise ClusterRefused(
                f"B does not allow this user to read topic {name}", hint=f"grant READ on topic {name}"
            )
        return read(name)

    monkeypatch.setattr(orders.target, "latest", lambda name: refusing(name, latest))
    monkeypatch.setattr(orders.target, "latest_records", refusing)
    with pytest.raises(ClusterRefused, match=f"grant READ on topic {topic}"):
        orders.translate(("orders", 0, 5))


def test_not_being_allowed_to_see_a_topic_is_an_error(orders: Any) -> None:
    """Unknown and hidden are two things, where the cluster tells."""
    orders.source.refuse("describe_topics", "orders", ClusterRefused("no", code="unauthorised"))
    with pytest.raises(ClusterRefused):
        orders.translate(("orders", 0, 5))


def test_a_reverse_flow_of_other_topics_has_no_say(both_ways: Any) -> None:
    """One that copies other topics between the same clusters: nothing of this one came back."""
    ledger = TopicPartition("mm2-ledger.B.internal", 0)
    log = both_ways.source.topics[ledger.topic].logs[0]
    (known,) = [it for it in log.records if b'"incarnation"' in (it.key or b"")]
    both_ways.source.append(ledger, key=known.key, value=None)
    life = Incarnation("other", "an-id", 1, "other", "its-copy")
    both_ways.source.append(ledger, key=life.key(), value=life.value())
    [there] = both_ways.translate(("t", 0, 50))
    assert (150, Reason.NONE) == (there.downstream_offset, there.reason)


def test_another_cluster_under_the_sources_name_translates_nothing(
    flow: FlowSettings, source: FakeCluster, with_internal: FakeCluster
) -> None:
    """Its topics of the same name are not those that the map is about, and not recreated ones either."""
    ids = source.cluster_id(), with_internal.cluster_id()
    write_ledger(flow, with_internal, [FlowClaim(flow.name, *ids, 1)])
    replaced = FakeCluster("A", cluster_id="replaced")
    replaced.add_topic("orders")
    with pytest.raises(TerminalError, match="A is another cluster than the one that A->B was begun with"):
        FlowTranslator(flow, Clusters(replaced, with_internal)).translate([Ask("orders", 0, 1)])


@pytest.mark.parametrize(("upstream", "exact"), [(10, True), (11, False), (12, False)])
def test_what_another_engine_has_copied_a_moment_ago_is_not_exact(
    orders: Any, upstream: int, exact: bool
) -> None:
    """The map ends at offset 10, and 12 were copied; back it is the same."""
    orders.fill(orders.target, "A.orders", 2)
    topic_id = orders.source.topics["orders"].topic_id
    seen = Observed("orders", topic_id, 0, "A.orders", "", 0, 12, 10, 14, 12, {}, {}, (), 0, 0, 1, {})
    write_ledger(orders.flow, orders.target, [seen])
    orders.flow = replace(orders.flow, copied_by=CopiedBy.OTHER)
    [found] = orders.translate(("orders", 0, upstream))
    assert exact == found.exact
    [back] = orders.reverse(("A.orders", 0, upstream + 2))
    assert exact == back.exact


def test_where_the_map_tells_all_of_another_engines_copy_places_are_exact(orders: Any) -> None:
    """It is closed up to what was seen."""
    topic_id = orders.source.topics["orders"].topic_id
    seen = Observed("orders", topic_id, 0, "A.orders", "", 0, 10, 10, 12, 10, {}, {}, (), 0, 0, 1, {})
    write_ledger(orders.flow, orders.target, [seen])
    orders.flow = replace(orders.flow, copied_by=CopiedBy.OTHER)
    assert [True, True] == [
        it.exact for it in (*orders.translate(("orders", 0, 9)), *orders.reverse(("A.orders", 0, 11)))
    ]
