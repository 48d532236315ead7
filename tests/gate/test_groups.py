"""What the gate takes for a group's place when the source is lost."""

import pytest

from twinlog.cluster.admin.groups import GroupPartition
from twinlog.formats.ledger.topics import GroupPosition, Incarnation, IncarnationReason, Rebuild, RebuildPhase
from twinlog.formats.mm2.records import Checkpoint
from twinlog.gate.groups import of_this_incarnation, owed
from twinlog.state.ledger import Ledger
from twinlog.state.mm2_topics import DatedCheckpoint


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
    assert [(it, "A.orders", 0) for it in expected] == [*owed(ledger, ["orders"])]
    assert [] == [*owed(ledger, ["payments"])]
