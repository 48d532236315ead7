"""What a position on the other side is worth: nothing unread lies before it, or it is not called exact."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.values import PartitionOffsets
from twinlog.formats.ledger.topics import Beginning, Gap, GapCause, Incarnation
from twinlog.formats.map.offset_map import encode_segment
from twinlog.formats.map.packed_map import PackedMap
from twinlog.groups.maps import PartitionMaps, begun_empty, never_copied
from twinlog.groups.place import Place, places
from twinlog.kafka_types import SourceIncarnation
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.state.ledger import ledger_from


def packed(*pieces: MapSegment) -> PackedMap:
    return PackedMap.of({it.first_upstream: encode_segment(it) for it in pieces})


def log(start: int, end: int) -> PartitionOffsets:
    return PartitionOffsets(start, end, end)


def known_ones(every: list[Place]) -> list[Place | None]:
    return [None if it.offset is None else it for it in every]


def onward(known, offsets, there, gaps=(), here=None) -> list[Place | None]:
    return known_ones(places(offsets, PartitionMaps(known, gaps=gaps), there, here))


def back(known, offsets, there, here=None, gaps=(), begun_empty=False) -> list[Place | None]:
    maps = PartitionMaps(None, known, gaps, back=True, begun_empty=begun_empty)
    return known_ones(places(offsets, maps, there, here))


DENSE = packed(MapSegment(0, 1000, (Extent(0, 0, 1000),)))
TAIL = packed(MapSegment(700, 1000, (Extent(700, 700, 300),)))
HOLE = packed(MapSegment(0, 100, (Extent(0, 0, 100),)), MapSegment(200, 300, (Extent(200, 200, 100),)))
LATE = packed(MapSegment(1000, 2000, (Extent(1000, 0, 1000),)))


@pytest.mark.parametrize(
    ("known", "offset", "there", "here", "expected"),
    [
        # Expired on the target, and not on the source; on both; nobody can say; nothing unread among it.
        (DENSE, 500, log(800, 1000), log(0, 1000), Place(800, False, False, 0, 300)),
        (DENSE, 500, log(800, 1000), log(790, 1000), Place(800, False, False, 0, 10)),
        (DENSE, 500, log(800, 1000), log(800, 1000), Place(800, True, False)),
        (DENSE, 500, log(800, 1000), log(900, 1000), Place(800, True, False)),
        (DENSE, 500, log(800, 1000), None, Place(800, False, False, 0, 300)),
        (DENSE, 800, log(800, 1000), log(0, 1000), Place(800, True, False)),
        # All of it expired, the markers behind it as well.
        (DENSE, 1000, log(1007, 1007), log(0, 1000), Place(1007, True, False)),
        (DENSE, 990, log(1007, 1007), log(0, 1000), Place(1007, False, False, 0, 10)),
        # The map forgets what has expired on the target.
        (TAIL, 500, log(800, 1000), log(0, 1000), Place(800, False, False, 0, 300)),
        (TAIL, 500, log(800, 1000), log(900, 1000), Place(800, True, False)),
        # In a hole there may be others' records, which no run tells of; behind it all is known again.
        (HOLE, 100, log(150, 300), log(0, 300), Place(150, False, False, 0, 50)),
        (HOLE, 50, log(250, 300), log(0, 300), Place(250, False, False, 0, 200)),
        (HOLE, 50, log(100, 300), log(0, 300), Place(100, False, False, 0, 50)),
        (HOLE, 100, log(100, 300), log(0, 300), Place(100, True, False)),
        (HOLE, 200, log(250, 300), log(0, 300), Place(250, False, False, 0, 50)),
        # A copy that began at the end of the source.
        (LATE, 500, log(0, 1000), log(0, 2000), Place(0, False, False, 0, 500)),
        (LATE, 500, log(0, 1000), log(990, 2000), Place(0, False, False, 0, 10)),
        (LATE, 500, log(0, 1000), log(1000, 2000), Place(0, True, False)),
        (LATE, 500, log(0, 1000), None, Place(0, False, False, 0, 500)),
    ],
)
def test_what_is_unread_and_not_there_is_told(
    known: PackedMap, offset: int, there: PartitionOffsets, here: PartitionOffsets | None, expected: Place
) -> None:
    """Whatever keeps the records from the other side; what has expired on both is missed by nobody."""
    assert [expected] == onward(known, [offset], there, here=here)


@pytest.mark.parametrize("into_empty", [True, False])
def test_below_where_a_copy_began(into_empty: bool) -> None:
    """The first record is next, also behind an aborted transaction; unless somebody else had copied before."""
    first = packed(MapSegment(100, 200, (Extent(100, 11, 90),)))
    life = Incarnation("t", "id", 1, "A.t")
    begins = Beginning("t", "id", {"0": 100}, {"0": 100}, 1, into_empty)
    gap = Gap("t", 0, 300, 304, GapCause.RETENTION, 1, 5, "id")
    lost = never_copied(ledger_from([life, begins, gap])).get(SourceIncarnation("t", "id", 0), ())
    expected = Place(11, True, False) if into_empty else None
    there, here = log(0, 101), log(100, 200)
    assert [expected, expected, Place(11, True, False)] == onward(first, [50, 99, 100], there, lost, here)
    assert (300, 305) in lost


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([MapSegment(100, 200, ())], Place(7, True, False)),
        ([MapSegment(150, 200, ())], Place(7, False, False, 0, 150)),
        ([], Place(7, True, False)),
    ],
)
def test_a_copy_without_a_record(pieces: list[MapSegment], expected: Place) -> None:
    """Nothing was copied, or what was copied has expired there and the map forgot it: that is not the same."""
    assert [expected] == onward(packed(*pieces), [50], log(7, 7), [(0, 100)])


@pytest.mark.parametrize(
    ("offset", "here", "expected"),
    [
        (50, log(140, 300), Place(7, False, False, 0, 60)),
        (50, log(150, 300), Place(7, True, False)),
        (50, log(250, 300), Place(7, True, False)),
        (200, log(0, 300), Place(7, True, False)),
        (201, log(0, 300), Place(7, False, True, 201)),
    ],
)
def test_of_a_copy_that_has_expired(offset: int, here: PartitionOffsets, expected: Place) -> None:
    """What the source still has is missing; only who has read beyond the copy is ahead."""
    assert [expected] == onward(packed(MapSegment(150, 200, ())), [offset], log(7, 7), here=here)


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        (log(0, 1000), Place(800, False, False, 0, 300)),
        (log(800, 1000), Place(800, True, False)),
    ],
)
def test_and_back(copy: PartitionOffsets, expected: Place) -> None:
    """The source has deleted what a reader of the copy has yet to read."""
    assert [expected] == back(DENSE, [500], log(800, 1000), copy)


@pytest.mark.parametrize(
    ("offset", "there", "expected"),
    [
        (100, log(150, 300), Place(150, False, False, 0, 50)),
        (50, log(250, 300), Place(250, False, False, 0, 200)),
        (50, log(80, 300), Place(80, False, False, 0, 30)),
        # What the source deleted behind the copy's end was never in the copy.
        (300, log(350, 400), Place(350, True, False)),
        (290, log(350, 400), Place(350, False, False, 0, 10)),
    ],
)
def test_and_back_over_a_hole(offset: int, there: PartitionOffsets, expected: Place) -> None:
    """Others' copies in it may be unread."""
    assert [expected] == back(HOLE, [offset], there, log(0, 300))


