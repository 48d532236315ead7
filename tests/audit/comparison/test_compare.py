"""Comparing both sides of one partition: damage of any kind is found and named, a good copy never alarms."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batches import Rec, encode
from twinlog.audit.comparison.compare import WINDOW, compare
from twinlog.audit.comparison.values import Comparison, Scope
from twinlog.formats.ledger.audit import DifferenceKind as Kind
from twinlog.formats.ledger.audit import Unproved
from twinlog.logs.partition_reader import Block, Item, Lost
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.offsets.spans import Spans
from twinlog.transforms.chain import Chain, DropHeaders, Filter, RecordIsTombstone, Step

Log = list[tuple[int, Rec]]
"""A partition: (offset, record)."""

contents = st.none() | st.binary(max_size=3)
recs = st.builds(
    Rec,
    contents,
    contents,
    st.integers(0, 5),
    st.lists(st.tuples(st.sampled_from(["a", "b"]), contents), max_size=2).map(tuple),
)


def batches(log: Log, sizes: Sequence[int] = (3,), codec: int = 0, together: int = 2) -> list[Item]:
    """Store a log in batches that break at every gap and after the sizes given, in turn; so many are in one answer."""
    items: list[bytes] = []
    chunk: Log = []
    turn = 0

    def flush() -> None:
        nonlocal chunk, turn
        if chunk:
            items.append(encode([rec for _, rec in chunk], base_offset=chunk[0][0], codec=codec))
            chunk, turn = [], turn + 1

    for offset, rec in log:
        if chunk and (offset != chunk[-1][0] + 1 or len(chunk) >= sizes[turn % len(sizes)]):
            flush()
        chunk.append((offset, rec))
    flush()
    answers = [items[n : n + together] for n in range(0, len(items), together)]
    return [Block.of(memoryview(b"".join(answer))) for answer in answers]


def map_of(pairs: Sequence[tuple[int, int]], end: int) -> OffsetMap:
    return OffsetMap.of([MapSegment(0, end, tuple(Extent(u, d, 1) for u, d in pairs))])


@dataclasses.dataclass
class Copy:
    """A good copy: what was written to the source, where each record went."""

    source: Log
    target: Log

    @property
    def end(self) -> int:
        return self.source[-1][0] + 1 if self.source else 0

    @property
    def downstream_end(self) -> int:
        return self.target[-1][0] + 1 if self.target else 0

    @property
    def scope(self) -> Scope:
        pairs = [(u, d) for (u, _), (d, _) in zip(self.source, self.target, strict=True)]
        return Scope(map_of(pairs, self.end), 0, self.end, 0, self.downstream_end + 1000)

    def compare(self, target: Log | None = None, **changes: Any) -> Comparison:
        scope = dataclasses.replace(self.scope, **changes)
        return compare(scope, batches(self.source), batches(self.target if target is None else target))


@st.composite
def copies(draw: Any, rec: Any = recs, **size: int) -> Copy:
    """Records with gaps on the source and markers on the target."""
    records = draw(st.lists(rec, **size))
    upstream = downstream = 0
    copy = Copy([], [])
    for record in records:
        upstream += draw(st.sampled_from([0, 0, 0, 1, 5]))
        downstream += draw(st.sampled_from([0, 0, 0, 1]))
        copy.source.append((upstream, record))
        copy.target.append((downstream, record))
        upstream, downstream = upstream + 1, downstream + 1
    return copy


def numbered(count: int = 20) -> Copy:
    """Records that all differ, with a marker after every seven on the target."""
    chosen = [Rec(b"value %d" % n, b"key %d" % n, 1000 + n, (("h", b"%d" % n),)) for n in range(count)]
    return Copy(list(enumerate(chosen)), [(n + n // 7, rec) for n, rec in enumerate(chosen)])


def found(result: Comparison) -> list[tuple[Kind, int | None, int | None]]:
    return [(it.kind, it.upstream_offset, it.downstream_offset) for it in result.differences]


sizes = st.lists(st.integers(1, 5), min_size=1, max_size=3)


@given(
    copies(),
    sizes,
    sizes,
    st.sampled_from([0, 1]),
    st.sampled_from([0, 1]),
    st.tuples(*[st.integers(1, 4)] * 2),
)
def test_a_good_copy_never_alarms(copy, ours, theirs, codec, other_codec, together):
    """Whatever the batches, answers and codecs of both sides, each record is proved equal exactly once."""
    source = batches(copy.source, ours, codec, together[0])
    result = compare(copy.scope, source, batches(copy.target, theirs, other_codec, together[1]))
    assert result.equal and result.unproved == ()
    assert len(copy.source) == result.equal_bytes + result.equal_records == result.records


def test_batches_that_travelled_whole_are_not_decoded():
    """The same batches on both sides are proved by their bytes."""
    copy = numbered(21)
    result = compare(copy.scope, batches(copy.source, (7,)), batches(copy.target, (7,)))
    assert (21, 0) == (result.equal_bytes, result.equal_records)


CHANGES = {
    Kind.KEY: {"key": b"another"},
    Kind.VALUE: {"value": b"Value 5"},
    Kind.HEADERS: {"headers": (("h", b"x"),)},
    Kind.TIMESTAMP: {"timestamp": 7},
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_changed_field_is_named(kind):
    """At its record, and nowhere else."""
    copy = numbered()
    damaged = list(copy.target)
    damaged[5] = (5, dataclasses.replace(damaged[5][1], **CHANGES[kind]))
    result = copy.compare(damaged)
    assert [(kind, 5, 5)] == found(result)
    assert 19 == result.equal_bytes + result.equal_records


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"value": b""}, Kind.VALUE),
        ({"key": b""}, Kind.KEY),
        ({"headers": (("h", b""),)}, Kind.HEADERS),
        ({"headers": (("b", None), ("a", None))}, Kind.HEADERS),
        ({"headers": ()}, Kind.HEADERS),
    ],
)
def test_null_is_not_empty_and_headers_have_an_order(change, kind):
    """What a consumer can tell apart is a difference."""
    good = Rec(None, None, 5, (("h", None),) if "b" not in str(change) else (("a", None), ("b", None)))
    copy = Copy([(0, good)], [(0, good)])
    assert [(kind, 0, 0)] == found(copy.compare([(0, dataclasses.replace(good, **change))]))


@pytest.mark.parametrize("at", [0, 5, 6, 7, 19])
def test_a_missing_record(at):
    """A hole in the target, and a log written anew without the record: both name that record alone."""
    copy = numbered()
    hole = [it for it in copy.target if it[0] != copy.target[at][0]]
    assert [(Kind.MISSING, at, copy.target[at][0])] == found(copy.compare(hole))


@pytest.mark.parametrize("count", [20, WINDOW * 3])
@pytest.mark.parametrize("at", [0, 5, 18, 19])
def test_a_record_missing_from_a_log_written_anew(at, count):
    """Everything behind it has moved up: that is not its fault."""
    copy = Copy(*(list(enumerate(rec for _, rec in numbered(count).source)) for _ in range(2)))
    rest = [rec for n, (_, rec) in enumerate(copy.target) if n != at]
    result = copy.compare(list(enumerate(rest)))
    assert [(Kind.MISSING, at, at)] == found(result)
    displaced = [it for it in result.unproved if it.reason is Unproved.DISPLACED]
    assert count - at - 1 == sum(it.records for it in displaced)


@pytest.mark.parametrize("count", [20, WINDOW * 3])
@pytest.mark.parametrize("at", [0, 5, 19, 20])
def test_an_extra_record_in_a_log_written_anew(at, count):
    """It is named by its place on the target."""
    copy = Copy(*(list(enumerate(rec for _, rec in numbered(count).source)) for _ in range(2)))
    records = [rec for _, rec in copy.target]
    records.insert(at, Rec(b"stranger"))
    assert [(Kind.EXTRA, None, at)] == found(copy.compare(list(enumerate(records))))


def test_a_strangers_record_between_transactions():
    """The map leaves room for it; nothing else is wrong."""
    copy = numbered()
    foreign = sorted([*copy.target, (7, Rec(b"stranger"))], key=lambda it: it[0])
    result = copy.compare(foreign)
    assert [(Kind.EXTRA, None, 7)] == found(result)
    assert 20 == result.equal_bytes + result.equal_records


def test_a_strangers_record_behind_the_copy():
    """The tail is looked at as well."""
    copy = numbered()
    assert [(Kind.EXTRA, None, 30)] == found(copy.compare([*copy.target, (30, Rec(b"stranger"))]))


@pytest.mark.parametrize(("one", "other"), [(5, 6), (3, 15), (0, 19)])
def test_two_swapped_records(one, other):
    """Both are named, as records that only stand elsewhere."""
    copy = numbered()
    damaged = list(copy.target)
    damaged[one], damaged[other] = (
        (damaged[one][0], damaged[other][1]),
        (damaged[other][0], damaged[one][1]),
    )
    places = [damaged[one][0], damaged[other][0]]
    assert [(Kind.ORDER, one, places[0]), (Kind.ORDER, other, places[1])] == found(copy.compare(damaged))


def test_a_record_moved_far():
    """It is missing in one place and extra in another: one difference of order."""
    copy = Copy(*(list(enumerate(rec for _, rec in numbered(100).source)) for _ in range(2)))
    records = [rec for _, rec in copy.target]
    records.insert(80, records.pop(5))
    assert [(Kind.ORDER, 5, 5)] == found(copy.compare(list(enumerate(records))))


def test_a_topic_made_anew_with_as_many_records():
    """Counting would not tell: every record is named as far as the list goes, and all are counted."""
    copy = numbered(500)
    other = [(offset, Rec(b"other %d" % offset, rec.key, rec.timestamp)) for offset, rec in copy.target]
    result = copy.compare(other)
    assert {Kind.VALUE: 500} == result.counts
    assert 100 == len(result.differences)


def test_offsets_that_moved_without_a_difference():
    """The same records without the markers between them: translated offsets would be wrong, so it is told."""
    copy = numbered(14)
    result = copy.compare([(n, rec) for n, (_, rec) in enumerate(copy.target)])
    assert [(Kind.ORDER, 7, 7)] == found(result)
    assert 7 == result.equal_bytes + result.equal_records


def test_a_record_that_was_never_copied():
    """The map has no place for it; one that is quarantined, or that a person left out, is left out on purpose."""
    copy = numbered()
    scope = dataclasses.replace(
        copy.scope, offset_map=map_of([(n, n + n // 7) for n in range(20) if n != 5], 20)
    )
    target = batches([it for it in copy.target if it[0] != 5])
    assert [(Kind.MISSING, 5, None)] == found(compare(scope, batches(copy.source), target))
    for known in ({"quarantined": frozenset({5})}, {"left_out": ((5, 6),)}):
        assert compare(dataclasses.replace(scope, **known), batches(copy.source), target).equal
    other = dataclasses.replace(scope, left_out=((6, 9), (3, 5)))
    assert [(Kind.MISSING, 5, None)] == found(compare(other, batches(copy.source), target))


def test_a_lost_piece_of_the_map():
    """Neither missing nor extra: nothing is known of what it held."""
    copy = numbered(30)
    kept = [n for n in range(30) if not 7 <= n < 14]
    pieces = [
        MapSegment(0, 7, (Extent(0, 0, 7),)),
        MapSegment(14, 30, tuple(Extent(n, n + n // 7, 1) for n in kept if n >= 14)),
    ]
    result = copy.compare(offset_map=OffsetMap.of(pieces))
    assert (True, [(7, 14, 7, Unproved.NO_MAP)]) == (
        result.equal,
        [(it.start, it.end, it.records, it.reason) for it in result.unproved],
    )


def test_what_is_missing_where_the_map_was_lost():
    """It was copied, so it must be there, wherever that is; what is there is neither equal nor different."""
    copy = numbered(30)
    pieces = [MapSegment(0, 7, (Extent(0, 0, 7),)), *pieces_from(14, 30)]
    lost = ((7, 14),)
    there = copy.compare(offset_map=OffsetMap.of(pieces), lost=lost)
    assert (True, (), 23) == (there.equal, there.unproved, there.equal_bytes + there.equal_records)
    gone = [it for it in copy.target if not 8 <= it[0] < 16]
    found_missing = found(copy.compare(gone, offset_map=OffsetMap.of(pieces), lost=lost))
    assert [(Kind.MISSING, n, None) for n in range(7, 14)] == found_missing


def pieces_from(start: int, end: int) -> list[MapSegment]:
    return [MapSegment(start, end, tuple(Extent(n, n + n // 7, 1) for n in range(start, end)))]


@given(copies(st.binary(min_size=8, max_size=8).map(lambda it: Rec(it, it)), unique_by=repr), st.data())
def test_what_either_side_lost_is_accounted_for_once(copy, data):
    """On one side or on both, for whatever reason: nothing differs, and what was not seen twice is not proved."""
    reasons = st.sampled_from([Unproved.SOURCE_RETENTION, Unproved.UNREADABLE, Unproved.RECREATED])

    def some(log: Log, reason: Unproved) -> tuple[list[Item], set[int]]:
        cut = sorted(data.draw(st.tuples(*[st.integers(0, log[-1][0] + 1 if log else 0)] * 2)))
        before, behind = ([it for it in log if it[0] < cut[0]], [it for it in log if it[0] >= cut[1]])
        gone = {n for n, it in enumerate(log) if cut[0] <= it[0] < cut[1]}
        return [*batches(before), Lost(*cut, reason), *batches(behind)], gone

    ours, lost = some(copy.source, data.draw(reasons))
    theirs, expired = some(copy.target, Unproved.TARGET_RETENTION)
    result = compare(copy.scope, ours, theirs)
    assert (True, len(copy.source)) == (result.equal, result.records)
    assert len(lost | expired) == sum(it.records for it in result.unproved)
    assert len(copy.source) - len(lost | expired) == result.equal_bytes + result.equal_records


@given(copies(min_size=1), sizes, sizes, st.integers(0, 30), st.booleans())
def test_a_stranger_among_copies_beyond_proof(copy, ours, theirs, gone, stranger):
    """The flow's own are passed over, wherever batches begin; a record between them is nobody's."""
    gone = min(gone, copy.end)
    kept = [it for it in copy.source if it[0] >= gone]
    places = {n for n, _ in copy.target}
    free = next(n for n in range(copy.downstream_end + 1) if n not in places)
    target = sorted([*copy.target, *([(free, Rec(b"stranger", b"stranger"))] if stranger else [])])
    beyond = Spans.copies_of(copy.scope.offset_map, 0, gone)
    scope = dataclasses.replace(copy.scope, start=gone, beyond=beyond)
    result = compare(scope, batches(kept, ours), batches(target, theirs))
    assert ([(Kind.EXTRA, None, free)] if stranger else []) == found(result)
    assert len(kept) == result.equal_bytes + result.equal_records == result.records - stranger


@pytest.mark.parametrize("lost", [1, 10, 20])
def test_retention_on_either_side(lost):
    """What is gone cannot be proved, and is no difference."""
    copy = numbered()
    end = copy.downstream_end
    gone = Lost(0, lost, Unproved.SOURCE_RETENTION)
    result = compare(copy.scope, [gone, *batches(copy.source[lost:])], batches(copy.target))
    assert (True, [(lost, Unproved.SOURCE_RETENTION)]) == (
        result.equal,
        [(it.records, it.reason) for it in result.unproved],
    )
    place = copy.target[lost][0] if lost < 20 else end
    gone = Lost(0, place, Unproved.TARGET_RETENTION)
    result = compare(copy.scope, batches(copy.source), [gone, *batches(copy.target[lost:])])
    assert (True, [(lost, Unproved.TARGET_RETENTION)]) == (
        result.equal,
        [(it.records, it.reason) for it in result.unproved],
    )


def test_a_batch_of_the_target_that_cannot_be_read_is_missing():
    """A consumer could not read it either."""
    copy = numbered()
    gone = Lost(3, 4, Unproved.UNREADABLE)
    rest = [gone, *batches([it for it in copy.target if it[0] != 3])]
    assert [(Kind.MISSING, 3, 3)] == found(compare(copy.scope, batches(copy.source), rest))


# --- damage of any kind, at random -------------------------------------------------------------------------------


@given(copies(min_size=1, max_size=30), st.randoms(use_true_random=False), sizes, st.integers(1, 5))
def test_damage_of_any_kind_is_found(copy, chance, theirs, together):
    """One record changed, taken out, put in or exchanged, in place or in a log written anew."""
    damaged = damage(copy.target, chance)
    same = [rec for _, rec in damaged] == [rec for _, rec in copy.target]
    result = compare(copy.scope, batches(copy.source), batches(damaged, theirs, together=together))
    if same and damaged == copy.target:
        assert result.equal
    else:
        assert not result.equal
        assert result.difference_count <= 3
    proved = result.equal_bytes + result.equal_records
    assert proved <= len(copy.source)


def damage(log: Log, chance: random.Random) -> Log:
    at = chance.randrange(len(log))
    offset, rec = log[at]
    match chance.randrange(5):
        case 0:
            field, value = chance.choice([
                ("value", b"damage"), ("key", b"damage"), ("timestamp", 99), ("headers", (("c", None),)),
            ])  # fmt: skip
            return [*log[:at], (offset, dataclasses.replace(rec, **{field: value})), *log[at + 1 :]]
        case 1:
            return [*log[:at], *log[at + 1 :]]
        case 2:
            return [*log, (log[-1][0] + 1, Rec(b"damage"))]
        case 3:
            other = chance.randrange(len(log))
            records = [it for _, it in log]
            records[at], records[other] = records[other], records[at]
            return [(it, record) for (it, _), record in zip(log, records, strict=True)]
    flipped = dataclasses.replace(rec, value=None if rec.value == b"" else b"")
    return [*log[:at], (offset, flipped if rec.value != b"" else rec), *log[at + 1 :]]


# --- compacted topics --------------------------------------------------------------------------------------------

keyed = st.builds(Rec, contents, st.sampled_from([b"a", b"b", b"c", b"d"]), st.integers(0, 5))


def compacted(log: Log, keep: Any, forget_tombstones: bool) -> Log:
    """What a cleaner leaves: all but some superseded records, and perhaps no tombstones that stand alone."""
    latest = {rec.key: offset for offset, rec in log}
    result = []
    for offset, rec in log:
        if latest[rec.key] != offset and not keep():
            continue
        result.append((offset, rec))
    older = {rec.key for offset, rec in result if latest[rec.key] != offset}
    return [
        (offset, rec)
        for offset, rec in result
        if not (
            forget_tombstones and rec.value is None and latest[rec.key] == offset and rec.key not in older
        )
    ]


@given(copies(keyed, min_size=1, max_size=25), st.data())
def test_compaction_of_either_side_never_alarms(copy, data):
    """Whatever each cleaner has removed rightly."""
    keep = lambda: data.draw(st.booleans())  # noqa: E731
    source = compacted(copy.source, keep, data.draw(st.booleans()))
    target = compacted(copy.target, keep, data.draw(st.booleans()))
    scope = dataclasses.replace(copy.scope, compacted=True)
    result = compare(scope, batches(source), batches(target), [], [])
    assert [] == found(result)


@given(copies(keyed, min_size=1, max_size=25), st.integers(0, 3), st.data())
def test_more_keys_than_are_remembered_are_not_proved(copy, most, data):
    """They are no differences; each record that a side still has is accounted for once."""
    keep = lambda: data.draw(st.booleans())  # noqa: E731
    source = compacted(copy.source, keep, False)
    target = compacted(copy.target, keep, False)
    scope = dataclasses.replace(copy.scope, compacted=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twinlog.audit.comparison.compaction.MOST_AWAITED", most)
        result = compare(scope, batches(source), batches(target), [], [])
    upstream = {d: u for (u, _), (d, _) in zip(copy.source, copy.target, strict=True)}
    seen = {u for u, _ in source} | {upstream[d] for d, _ in target}
    assert ([], len(seen)) == (found(result), result.records)
    assert {it.reason for it in result.unproved} <= {Unproved.COMPACTED}
    assert most or not result.superseded


@given(copies(keyed, min_size=1, max_size=25), st.data())
def test_a_wrong_latest_value_of_a_compacted_topic_is_found(copy, data):
    """The latest value of a key was changed, or lost, or a key of nobody's added."""
    keep = lambda: data.draw(st.booleans())  # noqa: E731
    scope = dataclasses.replace(copy.scope, compacted=True)
    source = compacted(copy.source, keep, False)
    target = compacted(copy.target, keep, False)
    key = data.draw(st.sampled_from(sorted({rec.key for _, rec in target})))
    at = max(n for n, (_, rec) in enumerate(target) if rec.key == key)
    offset, rec = target[at]
    match data.draw(st.integers(0, 2)):
        case 0:
            target[at] = (offset, dataclasses.replace(rec, value=b"damage"))
        case 1 if rec.value is not None:
            target = [it for it in target if it[1].key != key]
        case _:
            target.append((target[-1][0] + 1, Rec(b"damage", b"e")))
    assert found(compare(scope, batches(source), batches(target), [], [])) != []


