"""What share of the copy has been proved equal."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.audit.coverage import UNMAPPED, Coverage, PartitionCoverage, coverage, partition_coverage, total
from twinlog.formats.ledger.audit import (
    DifferenceKind,
    FoundDifference,
    PartitionAudit,
    Unproved,
    UnprovedSpan,
)
from twinlog.formats.ledger.records import Incarnation
from twinlog.formats.map.offset_map import encode_segment
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.kafka_types import SourceIncarnation
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.state.ledger import Ledger, ledger_from
from twinlog.state.progress import Maps, PackedMaps

LIFE = SourceIncarnation("t", "id", 0)
MAP = OffsetMap.of([MapSegment(0, 120, (Extent(0, 0, 50), Extent(60, 51, 50)))])
AUDIT = PartitionAudit("t", "id", 0, "A.t", "rid", 0, 120, 101, 100, 80, 20, (), 0, (), 7_000)


def maps(offset_map: OffsetMap) -> PackedMaps:
    return Maps({LIFE: PackedMap.of({it.first_upstream: encode_segment(it) for it in offset_map.pieces})}, {})


def judged(audit: PartitionAudit | None, offset_map: OffsetMap = MAP, **options: dict[str, str]) -> float:
    ledger = ledger_from([audit] if audit else [])
    (found,) = coverage(ledger, maps(offset_map), **options)
    return total([found]).share


@pytest.mark.parametrize(
    ("expected", "audit"),
    [
        (0.0, None),
        (1.0, AUDIT),
        (0.75, dataclasses.replace(AUDIT, end=85)),
        (0.9, dataclasses.replace(AUDIT, unproved=(UnprovedSpan(0, 10, 10, Unproved.SOURCE_RETENTION),))),
        (0.98, dataclasses.replace(AUDIT, difference_count=2)),
    ],
)
def test_share_of_a_partition(expected: float, audit: PartitionAudit | None):
    """Only copied records that were proved count."""
    assert expected == judged(audit)


def test_what_has_left_the_target_does_not_count():
    """Unproved records of the past do not weigh on the share of today."""
    audit = dataclasses.replace(AUDIT, unproved=(UnprovedSpan(0, 50, 50, Unproved.SOURCE_RETENTION),))
    assert 1.0 == judged(audit, OffsetMap.of([MapSegment(60, 120, (Extent(60, 51, 50),))]))


def test_what_no_map_covers_was_copied_and_not_proved():
    """In front of the map, or in a hole of it; until that part of the map has left the target, too."""
    hole = UnprovedSpan(50, 60, 10, Unproved.NO_MAP)
    assert 100 / 110 == judged(dataclasses.replace(AUDIT, unproved=(hole,)))
    front = OffsetMap.of([MapSegment(60, 120, (Extent(60, 51, 50),))])
    audit = dataclasses.replace(AUDIT, start=60, unproved=(UnprovedSpan(0, 60, 50, Unproved.NO_MAP),))
    assert 0.5 == judged(audit, front)
    assert 1.0 == judged(audit, OffsetMap.of([MapSegment(80, 120, (Extent(80, 71, 30),))]))


@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["mapped", *Unproved])), min_size=1))
def test_nothing_unproved_counts_as_proved(parts: list[tuple[int, str]]) -> None:
    """Proved are the records that lie in no span, of all that were copied."""
    pieces, spans, at, place, proved = [], [], 0, 0, 0
    for length, kind in parts:
        if kind != Unproved.NO_MAP:
            pieces.append(MapSegment(at, at + length, (Extent(at, place, length),)))
        if kind != "mapped":
            spans.append(UnprovedSpan(at, at + length, length, Unproved(kind)))
        proved += length * (kind == "mapped")
        at, place = at + length, place + length + 1
    if pieces:
        audit = dataclasses.replace(AUDIT, end=at, unproved=tuple(spans))
        found = partition_coverage(LIFE, OffsetMap.of(pieces), audit)
        begun = [it for it in spans if it.end >= pieces[0].first_upstream]
        assert (proved, proved + sum(it.records for it in begun)) == (found.proved, found.records)


WRONG = FoundDifference(DifferenceKind.VALUE, 5, 5)

STRANGER = FoundDifference(DifferenceKind.EXTRA, None, 50)


@pytest.mark.parametrize(
    ("found", "count", "proved", "percents"),
    [
        ((STRANGER,), 1, 100, (100, 100)),
        ((WRONG,), 1, 99, (99, 100)),
        ((STRANGER, WRONG), 2, 99, (99, 100)),
        ((STRANGER,), 5, 96, (96, 96)),
    ],
)
def test_a_strangers_record_is_no_copy(found: tuple, count: int, proved: int, percents: tuple[int, int]):
    """It differs, and takes nothing from what is proved; of what is not named nothing is assumed."""
    audit = dataclasses.replace(AUDIT, differences=found, difference_count=count)
    whole = total(coverage(ledger_from([audit]), maps(MAP)))
    assert (proved, count, percents) == (
        whole.proved,
        whole.differences,
        (whole.percent, whole.audited_percent),
    )


def test_what_was_not_reached_is_not_audited_whatever_strangers_wrote():
    """Fifty copies behind the audit stay fifty, and no stranger's record fills their place."""
    strangers = tuple(FoundDifference(DifferenceKind.EXTRA, None, it) for it in range(60, 110))
    audit = dataclasses.replace(AUDIT, end=60, differences=strangers, difference_count=50)
    whole = total(coverage(ledger_from([audit]), maps(MAP)))
    assert (50, 50, 50, {"not-audited": 50}) == (
        whole.proved,
        whole.audited_percent,
        whole.differences,
        {it.reason: it.records for it in whole.unproved},
    )


