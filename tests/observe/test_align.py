"""Matching a copy with its source: what is wrong is found and named record by record, a sound copy never alarms.

Covers twinlog.observe.align, .search, .side, .likeness, .tally and .last_copies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from observed_logs import LATER, NUMBERED, ListLog, Records, count, distinct, laid, observed, sources, told

from batches import Rec
from twinlog.observe import last_copies
from twinlog.observe.align import match
from twinlog.observe.values import HORIZON_MS, Carried, Finding, Matched
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent


def extents(results: Sequence[Matched]) -> list[Extent]:
    """The map's extents."""
    return [run for result in results for segment in result.segments for run in segment.runs]


def pairs(results: Sequence[Matched]) -> list[tuple[int, int]]:
    """The map's records."""
    return [(run.upstream + n, run.downstream + n) for run in extents(results) for n in range(run.length)]


@st.composite
def copied(draw: Any, passes: int = 1) -> tuple[Records, Records, list[tuple[int, int]]]:
    """A source, a copy made in so many passes, each from where an older one has been, and the passes [from, to)."""
    source = draw(sources())
    at, reached, ways = 0, 0, []
    for number in range(passes):
        at = draw(st.integers(at, reached))
        reached = max(reached, draw(st.integers(reached, len(source))))
        if number == passes - 1:
            reached = len(source)
        ways.append((at, reached))
    records = [record for first, end in ways for _, record in source[first:end]]
    return source, laid(records, draw), ways


@given(copied(), st.lists(st.integers(1, 5), min_size=1, max_size=3), st.sampled_from([0, 1]))
def test_a_sound_copy_has_no_finding(copy, sizes, codec):
    """Through any gaps; and the map is the true one."""
    source, target, _ = copy
    results = observed(source, target, sizes=sizes, codec=codec)
    assert set() == told(results, source, target)
    assert [(up, down) for (up, _), (down, _) in zip(source, target, strict=True)] == pairs(results)
    assert len(source) == sum(it.equal for it in results) == sum(it.source_records for it in results)


@given(copied(), st.data())
def test_what_retention_took_is_not_comparable(copy, data):
    """From either side, however much: no finding."""
    source, target, _ = copy
    starts = data.draw(st.tuples(*[st.integers(0, len(source))] * 2))
    expired = {"source_start": starts[0], "target_start": starts[1]}
    assert set() == told(observed(source, target, **expired), source, target)


@given(copied(), st.data())
def test_what_compaction_took_is_not_comparable(copy, data):
    """From either side, another part of it: a record may be gone if its key comes again later."""
    sides = []
    for log in copy[:2]:
        last = {record.key: offset for offset, record in log}
        sides.append([it for it in log if last[it[1].key] == it[0] or data.draw(st.booleans())])
    results = observed(*sides, compacted=True)
    assert set() == told(results, *sides)
    both = {record.value for _, record in sides[0]} & {record.value for _, record in sides[1]}
    assert len(both) == sum(it.equal for it in results)


@given(copied(passes=2))
def test_a_topic_that_stamps_records_itself_is_compared_without_timestamps(copy):
    """What is doubled there is found as it is elsewhere."""
    source, target, _ = copy
    plain, stamped = observed(source, target), observed(source, target, append_time=5_000)
    assert told(plain, source, target) == told(stamped, source, target)
    assert pairs(plain) == pairs(stamped)


def test_a_deletion_that_became_an_empty_value_is_changed():
    """As some engines make of a null."""
    source = list(enumerate([Rec(b"a", b"k", 1), Rec(None, b"k", 2), Rec(b"c", b"k", 3)]))
    target = laid([Rec(b"a", b"k", 1), Rec(b"", b"k", 2), Rec(b"c", b"k", 3)])
    assert {(Finding.CHANGED, 1, 1, ("value",))} == told(observed(source, target), source, target)


@given(copied(passes=4))
def test_each_doubled_record_is_named(copy):
    """And the map has the last copy of each."""
    source, target, ways = copy
    rows = [row for first, end in ways for row in range(first, end)]
    seen: set[int] = set()
    doubled, last = set(), {}
    for row, (down, _) in zip(rows, target, strict=True):
        up = source[row][0]
        if row in seen:
            doubled.add((Finding.DOUBLED, up, down, ()))
        seen.add(row)
        last[up] = down
    results = observed(source, target)
    assert doubled == told(results, source, target)
    assert count(results, Finding.DOUBLED) == len(doubled)
    assert sorted(last.items()) == pairs(results)


@given(copied(passes=3), st.data())
def test_increments_find_what_one_pass_finds(copy, data):
    """Wherever they are cut, if the copy was never read further than the source."""
    source, target, _ = copy
    if data.draw(st.booleans()):
        del target[data.draw(st.integers(0, len(target) - 1))]
    cuts = []
    for _ in range(data.draw(st.integers(1, 3))):
        down = data.draw(st.integers(cuts[-1][1] if cuts else 0, len(target) + 5))
        values = {record.value for offset, record in target if offset < down}
        least = max((offset for offset, record in source if record.value in values), default=-1) + 1
        cuts.append((max(least, data.draw(st.integers(0, 100)), cuts[-1][0] if cuts else 0), down))
    once, often = observed(source, target), observed(source, target, cuts)
    assert told(once, source, target) == told(often, source, target)
    assert pairs(once) == pairs(often)