ABORTED = packed(MapSegment(0, 10, (Extent(0, 11, 10),)))


@pytest.mark.parametrize(
    ("known", "there", "empty", "gaps", "expected"),
    [
        (ABORTED, log(0, 10), True, [(0, 0)], [Place(0, True, False)] * 2),
        (ABORTED, log(4, 10), True, [(0, 0)], [Place(4, False, False, 0, 4)] * 2),
        (ABORTED, log(0, 10), False, [], [Place(0, False, False, 0, 11), Place(0, False, False, 0, 6)]),
        (LATE, log(0, 2000), True, [(0, 1000)], [Place(1000, True, False), Place(1005, True, False)]),
        # The first of it is told by nothing: MM2's records, or what the map forgot.
        (packed(MapSegment(5, 10, (Extent(5, 11, 5),))), log(0, 10), True, [(0, 4)], [None, None]),
        (
            packed(MapSegment(5, 10, (Extent(5, 11, 5),))),
            log(5, 10),
            True,
            [],
            [Place(5, False, False, 0, 11), Place(5, False, False, 0, 6)],
        ),
    ],
)
def test_in_front_of_the_first_record_of_a_copy(
    known: PackedMap,
    there: PartitionOffsets,
    empty: bool,
    gaps: list[tuple[int, int]],
    expected: list[Place | None],
) -> None:
    """An aborted transaction holds nothing to miss; where somebody else may have written, nobody knows."""
    assert expected == back(known, [0, 5], there, log(0, 21), gaps, begun_empty=empty)


