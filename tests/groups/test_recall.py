"""What the target alone tells of the place of a group, once the source is lost."""

from dataclasses import replace

import pytest

from twinlog.cluster.admin.groups import GroupPartition, GroupState
from twinlog.formats.ledger.observed import Observed
from twinlog.formats.ledger.topics import GroupPosition, Incarnation, IncarnationReason, Rebuild, RebuildPhase
from twinlog.formats.map.offset_map import MapKey, encode_map_key
from twinlog.formats.mm2.records import Checkpoint
from twinlog.groups import checkpoints
from twinlog.groups.recall import of_this_incarnation, recall
from twinlog.groups.report import GroupPartitionRow, SyncReason
from twinlog.kafka_types import TopicPartition
from twinlog.lifecycle.reader_positions import owed
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.state.mm2_topics import DatedCheckpoint
from twinlog.state.progress import read_packed


def test_a_checkpoint_of_an_earlier_life_is_no_place(flow):
    """A group that was never seen since its topic was made anew has no place in the new copy to be missing from."""
    anew = Incarnation("orders", "new", 150, "A.orders", number=2, reason=IncarnationReason.REBUILD)
    pay = Incarnation("pay", "first", 150, "A.pay")
    ledger = Ledger(incarnations={"orders": anew, "pay": pay})
    noted = {
        GroupPartition(group, topic, 0): DatedCheckpoint(Checkpoint(group, topic, 0, 5, 5), at_ms)
        for group, topic, at_ms in [
            ("old", "A.orders", 149),
            ("new", "A.orders", 150),
            ("old", "A.pay", 149),
            ("own", "x.orders", 149),
        ]
    }
    assert {("new", "A.orders", 0), ("old", "A.pay", 0), ("own", "x.orders", 0)} == of_this_incarnation(
        flow, noted, ledger
    ).keys()


@pytest.mark.parametrize(
    ("phase", "rebuilt", "expected"),
    [
        (RebuildPhase.COPYING, "new", ["waits"]),
        (RebuildPhase.COPYING, "old", []),
        (RebuildPhase.DELETING, "newer", ["waits"]),
        (RebuildPhase.DONE, "new", []),
    ],
)
def test_a_place_that_a_rebuild_still_owes_is_missing(phase, rebuilt, expected):
    """Of the life that is copied now, or of the one that will be; what nobody can restore is owed to nobody."""
    places = (
        GroupPosition("waits", 0, 4, 4, restored=phase is RebuildPhase.DONE),
        GroupPosition("stands", 0, 4, 4, restored=True),
        GroupPosition("unknown", 0, 4, None),
    )
    made = Rebuild("orders", rebuilt, "A.orders", "gone", phase, "jo", "drill", 150, groups=places)
    anew = Incarnation("orders", "new", 150, "A.orders", number=2, reason=IncarnationReason.REBUILD)
    ledger = Ledger(incarnations={"orders": anew}, rebuilds={"orders": made})
    assert [(it, "A.orders", 0) for it in expected] == [*dict(owed(ledger, ["orders"]))]
    assert [] == [*owed(ledger, ["payments"])]


class TestRecall:
    """What the target alone knows is decided as with the source, by the same rules."""

    def recalled(self, flow, target, *records) -> dict[str, GroupPartitionRow]:
        for it in records:
            target.append(TopicPartition(flow.ledger_topic, 0), key=it.key(), value=it.value())
        ledger, maps = read_ledger(flow, target), read_packed(flow, target)
        return {it.key.group: it.row for it in recall(flow, target, ledger, maps, ["orders"])}

    def test_what_a_rebuild_owes_is_named_without_any_checkpoint(self, flow, orders, copied, source, target):
        """The ledger knows it: a failover that read checkpoints alone would promote, and the group begin anywhere."""
        copied(orders, 0, 3)
        life = source.topics["orders"].topic_id
        places = (GroupPosition("billing", 0, 4, 5),)
        made = Rebuild("orders", life, "A.orders", "old", RebuildPhase.COPYING, "x", "", 1, groups=places)
        row = self.recalled(flow, target, Incarnation("orders", life, 1, "A.orders"), made)["billing"]
        assert (True, SyncReason.RESTORING, None) == (row.misplaced, row.reason, row.goes_on_at)

    def test_the_map_may_know_more_than_the_checkpoint(self, flow, clusters, orders, copied, source, target):
        """A group that was ahead of the copy then goes on at its record; one that read on there stays, and skips."""
        flow = replace(flow, sync_group_offsets=True)
        copied(orders, 0, 3)
        source.commit("ahead", orders, 5)
        source.commit("further", orders, 2)
        checkpoints.run(flow, clusters)
        copied(orders, 3, 5)
        target.commit("further", TopicPartition("A.orders", 0), 4)
        life = Incarnation("orders", source.topics["orders"].topic_id, 1, "A.orders")
        rows = self.recalled(flow, target, life)
        assert {"ahead": (5, True, 5, 0), "further": (2, False, 4, 2)} == {
            name: (it.downstream_offset, it.exact, it.goes_on_at, it.records_skipped)
            for name, it in rows.items()
        }

    def test_members_there_keep_a_group_from_its_place(self, flow, clusters, orders, copied, source, target):
        """Unless it stands there already, or further on."""
        copied(orders, 0, 5)
        for group, there in (("before", 1), ("at", 3)):
            source.commit(group, orders, 3)
            target.commit(group, TopicPartition("A.orders", 0), there).state = GroupState.STABLE
        checkpoints.run(flow, clusters)
        life = Incarnation("orders", source.topics["orders"].topic_id, 1, "A.orders")
        rows = self.recalled(flow, target, life)
        assert {"before": True, "at": False} == {name: it.misplaced for name, it in rows.items()}

    def test_in_the_open_tail_of_another_engines_copy_no_place_is_exact(
        self, flow, clusters, orders, copied, source, target
    ):
        """The map ends before what the group has read; without the source, too."""
        copied(orders, 0, 3)
        copied(orders, 3, 5)
        source.commit("billing", orders, 5)
        checkpoints.run(replace(flow, sync_group_offsets=True), clusters)
        topic_id = source.topics["orders"].topic_id
        life = Incarnation("orders", topic_id, 1, "A.orders")
        seen = Observed("orders", topic_id, 0, "A.orders", "", 0, 5, 3, 5, 5, {}, {}, (), 0, 0, 1, {})
        assert self.recalled(flow, target, life)["billing"].exact
        key = encode_map_key(MapKey("orders", topic_id, 0, 3))
        target.append(TopicPartition(flow.offset_map_topic, 0), key=key, value=None)
        row = self.recalled(flow, target, life, seen)["billing"]
        assert (False, False) == (row.exact, row.ahead)
