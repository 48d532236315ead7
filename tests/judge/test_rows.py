"""The gate wants an offset map for each partition whose copy holds records, and knows a part of what was observed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twinlog.config.flow.settings import CopiedBy, FlowSettings
from twinlog.fact import NOT_ASKED, Total, Unknown, total
from twinlog.facts.flow import FlowFacts
from twinlog.facts.partition import MapSummary, PartitionFacts
from twinlog.facts.recall import NOT_SEEN
from twinlog.facts.topic import TopicFacts
from twinlog.formats.ledger.observed import Observed
from twinlog.judge.check import NOT_APPLICABLE, Use, judge
from twinlog.judge.rows import columns_of, found_in, map_wanted, topic_rows
from twinlog.judge.table import asked
from twinlog.kafka_types import SourceIncarnation
from twinlog.state.ledger import Ledger
from twinlog.state.progress import Maps

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
        (replace(HELD, open_offsets=3), True, 1),
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


@pytest.mark.parametrize(
    ("partitions", "carried", "missing", "doubled"),
    [
        (1, {}, "", ""),
        (2, {}, "1 partition(s) were not observed yet", "1 partition(s) were not observed yet"),
        (
            1,
            {"skipped": [{"upstream": [5, 8], "told": False}]},
            "3 record(s) have no copy so far, though later ones have",
            "",
        ),
        (1, {"unmatched_since": 1}, "", "records at the end of the copy are like none of the source so far"),
    ],
)
def test_what_was_found_is_known_in_part_while_some_was_not_looked_at(
    partitions: int, carried: dict, missing: str, doubled: str
) -> None:
    """Neither a partition that could not be read, nor records that wait for their copy, count as sound."""
    seen = Observed("orders", "", 0, "A.orders", "", 0, 9, 9, 9, 9, {"doubled": 4}, {}, (), 0, 0, 1, carried)
    ledger = Ledger(observed={SourceIncarnation("orders", "", 0): seen})
    topic = TopicFacts("orders", "A.orders", partitions, Total(), 0, 0, (HELD,))
    nothing = Total()
    facts = FlowFacts(1, True, ledger, {}, Maps({}, {}), (topic,), (), (), 0, nothing, nothing, 0, {}, {}, 1)
    found = found_in(facts, topic)
    assert (Total(0, missing), Total(4, doubled)) == (found["missing"], found["doubled"])


def test_a_copy_with_findings_or_not_looked_at_is_not_proved_equal(flow: FlowSettings) -> None:
    """What was found counts as not proved; where the last cycle did not look, nobody knows."""
    flow = replace(flow, copied_by=CopiedBy.MIRRORING)
    unproved = {}
    for missing, counts, carried in [
        (Total(), {}, {}),
        (Total(), {"changed": 3, "foreign": 1}, {}),
        (NOT_SEEN, {}, {}),
        (NOT_SEEN, {"missing": 2}, {}),
        (Total(), {}, {"unmatched_since": 1}),
    ]:
        seen = Observed("orders", "", 0, "A.orders", "", 0, 9, 9, 9, 9, counts, {}, (), 0, 0, 1, carried)
        ledger = Ledger(observed={SourceIncarnation("orders", "", 0): seen})
        topic = TopicFacts("orders", "A.orders", 1, total([missing]), 0, 0, (HELD,))
        none = Total()
        facts = FlowFacts(1, False, ledger, {}, Maps({}, {}), (topic,), (), (), 0, none, none, 0, {}, {}, 1)
        (row,) = topic_rows(flow, facts, Use.SOURCE_DEAD, ())
        unproved[missing == NOT_SEEN, *counts, *carried] = row["unproved_records"]
    assert {
        (False,): 0,
        (False, "changed", "foreign"): 4,
        (True,): NOT_SEEN,
        (True, "missing"): 2,
        (False, "unmatched_since"): Unknown(
            "records at the end of the copy are like none of the source so far"
        ),
    } == unproved


@pytest.mark.parametrize(("lost", "early", "known"), [(False, 0, 0), (True, 0, None), (True, 4, 4)])
def test_what_left_the_copy_is_not_called_kept_before_it_is_judged(
    lost: bool, early: int, known: int | None
) -> None:
    """Of records that the map does not tell of yet nobody knows it; what is known to be deleted early stays so."""
    cell = columns_of(replace(HELD, lost_open=lost, deleted_early=early))["deleted_early"]
    assert known == (None if isinstance(cell, Unknown) else cell)


@pytest.mark.parametrize(("unmapped", "answer"), [(None, "n/a"), (Unknown("torn"), False), (0, True)])
def test_without_a_map_nothing_is_said_to_be_copied_once(
    unmapped: int | Unknown | None, answer: bool | str
) -> None:
    """The map was deleted, or was never made: there is nothing to judge; one that cannot be read is not known."""
    row = columns_of(replace(HELD, unmapped_offsets=unmapped)) | {"mapped_wanted": 1, "lag_allowed": 0}
    (suite,) = (it for it in asked(Use.PLANNED, observed=True) if it.name == "partitions")
    found = {it.name: it for it in judge(suite, [row]).results}
    twice = [found[name] for name in ("nothing-copied-twice", "downstream-counted-once")]
    assert [answer] * 2 == [it.observed if it.observed == NOT_APPLICABLE else it.passed for it in twice]
    assert not found["map-known"].passed
