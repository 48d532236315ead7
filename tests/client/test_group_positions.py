"""Where groups stand: now, at a time, and with the source gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from twinlog.client.group_positions import Groups, records_at, standing_at, standing_now
from twinlog.client.pairs import Ask
from twinlog.client.translator import translate_groups, translate_time
from twinlog.cluster.admin.groups import GroupType
from twinlog.errors import UsageError
from twinlog.formats.ledger.topics import Incarnation, IncarnationReason
from twinlog.formats.mm2.records import Checkpoint
from twinlog.kafka_types import TopicPartition
from twinlog.state.ledger import write_ledger

ORDERS = TopicPartition("orders", 0)
STRANGE = "g,1:/é x"


def checkpoint(world: Any, group: str, upstream: int, downstream: int, at_ms: int) -> None:
    topic = world.flow.policy.checkpoints_topic("A")
    if topic not in world.target.topics:
        world.target.add_topic(topic)
    it = Checkpoint(group, "A.orders", 0, upstream, downstream)
    world.target.append(TopicPartition(topic, 0), key=it.key(), value=it.value(), timestamp=at_ms)


def test_groups_by_name_and_by_pattern(orders: Any) -> None:
    """Names are taken as they are, patterns match whole names."""
    for group, offset in [(STRANGE, 3), ("billing", 5), ("billing-2", 7)]:
        orders.source.commit(group, ORDERS, offset)
    assert (Ask("orders", 0, 3, STRANGE),) == standing_now(
        orders.flow, orders.clusters, Groups((STRANGE,))
    ).asks
    found = translate_groups(orders.flow, orders.clusters, Groups(pattern="billing.*"))
    assert [("billing", 7), ("billing-2", 9)] == [(it.group, it.downstream_offset) for it in found.answers]
    assert found.complete
    both = standing_now(orders.flow, orders.clusters, Groups((STRANGE,), "billing"))
    assert ["billing", STRANGE] == [it.group for it in both.asks]


def test_what_a_group_reads_besides_is_said(orders: Any) -> None:
    """Topics the flow does not replicate are left out with a note; other kinds of groups too."""
    orders.source.add_topic("mm2-x.internal")
    orders.source.commit("billing", ORDERS, 3)
    orders.source.commit("billing", TopicPartition("mm2-x.internal", 0), 0)
    orders.source.commit("billing-share", ORDERS, 3).type = GroupType.SHARE
    found = standing_now(orders.flow, orders.clusters, Groups(pattern="billing.*"))
    assert 1 == len(found.asks)
    assert [
        "billing-share is a share group: it has no offsets to translate",
        "billing also reads what A->B does not replicate: mm2-x.internal",
    ] == list(found.notes)


def test_groups_nobody_knows(orders: Any) -> None:
    """An error, never an empty answer."""
    orders.source.commit("billing", ORDERS, 3)
    with pytest.raises(UsageError, match="A has no group bill"):
        standing_now(orders.flow, orders.clusters, Groups(("billing", "bill")))
    with pytest.raises(UsageError, match="no consumer group that matches 'bill'"):
        standing_now(orders.flow, orders.clusters, Groups(pattern="bill"))


@pytest.mark.parametrize(
    "groups", [Groups(("billing", "other")), Groups(("other",)), Groups(pattern="oth.*")]
)
def test_groups_without_a_position_in_the_flow(orders: Any, groups: Groups) -> None:
    """An empty answer would look as if every group had one."""
    orders.source.add_topic("mm2-x.internal")
    orders.source.commit("billing", ORDERS, 3)
    orders.source.commit("other", TopicPartition("mm2-x.internal", 0), 0)
    told = "other: no position in a topic that A->B replicates, only in mm2-x.internal"
    with pytest.raises(UsageError, match=told):
        standing_now(orders.flow, orders.clusters, groups)


def test_with_the_source_gone_the_checkpoints_say(orders: Any) -> None:
    """Their upstream offsets are translated by the map, which is better than what MM2 wrote beside them."""
    checkpoint(orders, "billing", 5, 3, 100)
    checkpoint(orders, "billing", 9, 4, 200)
    orders.lose_source()
    found = translate_groups(orders.flow, orders.clusters, Groups(("billing",)))
    [answer] = found.answers
    assert (9, 11, True) == (answer.upstream_offset, answer.downstream_offset, answer.exact)
    assert (200,) == found.as_of_ms
    assert "A is out of reach" in found.notes[0]


def test_at_a_time_the_last_checkpoint_before_it(orders: Any) -> None:
    """What is left of history; nothing left is an error."""
    checkpoint(orders, "billing", 5, 3, 100)
    checkpoint(orders, "billing", 9, 4, 200)
    found = standing_at(orders.flow, orders.clusters, Groups(("billing",)), 150)
    assert ((Ask("orders", 0, 5, "billing"),), (100,)) == (found.asks, found.as_of_ms)
    with pytest.raises(UsageError, match="B has no checkpoint of billing"):
        standing_at(orders.flow, orders.clusters, Groups(("billing",)), 99)


def test_checkpoints_of_an_earlier_life_say_nothing_of_this_one(orders: Any) -> None:
    """Their offsets are of a log that is gone: left out and said, and an error for a group that has no others."""
    orders.source.add_topic("other")
    other = Checkpoint("billing", "A.other", 0, 7, 7)
    checkpoint(orders, "billing", 5, 3, 100)
    checkpoint(orders, "audit", 5, 3, 100)
    checkpoints = TopicPartition(orders.flow.policy.checkpoints_topic("A"), 0)
    orders.target.append(checkpoints, key=other.key(), value=other.value(), timestamp=100)
    topic_id = orders.source.topics["orders"].topic_id
    anew = Incarnation("orders", topic_id, 150, "A.orders", number=2, reason=IncarnationReason.APPEND)
    write_ledger(orders.flow, orders.target, [anew])
    found = standing_at(orders.flow, orders.clusters, Groups(("billing",)), 200)
    assert (Ask("other", 0, 7, "billing"),) == found.asks
    assert "billing: its checkpoints of orders are about the topic before it was made anew" in found.notes[1]
    orders.lose_source()
    with pytest.raises(UsageError, match="B has no checkpoint of audit"):
        standing_now(orders.flow, orders.clusters, Groups(("audit",)))
    checkpoint(orders, "audit", 2, 2, 150)
    assert (Ask("orders", 0, 2, "audit"),) == standing_now(
        orders.flow, orders.clusters, Groups(("audit",))
    ).asks


def test_checkpoints_of_what_came_from_the_target_are_no_offsets_of_the_source(orders: Any) -> None:
    """A reader of `B.x.orders` has a checkpoint in the target's own `x.orders`: it says nothing about `orders`."""
    own = Checkpoint("failback", "x.orders", 0, 5, 4)
    checkpoint(orders, "billing", 5, 3, 100)
    checkpoints = TopicPartition(orders.flow.policy.checkpoints_topic("A"), 0)
    orders.target.append(checkpoints, key=own.key(), value=own.value(), timestamp=100)
    orders.lose_source()
    found = standing_now(orders.flow, orders.clusters, Groups(pattern=".*"))
    assert (Ask("orders", 0, 5, "billing"),) == found.asks
    assert "failback: its checkpoints of x.orders are about no copy of A, and left out" == found.notes[1]
    with pytest.raises(UsageError, match="B has no checkpoint of failback") as raised:
        standing_now(orders.flow, orders.clusters, Groups(("failback",)))
    assert "about no copy of A" in raised.value.hint