def test_a_later_record_may_stand_behind_what_is_compared():
    """The source dropped a record for one that is not copied yet."""
    old, new = Rec(b"old", b"k"), Rec(b"new", b"k")
    scope = dataclasses.replace(Copy([(0, old)], [(0, old)]).scope, compacted=True)
    assert compare(scope, [], batches([(0, old)]), batches([(5, new)]), []).equal
    assert [(Kind.EXTRA, 0, 0)] == found(compare(scope, [], batches([(0, old)]), [], []))
    left_open = compare(scope, [], batches([(0, old)]))
    assert (True, [Unproved.COMPACTED]) == (left_open.equal, [it.reason for it in left_open.unproved])


# --- topics that others write to as well ---------------------------------------------------------------------------


@st.composite
def shared_copies(draw: Any, rec: Any = recs) -> tuple[Copy, Log, Log]:
    """A copy, both of its logs with others' records among its own, in batches of their own."""
    copy = Copy([], [])
    source: Log = []
    target: Log = []
    up = down = 0
    for _ in range(draw(st.integers(1, 8))):
        for record in draw(st.lists(rec, min_size=1, max_size=4)):
            match draw(st.integers(0, 3)):
                case 0:
                    source.append((up, record))
                    up += 1
                case 1:
                    target.append((down, record))
                    down += 1
                case _:
                    copy.source.append((up, record))
                    copy.target.append((down, record))
                    up, down = up + 1, down + 1
    return copy, source, target


