"""The gate wants an offset map for each partition whose copy holds records, and knows a part of what was observed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twinlog.fact import NOT_ASKED
from twinlog.facts.partition import MapSummary, PartitionFacts
from twinlog.judge.rows import map_wanted

HELD = PartitionFacts("orders", "orders", 0, 0, 9, 9, 0, None, 0, 9, 1, 1, unmapped_offsets=0)
"""Both sides hold nine offsets, all of them looked at; the map is whole, and knows of no record."""

UNSEEN = replace(HELD, source_log_start=NOT_ASKED, source_end=NOT_ASKED)


@pytest.mark.parametrize(
    ("row", "shared", "wanted"),
    [
        (HELD, True, 0),
        (HELD, False, 1),
        (replace(HELD, unmapped_offsets=None), True, 1),
        (replace(HELD, unmapped_offsets=3), True, 1),
        (replace(HELD, mapped=MapSummary(9, 9, 9, 9, 9)), False, 1),
        (replace(HELD, next_upstream=None, unmapped_offsets=None, source_end=0), True, 0),
        (replace(HELD, next_upstream=None, unmapped_offsets=None), True, 1),
        (replace(UNSEEN, next_upstream=None, unmapped_offsets=None), True, 1),
        (replace(HELD, target_stable_end=0), False, 0),
    ],
)
def test_a_copy_with_records_has_a_map_of_records_unless_others_write_to_it(
    row: PartitionFacts, shared: bool, wanted: int
) -> None:
    """Then a whole map is enough; one that is lost, or has lost a part, is not, nor a source that nobody saw."""
    assert wanted == map_wanted(row, shared=shared)
