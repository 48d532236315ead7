"""What a person is told first."""

from twinlog.recovery.report import PlacedGroup, become


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