def test_a_copy_made_anew_is_not_proved():
    """The audit was of another topic with the same name."""
    assert 0.0 == judged(AUDIT, remote_topic_ids={"t": "another"})
    assert 1.0 == judged(AUDIT, remote_topic_ids={"t": "rid"})


def test_only_the_newest_life_counts():
    """A life that has ended on the source can no longer be compared."""
    ledger = ledger_from([AUDIT, Incarnation("t", "new", 1, "A.t")])
    assert () == coverage(ledger, maps(MAP))


def test_without_a_map_there_is_nothing_to_prove():
    """Of nothing, nothing is proved, and no percent is told."""
    nothing = total(coverage(Ledger(), Maps({}, {})))
    assert (Coverage(0, 0, 0, None), 0.0, None) == (nothing, nothing.share, nothing.percent)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["mapped", "new", *Unproved])), min_size=1),
    st.integers(0, 3),
)
def test_whatever_is_not_proved_is_counted_with_its_reason(parts: list[tuple[int, str]], differences: int):
    """Copied records are proved, differ, or are counted; 100 % is said only of all that both sides hold."""
    pieces, spans, at, end = [], [], 0, 0
    for length, kind in sorted(parts, key=lambda it: it[1] == "new"):
        if kind not in UNMAPPED:
            pieces.append(MapSegment(at, at + length, (Extent(at, at, length),)))
        if kind not in {"mapped", "new"}:
            spans.append(UnprovedSpan(at, at + length, length, Unproved(kind)))
        at += length
        end = end if kind == "new" else at
    if not pieces:
        return
    audit = dataclasses.replace(AUDIT, end=end, unproved=tuple(spans), difference_count=differences)
    whole = total([partition_coverage(LIFE, OffsetMap.of(pieces), audit)])
    proved_and_differing = whole.proved + min(differences, whole.records)
    assert whole.records <= proved_and_differing + sum(it.records for it in whole.unproved)
    if whole.percent == 100:
        assert whole.proved == whole.comparable > 0
    if not whole.proved:
        assert whole.percent in {0, None}


def test_one_partition_never_audited_leaves_a_flow_without_an_age():
    """The age of a sum is that of its oldest part."""
    parts = [PartitionCoverage("t", 0, 10, 10, 0, 7_000), PartitionCoverage("t", 1, 10, 5, 1, 9_000)]
    assert (0.75, 1, 2.0) == (
        total(parts).share,
        total(parts).differences,
        total(parts).age_seconds(9_000),
    )
    assert total([*parts, PartitionCoverage("t", 2, 1, 0, 0, None)]).age_seconds(9_000) is None
    assert total([*parts, PartitionCoverage("t", 2, 0, 0, 0, None)]).age_seconds(9_000) == 2.0


def test_an_audit_that_has_yet_to_come_leaves_a_flow_without_an_age():
    """Its clock is ahead: how old it is nobody knows, whatever the others say; a minute is no matter."""
    parts = [PartitionCoverage("t", 0, 10, 10, 0, 7_000), PartitionCoverage("t", 1, 10, 10, 0, 109_000)]
    assert (None, None, 42.0) == tuple(total(parts).age_seconds(now) for now in (9_000, 48_999, 49_000))
    assert None is total(parts[1:]).age_seconds(9_000)


def test_a_map_that_cannot_be_read_proves_nothing():
    """Its partition is not called proved for want of records."""
    (found,) = coverage(Ledger(), Maps({}, {LIFE: UnreadableMap("no")}))
    assert (0.0, None) == (total([found]).share, total([found]).age_seconds(1))
