"""Take-overs from a program whose positions are a group's committed offsets on the source, on clusters in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from twinlog.cli.main import main
from twinlog.errors import ClusterRefused, TerminalError
from twinlog.kafka_types import TopicPartition
from twinlog.migration import takeover
from twinlog.migration.copier import SourceGroup
from twinlog.migration.takeover_report import ProofState, TakeoverReport

LETTERS = [f"{letter}-{n}" for n, letter in enumerate("abcdefgh")]
ORDERS = TopicPartition("orders", 0)


def dry(moving: Any, group: str = "mm1") -> TakeoverReport:
    return takeover.run(
        moving.flow, moving.clusters, SourceGroup(group), run_id="r", dry_run=True, watch_seconds=0
    )


@pytest.fixture
def orders(moving: Any) -> Any:
    """Eight records, six of them copied, four of those committed."""
    moving.topic("orders", *LETTERS)
    moving.copy("orders", *LETTERS[:6])
    moving.source.commit("mm1", ORDERS, 4)
    return moving


def test_the_position_is_the_offset_before_the_committed_one(orders: Any) -> None:
    """What was copied beyond it is found, and the report names the group."""
    report = dry(orders)
    [row] = report.partitions
    assert ("dry-run", ProofState.PROVED, 3, 5, 2) == (
        report.state,
        row.state,
        row.position,
        row.last_upstream,
        row.beyond,
    )
    assert ("mm1", "", "") == (report.source_group, report.connector, report.offsets_topic)
    assert () == report.notes


def test_a_copy_may_have_begun_later_than_the_source(moving: Any) -> None:
    """MM1 begins with the newest record unless its file says otherwise, which the flow's file does not tell."""
    moving.topic("orders", *LETTERS)
    moving.copy("orders", *LETTERS[3:6])
    moving.source.commit("mm1", ORDERS, 6)
    [row] = dry(moving).partitions
    assert (ProofState.PROVED, 5, 3) == (row.state, row.last_upstream, row.mapped)


def test_records_of_another_partition_are_refused(moving: Any) -> None:
    """MM1 sends a record without a key to any partition: nobody knows how far such a copy came."""
    for cluster, name in ((moving.source, "orders"), (moving.target, "A.orders")):
        cluster.add_topic(name, 2)
    for n, value in enumerate((b"a", b"b", b"c", b"d")):
        moving.source.append(TopicPartition("orders", n % 2), key=None, value=value)
        moving.target.append(TopicPartition("A.orders", n // 2), key=None, value=value)
    for partition in (0, 1):
        moving.source.commit("mm1", TopicPartition("orders", partition), 2)
    report = dry(moving)
    assert "refused" == report.state
    assert {ProofState.REFUSED} == {it.state for it in report.partitions}


def test_a_group_with_members_still_copies(orders: Any) -> None:
    """It is named, and nothing is compared."""
    group = orders.source.commit("mm1", ORDERS, 4)
    group.members = ("mm1-0", "mm1-1")
    with pytest.raises(TerminalError, match=r"group mm1 on A has 2 member\(s\)") as refused:
        dry(orders)
    assert "mm2-running" == refused.value.code


def test_an_offset_that_moves_is_noticed(
    orders: Any, running: Callable[[Callable[[], object]], None]
) -> None:
    """By a member between two sessions, or a program that assigns partitions by itself."""
    running(lambda: orders.source.commit("mm1", ORDERS, 5))
    with pytest.raises(TerminalError, match="the position of orders-0 still moves"):
        dry(orders)


@pytest.mark.parametrize("committed", [None, 0])
def test_a_group_that_committed_nothing_is_no_copier(moving: Any, committed: int | None) -> None:
    """A mistaken name would look like one; offset 0 says nothing either."""
    moving.topic("orders", *LETTERS)
    if committed is not None:
        moving.source.commit("other", ORDERS, committed)
    with pytest.raises(TerminalError, match="group other has committed no offset on A") as refused:
        dry(moving, "other")
    assert "no-positions" == refused.value.code


def test_a_group_that_may_not_be_seen_stops_it(orders: Any) -> None:
    """Without knowing who is in the group it is not safe to go on."""
    orders.source.refuse(
        "describe_groups", "mm1", ClusterRefused("no DESCRIBE on group mm1", code="unauthorised")
    )
    with pytest.raises(ClusterRefused, match="no DESCRIBE on group mm1"):
        dry(orders)


def test_it_is_either_an_mm2_or_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    """Both at once is a mistake of the command line."""
    assert 2 == main([
        "migrate",
        "takeover",
        "-c",
        "mm2.properties",
        "--source-group",
        "mm1",
        "--connector",
        "x",
    ])
    assert "--source-group is of a program that is no MM2" in capsys.readouterr().err