@pytest.mark.parametrize(
    ("into_empty", "cause", "expected"),
    [
        (True, GapCause.RETENTION, {0, 1}),
        (True, GapCause.TRUNCATION, {0}),
        (False, GapCause.RETENTION, set()),
    ],
)
def test_which_copies_hold_only_what_was_copied(
    into_empty: bool, cause: GapCause, expected: set[int]
) -> None:
    """Those that began empty, whether the source did or not; what a truncated source lost is in no map any more."""
    life = Incarnation("t", "id", 1, "A.t")
    begins = Beginning("t", "id", {"0": 0, "1": 7}, {"0": 0, "1": 7}, 1, into_empty)
    gap = Gap("t", 1, 10, 14, cause, 1, 5, "id")
    assert {SourceIncarnation("t", "id", it) for it in expected} == begun_empty(
        ledger_from([life, begins, gap])
    )


@dataclass(frozen=True)
class World:
    """A map, all records of the copy by upstream offset (others' too), those mapped, and both logs."""

    known: PackedMap
    records: dict[int, int]
    mapped: dict[int, int]
    source: PartitionOffsets
    copy: PartitionOffsets


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Pieces with holes between, in which others may have copied, markers and aborted records, and both logs cut."""
    upstream = downstream = 0
    pieces, records, mapped = [], {}, {}
    for _ in range(draw(st.integers(1, 4))):
        hole = draw(st.integers(0, 3))
        others = draw(st.integers(0, hole))
        records |= {upstream + at: downstream + at for at in range(others)}
        upstream += hole
        downstream += others + draw(st.integers(0, 3))
        first, length = upstream, draw(st.integers(0, 5))
        runs = (Extent(upstream, downstream, length),) if length else ()
        mapped |= {upstream + at: downstream + at for at in range(length)}
        upstream += length + draw(st.integers(0 if length else 1, 2))
        downstream += length
        pieces.append(MapSegment(first, upstream, runs))
    ends = upstream + draw(st.integers(0, 2)), downstream + draw(st.integers(0, 2))
    source, copy = (log(draw(st.integers(0, end)), end) for end in ends)
    values = {it.first_upstream: encode_segment(it) for it in pieces}
    known = PackedMap.of(values, open_runs=draw(st.sampled_from([1, 1000])))
    return World(known, records | mapped, mapped, source, copy)


@given(worlds(), st.data())
def test_no_more_is_missed_than_is_told(world: World, data: st.DataObject) -> None:
    """By the records themselves, others' in holes of the map among them; exact means none."""
    offset = data.draw(st.integers(0, world.source.end))
    [found] = onward(world.known, [offset], world.copy, here=world.source)
    if found is None:
        return
    unread = max(offset, world.source.log_start)
    missed = [up for up, down in world.records.items() if up >= unread and down < found.offset]
    assert len(missed) <= found.skipped
    assert not (found.exact and (missed or found.skipped))


@given(worlds(), st.booleans(), st.data())
def test_nor_on_the_way_back(world: World, empty: bool, data: st.DataObject) -> None:
    """The same of a reader of the copy, whether it began empty or not."""
    offset = data.draw(st.integers(0, world.copy.end))
    [found] = back(world.known, [offset], world.source, world.copy, begun_empty=empty)
    if found is None:
        return
    unread = max(offset, world.copy.log_start)
    missed = [down for up, down in world.records.items() if down >= unread and up < found.offset]
    assert len(missed) <= found.skipped
    assert not (found.exact and (missed or found.skipped))