def test_an_alias_with_the_separator_in_it(orders: Any) -> None:
    """Its names cannot be taken apart; the ledger knows what they are copies of."""
    flow = replace(orders.flow, source=replace(orders.flow.source, alias="us.east"))
    orders.target.add_topic("us.east.orders")
    orders.fill(orders.target, "us.east.orders", 12)
    for topic in (flow.ledger_topic, flow.policy.checkpoints_topic("us.east")):
        orders.target.add_topic(topic)
    topic_id = orders.source.topics["orders"].topic_id
    write_ledger(flow, orders.target, [Incarnation("orders", topic_id, 1, "us.east.orders")])
    known = Checkpoint("billing", "us.east.orders", 0, 5, 4)
    checkpoints = TopicPartition(flow.policy.checkpoints_topic("us.east"), 0)
    orders.target.append(checkpoints, key=known.key(), value=known.value(), timestamp=100)

    assert (Ask("orders", 0, 5, "billing"),) == standing_at(
        flow, orders.clusters, Groups(("billing",)), 150
    ).asks
    orders.lose_source("us.east")
    assert (Ask("us.east.orders", 0, 7),) == records_at(flow, orders.clusters, 1007, {"orders"}).asks


REBUILT, APPENDED, SEEN = IncarnationReason.REBUILD, IncarnationReason.APPEND, IncarnationReason.FIRST_SEEN


@pytest.mark.parametrize(
    ("earlier", "reason", "known", "expected"),
    [
        ((), REBUILT, True, 5),
        ((), APPENDED, True, None),
        ((), REBUILT, False, None),
        (((50, 1, SEEN),), REBUILT, True, None),
        (((120, 2, REBUILT),), REBUILT, True, None),
    ],
)
def test_a_copy_made_anew_leaves_upstream_offsets_what_they_are(
    orders: Any,
    earlier: tuple[tuple[int, int, IncarnationReason], ...],
    reason: IncarnationReason,
    known: bool,
    expected: Any,
) -> None:
    """Its map translates them; only where the source may have lived another life do checkpoints count for nothing."""
    checkpoint(orders, "billing", 5, 3, 100)
    topic_id = orders.source.topics["orders"].topic_id if known else ""
    lives = [
        Incarnation("orders", f"earlier-{n}", at, "A.orders", number=n, reason=why) for at, n, why in earlier
    ]
    write_ledger(
        orders.flow,
        orders.target,
        [*lives, Incarnation("orders", topic_id, 150, "A.orders", number=9, reason=reason)],
    )
    orders.lose_source()
    try:
        found = [it.offset for it in standing_now(orders.flow, orders.clusters, Groups(("billing",))).asks]
    except UsageError:
        found = [None]
    assert [expected] == found


def test_a_time_without_groups_is_the_first_record_then(orders: Any) -> None:
    """Records of the fixture are at 1000 ms and on, one each ms."""
    found = translate_time(orders.flow, orders.clusters, 1005, {"orders"})
    assert [(5, 7)] == [(it.upstream_offset, it.downstream_offset) for it in found.answers]
    late = records_at(orders.flow, orders.clusters, 9999, None)
    assert (Ask("orders", 0, 12),) == late.asks
    with pytest.raises(UsageError, match="does not replicate topic nope"):
        records_at(orders.flow, orders.clusters, 1, {"nope"})


def test_a_time_with_the_source_gone(orders: Any) -> None:
    """The copies have the same timestamps."""
    orders.lose_source()
    found = translate_time(orders.flow, orders.clusters, 1007, None)
    assert [("A.orders", 5, 7)] == [
        (it.topic, it.upstream_offset, it.downstream_offset) for it in found.answers
    ]
    with pytest.raises(UsageError, match="B has no copy of nope"):
        records_at(orders.flow, orders.clusters, 1, {"nope"})