def mixed(own: Log, others: Log, sizes: Sequence[int] = (3,)) -> list[Item]:
    """One log of both; a batch has one writer."""
    single = sorted([(*it, 0) for it in own] + [(*it, 1) for it in others], key=lambda it: it[0])
    items: list[Item] = []
    run: Log = []
    for n, (offset, rec, writer) in enumerate(single):
        run.append((offset, rec))
        if n + 1 == len(single) or single[n + 1][2] != writer:
            items += batches(run, sizes)
            run = []
    return items


def spans_of(log: Log) -> Spans:
    runs = [MapSegment(n, n + 1, (Extent(n, offset, 1),)) for n, (offset, _) in enumerate(log)]
    return Spans.downstream_of([OffsetMap.of(runs)])


@given(shared_copies(), sizes, sizes, st.booleans())
def test_others_records_are_left_out(shared, ours, theirs, both_ways):
    """Echoes are not missing, others' records not extra: they are counted, and each of the flow's own is proved."""
    copy, echoes, others = shared
    scope = dataclasses.replace(
        copy.scope,
        loopback=spans_of(echoes),
        others=Spans() if both_ways else spans_of(others),
        shared=both_ways,
    )
    result = compare(scope, mixed(copy.source, echoes, ours), mixed(copy.target, others, theirs))
    assert ([], (), len(copy.source), len(others)) == (
        found(result), result.unproved, result.equal_bytes + result.equal_records, result.others,
    )  # fmt: skip


