"""What a person is told first."""

from dataclasses import replace

from twinlog.cli.recovery.failover import groups_grid
from twinlog.recovery.report import FailbackReport, PlacedGroup, State, become


def test_groups_by_what_becomes_of_them():
    """The worst first; what is not known of one position is not known of its group."""
    groups = (
        PlacedGroup("a", "orders", 0, 5, 5, 0, 0, exact=True),
        PlacedGroup("b", "orders", 0, 5, 5, 0, 0),
        PlacedGroup("b", "orders", 1, 5, 7, 0, 150),
        PlacedGroup("c", "orders", 0, 5, 3, 2, 0),
        PlacedGroup("d", "orders", 0, 5, None, None, None),
        PlacedGroup("e", "orders", 0, 5, 5, None, 0),
        PlacedGroup("f", "orders", 0, 5, 5, 0, 0),
    )
    assert (
        "1 groups would skip 150 records, 1 groups would read 2 records again, 1 groups exact,"
        " 1 groups would skip and repeat nothing that is known, 1 groups would skip nothing, not known of 1 groups"
    ) == become(groups)


def test_without_groups_nothing_is_said():
    """No 0 of what was not looked at."""
    assert "" == become(())


def test_a_way_home_that_arrived_tells_of_what_came_home():
    """Nothing is on one side alone any more: the numbers are those of before."""
    report = FailbackReport(
        *("A->B", "failback-1", "failback", State.FOLLOWING),
        dry_run=False,
        steps=(),
        only_on_source=0,
        only_on_target=20,
        strayed=3,
    )
    assert "FOLLOWING; 17 records of the target came home, and what came since" == report.headline
    waits = replace(report, state=State.WAITING)
    assert "WAITING; 0 records on the source alone, 20 on the target alone" == waits.headline


def test_what_nobody_knows_to_be_read_again_is_no_missing_column():
    """Without its source nobody knows what a group has read since its checkpoint."""
    placed = PlacedGroup("a", "orders", 0, 5, 5, None, 0)
    assert ("a", "orders", "0", 5, 5, "not known", 0) == groups_grid("A->B", [placed]).rows[0]