@given(copied(passes=3), st.data())
def test_a_map_that_was_closed_stays_true(copy, data):
    """An engine that falls back behind what was closed doubles it; no reader misses a record by its place."""
    source, target, _ = copy
    at, results, carried = 0, [], Carried(0, 0)
    for turn in range(6):
        at = data.draw(st.integers(at, len(target) + 5)) if turn < 4 else 1 << 60
        result = match(ListLog(source), ListLog(target, at), carried, now_ms=turn * LATER)
        results.append(result)
        carried = result.carried
    records, copies = dict(source), dict(target)
    made = OffsetMap.of([segment for result in results for segment in result.segments])
    assert all(copies[down] == records[up] for up, down in pairs(results))
    places = made.translate_many(sorted(records)).offset.tolist()
    for up, place in zip(sorted(records), places, strict=True):
        behind = {record for down, record in target if down >= place}
        assert {record for offset, record in source if offset >= up} <= behind


CHANGES: dict[str, dict[str, Any]] = {
    "key": {"key": b"other"},
    "value": {"value": b"other"},
    "headers": {"headers": (("h", b"x"),)},
    "timestamp": {"timestamp": 7},
}


@given(st.data())
def test_planted_damage_is_found_exactly(data):
    """Each kind, at its offsets, and nothing else."""
    source = data.draw(sources(least=12))
    kinds = data.draw(st.lists(st.sampled_from(Finding), min_size=1, max_size=4))
    places = sorted(
        data.draw(
            st.lists(st.integers(0, (len(source) - 4) // 4), min_size=1, max_size=len(kinds), unique=True)
        )
    )
    damage = dict(zip([4 * it + 1 for it in places], kinds, strict=False))
    records: list[tuple[Finding | None, int | None, Rec, str]] = []
    waiting = None
    for row, (offset, record) in enumerate(source):
        kind, field = damage.get(row), data.draw(st.sampled_from(sorted(CHANGES)))
        if kind is Finding.CHANGED:
            records.append((kind, offset, dataclasses.replace(record, **CHANGES[field]), field))
        elif kind is Finding.REORDERED:
            waiting = offset, record
        elif kind is not Finding.MISSING:
            records.append((None, offset, record, ""))
        if kind is Finding.DOUBLED:
            records.append((kind, offset, record, ""))
        if kind is Finding.FOREIGN:
            records.append((kind, None, Rec(b"foreign %d" % row, b"f", 3), ""))
        if waiting and kind is not Finding.REORDERED:
            records.append((Finding.REORDERED, *waiting, ""))
            waiting = None
    target = laid([record for _, _, record, _ in records], data.draw)
    expected = {
        (kind, up, down, (field,) if field else ())
        for (kind, up, _, field), (down, _) in zip(records, target, strict=True)
        if kind
    }
    expected |= {
        (Finding.MISSING, source[row][0], None, ()) for row, it in damage.items() if it is Finding.MISSING
    }
    assert expected == told(observed(source, target), source, target)


@pytest.mark.parametrize("field", CHANGES)
def test_what_an_engine_changes_in_all_records_is_said_once(field):
    """Then a doubled or a missing one among them is still found."""
    made = [dataclasses.replace(it, **CHANGES[field]) for _, it in NUMBERED]
    [found] = [it for result in observed(NUMBERED, laid(made)) for it in result.findings]
    assert (Finding.CHANGED, (0, 20), (0, 20), 20, (field,)) == dataclasses.astuple(found)


def test_a_record_counts_as_missing_only_behind_the_horizon():
    """Before, it may come; what follows the last copied record is not copied yet."""
    source = ListLog(NUMBERED)
    first = match(
        source, ListLog(laid([it for _, it in NUMBERED[:5] + NUMBERED[7:10]])), Carried(0, 0), now_ms=0
    )
    before = match(source, ListLog([], 8), first.carried, now_ms=HORIZON_MS - 1)
    after = match(source, ListLog([], 8), before.carried, now_ms=HORIZON_MS)
    assert ((), (), 0) == (first.findings, before.findings, before.carried.closed_to)
    assert {(Finding.MISSING, 5, None, ()), (Finding.MISSING, 6, None, ())} == told([after], NUMBERED, [])
    assert (10, [Extent(0, 0, 5), Extent(7, 5, 3)]) == (after.carried.closed_to, extents([after]))


def test_equal_records_are_counted_by_runs():
    """Three records that cannot be told apart, of which a fourth copy is doubled, wherever it stands."""
    source = [(0, Rec(b"a")), (1, Rec(b"b")), (2, Rec(b"b")), (3, Rec(b"b")), (4, Rec(b"c"))]
    target = laid([Rec(b"a"), *[Rec(b"b")] * 4, Rec(b"c")])
    results = observed(source, target)
    assert (2, 1) == (sum(it.indistinct for it in results), count(results, Finding.DOUBLED))
    assert 1 == len(told(results, source, target))


def test_a_reader_of_the_map_misses_no_reordered_record():
    """A record behind a later one's copy has no place of its own: its reader goes on at the later one."""
    source, target = NUMBERED[:4], laid([NUMBERED[it][1] for it in (0, 2, 1, 3)])
    results = observed(source, target)
    assert [(0, 0), (2, 1), (3, 3)] == pairs(results)
    assert {(Finding.REORDERED, 1, 2, ())} == told(results, source, target)


def test_a_copy_that_began_later_lacks_nothing():
    """An engine that began with the latest record, or whose copy has expired: not comparable."""
    results = observed(NUMBERED, laid([it for _, it in NUMBERED[8:]]))
    assert ([], 8) == (
        [it for result in results for it in result.findings],
        sum(it.not_comparable for it in results),
    )
    assert 8 == min(segment.first_upstream for result in results for segment in result.segments)


def test_what_comes_after_the_copy_began_is_reordered():
    """Also if it lies before the first record copied; that it was copied before is nowhere said."""
    order = [3, 4, 0, 1, 2, 5]
    source, target = NUMBERED[:6], laid([NUMBERED[it][1] for it in order])
    expected = {(Finding.REORDERED, number, number + 2, ()) for number in range(3)}
    assert expected == told(observed(source, target), source, target)


def test_places_that_are_too_many_to_remember_are_unknown_and_never_wrong(monkeypatch):
    """The last ones are kept; what was forgotten lies in no segment."""
    monkeypatch.setattr(last_copies, "MOST_HELD", 6)
    source = [(2 * number, record) for number, (_, record) in enumerate(NUMBERED)]
    target = laid([record for _, record in source])
    results = observed(source, target)
    kept = pairs(results)
    assert set() == told(results, source, target)
    assert [(2 * down, down) for down in range(20 - len(kept), 20)] == kept
    assert 3 <= len(kept) <= 6
    covered = [it for result in results for it in result.segments]
    assert kept[0][0] == max(it.first_upstream for it in covered) and not covered[0].runs


def test_an_engine_that_begins_anew_doubles_everything():
    """Far behind what is kept of the source."""
    source = list(enumerate(distinct(9000)))
    results = observed(source, laid([it for _, it in source + source]), sizes=(500,))
    assert 9000 == count(results, Finding.DOUBLED)
    assert [Extent(0, 9000, 9000)] == extents(results)


@given(st.integers(0, 3), st.integers(100, 300))
def test_many_foreign_records_are_foreign(before, many):
    """Another producer writes to the copy: its records are named, and those of the source matched around them."""
    own = [it for _, it in NUMBERED]
    records = [*own[:before], *(Rec(b"x%d" % n, b"x", 1) for n in range(many)), *own[before:]]
    results = observed(NUMBERED, target := laid(records))
    assert {(Finding.FOREIGN, None, before + n, ()) for n in range(many)} == told(results, NUMBERED, target)


def test_the_double_of_a_changed_record_right_behind_it_is_doubled():
    """Nothing else tells it from a stranger's record: an engine that masks restarts between the two."""
    made = [
        dataclasses.replace(it, value=b"masked") if row in (4, 5) else it
        for row, (_, it) in enumerate(NUMBERED)
    ]
    target = laid([*made[:6], *made[4:]])
    doubled = {(Finding.DOUBLED, row, row + 2, ()) for row in (4, 5)}
    changed = {(Finding.CHANGED, row, down, ("value",)) for row, down in ((4, 4), (5, 5), (4, 6), (5, 7))}
    assert doubled | changed == told(observed(NUMBERED, target), NUMBERED, target)


@given(st.randoms(use_true_random=False), st.sampled_from([0.1, 0.6, 1.0]))
def test_damage_is_found_among_records_that_an_engine_changes(chance, share):
    """A transform masks some records, or all: each is named, and so is what is doubled or missing among them."""
    records = distinct(250)
    source = list(enumerate(records))
    masked = {row for row in range(250) if chance.random() < share}
    made = [
        dataclasses.replace(it, value=b"masked %d" % row) if row in masked else it
        for row, it in enumerate(records)
    ]
    back, lost = chance.randrange(100, 150), chance.randrange(160, 240)
    rows = [*range(150), *(row for row in range(back, 250) if row != lost)]
    target = laid([made[row] for row in rows])
    expected = {
        (Finding.CHANGED, row, down, ("value",)) for down, row in enumerate(rows) if row in masked
    } | {(Finding.DOUBLED, row, 150 + row - back, ()) for row in range(back, 150)}
    expected.add((Finding.MISSING, lost, None, ()))
    assert expected == told(observed(source, target), source, target)