@given(st.data())
def test_exact_means_that_nothing_is_missed_and_nothing_comes_twice(data: st.DataObject) -> None:
    """By the records themselves, with holes, markers and both logs cut anywhere."""
    upstream = downstream = 0
    pieces, records = [], {}
    for _ in range(data.draw(st.integers(1, 4))):
        upstream += data.draw(st.integers(0, 3))
        downstream += data.draw(st.integers(0, 3))
        first, length = upstream, data.draw(st.integers(0, 5))
        runs = (Extent(upstream, downstream, length),) if length else ()
        records |= {upstream + at: downstream + at for at in range(length)}
        upstream += length + data.draw(st.integers(1, 2))
        downstream += length
        pieces.append(MapSegment(first, upstream, runs))
    here = log(data.draw(st.integers(0, upstream)), upstream + 2)
    end = downstream + data.draw(st.integers(0, 2))
    there = log(data.draw(st.integers(0, end)), end)
    offset = data.draw(st.integers(0, upstream + 2))
    [found] = onward(packed(*pieces), [offset], there, here=here)
    if found is None or not records:
        return
    unread = {up: down for up, down in records.items() if up >= max(offset, here.log_start)}
    missed = [down for down in unread.values() if down < found.offset]
    assert len(missed) <= found.skipped
    assert all(down < there.log_start for down in missed)
    if found.exact:
        assert not missed
        assert not [down for up, down in records.items() if up < offset and down >= found.offset]


@pytest.mark.parametrize(
    ("offset", "here", "expected"),
    [
        (100, log(100, 100), Place(0, True, False)),
        (100, log(60, 100), Place(0, False, True, 40)),
        (50, log(60, 100), Place(0, False, True, 0)),
        (100, None, Place(0, False, True, 100)),
    ],
)
def test_a_copy_that_was_never_filled(offset: int, here: PartitionOffsets | None, expected: Place) -> None:
    """Only what the source still has can come; where it has nothing left, nothing is read again."""
    assert [expected] == onward(None, [offset], log(0, 0), here=here)


class Copied:
    """A source's log as a list of records (None: a marker), the log of its copy, and the map that the copying made."""

    def __init__(self, data: st.DataObject) -> None:
        self.source: list[int | None] = data.draw(
            st.lists(st.one_of(st.none(), st.integers()), max_size=25).map(
                lambda log: [None if it is None else at for at, it in enumerate(log)]
            )
        )
        self.end = data.draw(st.integers(0, len(self.source)))
        self.copy: list[int | None] = []
        extents = []
        for at, record in enumerate(self.source[: self.end]):
            self.copy += [None] * data.draw(st.integers(0, 1))
            if record is not None:
                extents.append(Extent(at, len(self.copy), 1))
                self.copy.append(record)
        self.copy += [None] * data.draw(st.integers(0, 1))
        pieces = [MapSegment(0, self.end, tuple(extents))] if self.end else []
        self.map = packed(*pieces)
        self.here = log(data.draw(st.integers(0, self.end)), len(self.source))
        self.there = log(data.draw(st.integers(0, len(self.copy))), len(self.copy))

    def unread(self, at: list[int | None], offset: int, begins: int) -> list[int]:
        """The records of a log that a reader at `offset` reads."""
        return [it for it in at[max(offset, begins) :] if it is not None]


@given(st.data())
def test_there_and_home_again_nothing_is_skipped_and_exact_means_exact(data: st.DataObject) -> None:
    """By the records: a reader of the source goes on at its place on the copy, and from there at its place at home."""
    world = Copied(data)
    offset = data.draw(st.integers(0, len(world.source)))
    over = places([offset], PartitionMaps(world.map), world.there, world.here)[0]
    if over.offset is None:
        return
    reads = world.unread(world.source, offset, world.here.log_start)
    copied = [it for it in reads if it < world.end]
    met = world.unread(world.copy, over.offset, world.there.log_start)
    skipped = set(copied) - set(met)
    assert len(skipped) <= over.skipped
    assert not over.exact or (not skipped and not [it for it in met if it < offset])
    maps = PartitionMaps(None, world.map, back=True, begun_empty=True)
    home = places([over.offset], maps, world.here, world.there)[0]
    if home.offset is None:
        return
    again = world.unread(world.source, home.offset, world.here.log_start)
    assert len(set(met) - set(again)) <= home.skipped
    assert not (over.exact and home.exact and not over.ahead) or set(copied) <= set(again)
    assert not home.exact or not [it for it in again if it < world.end and it not in met]
