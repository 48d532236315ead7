"""The gate wants an offset map for each partition whose copy holds records."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from twinlog.checks.partitions import MapSummary, PartitionRow
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.writers import ReverseFlow
from twinlog.gate.facts import partition_rows
from twinlog.state.ledger import Ledger

HELD = PartitionRow("orders", "orders", 0, 0, 9, 9, 0, None, 0, 9, 1, 1, unmapped_offsets=0)
"""Both sides hold nine offsets, all of them looked at; the map is whole, and knows of no record."""


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        (HELD, 0),
        (replace(HELD, unmapped_offsets=None), 1),
        (replace(HELD, unmapped_offsets=3), 1),
        (replace(HELD, remote_topic="A.orders"), 1),
        (replace(HELD, remote_topic="A.orders", mapped=MapSummary(9, 9, 9, 9, 9)), 1),
        (replace(HELD, next_upstream=None, unmapped_offsets=None, source_end=0), 0),
        (replace(HELD, next_upstream=None, unmapped_offsets=None), 1),
        (replace(HELD, target_stable_end=0), 0),
    ],
)
def test_a_copy_with_records_has_a_map_of_records_unless_others_write_to_it(
    flow: FlowSettings, row: PartitionRow, wanted: int
) -> None:
    """Then a whole map is enough; one that is lost, or has lost a part, is not."""
    (found,) = partition_rows(flow, Ledger(), SimpleNamespace(rows=(row,)), frozenset())
    assert wanted == found["mapped_wanted"]


def test_what_has_come_home_was_written_by_clients_of_the_target(flow: FlowSettings) -> None:
    """To a copy with another name, in a partition that the source itself never wrote to."""
    row = replace(HELD, remote_topic="A.orders")
    home = Ledger(reverse_flows=(ReverseFlow("mm2-ledger.B.home.internal", "id", 1),))
    assert home.came_home
    found = [partition_rows(flow, it, SimpleNamespace(rows=(row,)), frozenset()) for it in (Ledger(), home)]
    assert [1, 0] == [rows[0]["mapped_wanted"] for rows in found]