@given(shared_copies(), st.data())
def test_damage_among_others_records_is_found(shared, data):
    """A record of the flow's own that was changed, or is missing, is named by both of its offsets."""
    copy, echoes, others = shared
    if not copy.target:
        return
    at = data.draw(st.integers(0, len(copy.target) - 1))
    (up, rec), (down, _) = copy.source[at], copy.target[at]
    gone = data.draw(st.booleans())
    changed = [] if gone else [(down, dataclasses.replace(rec, value=b"damage"))]
    target = [*copy.target[:at], *changed, *copy.target[at + 1 :]]
    scope = dataclasses.replace(copy.scope, loopback=spans_of(echoes), shared=True)
    result = compare(scope, mixed(copy.source, echoes), mixed(target, others))
    assert [(Kind.MISSING if gone else Kind.VALUE, up, down)] == found(result)


def test_a_strangers_record_is_extra_beside_others():
    """Several flows into one topic: what no map knows is nobody's."""
    copy = numbered()
    scope = dataclasses.replace(copy.scope, others=spans_of([(7, Rec(b"theirs"))]))
    result = compare(scope, batches(copy.source), mixed(copy.target, [(7, Rec(b"theirs")), (15, Rec(b"x"))]))
    assert ([(Kind.EXTRA, None, 15)], 1) == (found(result), result.others)


