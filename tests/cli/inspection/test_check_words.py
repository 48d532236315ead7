"""`twinlog check` says which permissions a cluster does not tell."""

import pytest

from twinlog.cli.inspection.check import FlowCheck, Permission, _grids
from twinlog.cli.render import Grid


def permission(*, unknown: bool, required: bool) -> Permission:
    operations = ("READ",)
    told = operations if unknown else ()
    return Permission("A", "topic", "orders", operations, (), told, required=required, why="the copy")


def shown(*permissions: Permission) -> tuple[int, str]:
    """Return how many rows the table of permissions has, and what stands in its place if it has none."""
    found = next(
        it
        for it in _grids(FlowCheck("A->B", passed=True, permissions=permissions))
        if "permissions" in it.title
    )
    return (len(found.rows), "") if isinstance(found, Grid) else (0, found.title)


@pytest.mark.parametrize(
    ("permissions", "expected"),
    [
        ([(False, True), (False, False)], (0, "A->B: permissions: all 2 are there")),
        (
            [(False, True), (True, False)],
            (
                0,
                "A->B: permissions: 1 of 2 are there; the cluster does not tell of the others, which only syncs need",
            ),
        ),
    ],
)
def test_all_are_there_is_said_only_of_what_was_told(permissions, expected) -> None:
    """Kafka before 2.3 does not list what a user may do."""
    assert expected == shown(*(permission(unknown=it, required=need) for it, need in permissions))


def test_a_permission_that_the_copy_needs_is_shown_if_nobody_tells_of_it() -> None:
    """It has a row: a copy that stops would be a surprise."""
    rows, _ = shown(permission(unknown=True, required=True))
    assert 1 == rows
