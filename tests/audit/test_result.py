"""What an audit answers, and what the ledger keeps of it."""

from __future__ import annotations

import dataclasses

from twinlog.audit.comparison.values import Comparison, Difference, Scope
from twinlog.audit.lane import AuditSpec
from twinlog.audit.plan import PartitionPlan
from twinlog.audit.result import (
    differences_of,
    gathered,
    in_flight,
    judged_to,
    partition_row,
    remembered,
    unfinished,
)
from twinlog.formats.ledger.audit import DifferenceKind as Kind
from twinlog.formats.ledger.audit import FoundDifference, PartitionAudit, Unproved, UnprovedSpan
from twinlog.kafka_types import SourceIncarnation
from twinlog.logs.reading_lanes import Reading
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment

LIFE = SourceIncarnation("t", "id", 0)
MAP = OffsetMap.of([MapSegment(0, 100, (Extent(0, 0, 100),))])
BEFORE = PartitionAudit(
    "t", "id", 0, "A.t", "rid", 0, 60, 60, 60, 50, 9, (), 1, (FoundDifference(Kind.VALUE, 5, 5),), 7
)
SPEC = AuditSpec("t", "id", "A.t", 0, Scope(MAP, 60, 100, 60, 110), 100, 110)
PLAN = PartitionPlan(LIFE, "A.t", "rid", MAP, 0, 100, 110, (SPEC,), (), BEFORE)
EXTRA = Difference(Kind.EXTRA, None, 105, "the flow did not write it")
FOUND = Comparison(41, 30, 10, 0, (), (EXTRA,), {Kind.EXTRA: 1})


def test_an_audit_adds_to_the_one_it_goes_on_from():
    """Counts, differences, and how far it came."""
    kept = remembered(PLAN, FOUND, 110, 9)
    assert (0, 100, 110, 101, 80, 19, 2, 9) == (
        kept.start,
        kept.end,
        kept.downstream_end,
        kept.records,
        kept.equal_bytes,
        kept.equal_records,
        kept.difference_count,
        kept.at_ms,
    )
    assert (*BEFORE.differences, FoundDifference(Kind.EXTRA, None, 105)) == kept.differences
    row = partition_row(PLAN, FOUND, kept, 9)
    assert (0.99, 2, 100) == (row.coverage, row.differences, row.audited_to)
    assert [(105, 0), (5, 7)] == [(it.downstream_offset, it.found_ms) for it in differences_of(PLAN, FOUND)]


def test_records_that_were_just_being_copied_are_no_strangers():
    """A map read later knows them; the next audit begins in front of them."""
    newer = MAP.add(MapSegment(100, 110, (Extent(100, 104, 10),)))
    found = in_flight(PLAN, FOUND, newer)
    assert (True, 40, ()) == (found.equal, found.records, found.differences)
    assert 104 == judged_to(PLAN, newer)
    assert 110 == judged_to(PLAN, MAP)


def test_a_stranger_within_the_map_stays_one():
    """A newer map knows its place, but for another record."""
    inside = dataclasses.replace(FOUND, differences=(dataclasses.replace(EXTRA, downstream_offset=70),))
    assert inside == in_flight(PLAN, inside, MAP)


def test_what_failed_is_unfinished():
    """Nothing is claimed of it, and the flow is not called equal."""
    report = Reading("t", "id", 0, 60, None, "unreachable", "gone")
    found = gathered(PLAN, [report])
    assert (UnprovedSpan(60, 100, 40, Unproved.UNFINISHED),) == found.unproved
    problem = unfinished(PLAN, [report])
    assert problem is not None and ("unreachable", "t") == (problem.code, problem.topic)
    assert unfinished(PLAN, [Reading("t", "id", 0, 60, FOUND)]) is None


def test_what_no_map_covers_was_copied_too():
    """Only its share is proved."""
    unmapped = UnprovedSpan(0, 50, 50, Unproved.NO_MAP)
    plan = dataclasses.replace(PLAN, offset_map=OffsetMap.of([MapSegment(50, 100, (Extent(50, 50, 50),))]))
    found = Comparison(100, 50, 0, 0, (unmapped,))
    assert 0.5 == partition_row(plan, found, None, 9).coverage
