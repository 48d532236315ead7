"""The commands that accept what stands against a failover."""

from twinlog.formats.ledger.accepted import Amount
from twinlog.gate.accepting import ways

LAG = Amount("lag-records", "orders", 150, 0)


def test_each_and_all_can_be_pasted():
    """The number that was shown is part of the command."""
    other = Amount("no-gaps", "orders", 2, 0)
    assert [
        "twinlog accept lag-records --flow 'A->B' --for orders --up-to 150 --until 8h --reason ...",
        "twinlog accept no-gaps --flow 'A->B' --for orders --up-to 2 --until 8h --reason ...",
        "all that it showed: twinlog accept --seen x --flow 'A->B' --until 8h --reason ...",
    ] == list(ways("A->B", [LAG, other], "x"))


def test_nobody_is_shown_how_to_accept_that_a_flow_has_never_run():
    """There is nothing to fail over to."""
    assert [] == list(ways("A->B", [LAG, Amount("flow-has-run", "A->B", 1, 0)], "x"))