def test_others_may_supersede_a_record_of_a_compacted_topic():
    """Their later record of its key is why it is gone; an earlier one is not."""
    old = Rec(b"old", b"k")
    for place, kinds in ((5, []), (0, [Kind.MISSING])):
        scope = Scope(map_of([(0, 2)], 1), 0, 1, 0, 9, compacted=True, shared=True)
        result = compare(scope, batches([(0, old)]), batches([(place, Rec(b"theirs", b"k"))]), [], [])
        assert kinds == [kind for kind, _, _ in found(result)]


NO_TOMBSTONES = Chain((Step(Filter(), RecordIsTombstone()), Step(DropHeaders(("a",)))))


def made(log: Log) -> Log:
    """Return what the chain leaves of a log, at its offsets."""
    return [
        (offset, dataclasses.replace(rec, headers=tuple(it for it in rec.headers if it[0] != "a")))
        for offset, rec in log
        if rec.value is not None
    ]


class TestTransforms:
    @given(copies(), st.randoms(use_true_random=False), st.booleans())
    def test_a_good_copy_through_transforms_has_no_difference_and_damage_is_found(
        self, copy: Copy, chance: random.Random, compacted: bool
    ) -> None:
        """Law: every record that the chain leaves is proved equal; one byte changed in the copy is one difference."""
        source = copy.source
        left = made(source)
        target = [(place, rec) for place, (_, rec) in enumerate(left)]
        pairs = [(u, d) for (u, _), (d, _) in zip(left, target, strict=True)]
        end = source[-1][0] + 1 if source else 0
        scope = Scope(
            map_of(pairs, end), 0, end, 0, len(target) + 9, compacted=compacted, chain=NO_TOMBSTONES
        )
        ours = batches(source)
        good = compare(scope, ours, batches(target, (2, 4)))
        assert ({}, len(left)) == (good.counts, good.equal_bytes + good.equal_records)
        if target:
            index = chance.randrange(len(target))
            place, rec = target[index]
            target[index] = place, dataclasses.replace(rec, value=(rec.value or b"") + b"!")
            bad = compare(scope, ours, batches(target, (2, 4)))
            assert {Kind.VALUE: 1} == bad.counts

    def test_a_record_that_should_have_been_dropped_is_one_too_many(self) -> None:
        """The map knows it, and the chain does not leave it."""
        source = [(0, Rec(b"1")), (1, Rec(None, b"k")), (2, Rec(b"3"))]
        scope = Scope(map_of([(0, 0), (1, 1), (2, 2)], 3), 0, 3, 0, 9, chain=NO_TOMBSTONES)
        assert {Kind.EXTRA: 1} == compare(scope, batches(source), batches(source)).counts

    def test_a_record_that_should_not_have_been_dropped_is_missing(self) -> None:
        """The map knows that it was passed over, which is no reason."""
        source, target = [(0, Rec(b"1")), (1, Rec(b"2"))], [(0, Rec(b"1"))]
        scope = Scope(map_of([(0, 0)], 2), 0, 2, 0, 9, chain=NO_TOMBSTONES)
        assert {Kind.MISSING: 1} == compare(scope, batches(source), batches(target)).counts

    def test_a_dropped_tombstone_explains_what_compaction_took_from_the_source(self) -> None:
        """The copy still has the record that the tombstone superseded; once that expires, nothing can be said."""
        target = [(0, Rec(b"old", b"k"))]
        scope = Scope(map_of([(0, 0)], 2), 0, 2, 0, 9, compacted=True, chain=NO_TOMBSTONES)
        with_tombstone = compare(scope, batches([(1, Rec(None, b"k"))]), batches(target), [], [])
        expired = compare(scope, [], batches(target), [], [])
        assert ({}, 1) == (with_tombstone.counts, with_tombstone.superseded)
        assert ({}, [Unproved.COMPACTED]) == (expired.counts, [it.reason for it in expired.unproved])
