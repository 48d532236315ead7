"""A group that changes sides between two-way flows misses nothing, and what it sees again is counted exactly."""

from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.values import PartitionOffsets
from twinlog.formats.map.offset_map import encode_segment
from twinlog.formats.map.packed_map import PackedMap
from twinlog.groups.maps import PartitionMaps
from twinlog.groups.place import Place, places
from twinlog.offsets.segments import Extent, MapSegment

events = st.lists(st.sampled_from(["write here", "write there", "copy there", "copy back"]), max_size=40)


class World:
    """Two logs that two flows fill from one another, record by record, as exactly as the relay does."""

    def __init__(self) -> None:
        self.here: list[str] = []
        self.there: list[str] = []
        self.runs_there: list[Extent] = []
        self.runs_back: list[Extent] = []
        self.next_there = self.next_back = 0

    def do(self, event: str) -> None:
        if event == "write here":
            self.here.append(f"h{len(self.here)}")
        elif event == "write there":
            self.there.append(f"t{len(self.there)}")
        elif event == "copy there":
            self.next_there = self._copy(self.here, self.there, "h", self.next_there, self.runs_there)
        else:
            self.next_back = self._copy(self.there, self.here, "t", self.next_back, self.runs_back)

    def _copy(self, source, target, own: str, start: int, runs) -> int:
        for offset in range(start, len(source)):
            if source[offset].startswith(own):
                runs.append(Extent(offset, len(target), 1))
                target.append(source[offset])
        return len(source)


def positions_both_ways(onward, homeward, offsets, there, gaps=(), here=None) -> list[Place | None]:
    found = places(offsets, PartitionMaps(onward, homeward, gaps), there, here)
    return [None if it.offset is None else it for it in found]


def packed(runs: list[Extent], end: int, first: int = 0) -> PackedMap:
    return PackedMap.of({first: encode_segment(MapSegment(first, end, tuple(runs)))} if end > first else {})


@given(events, st.data())
def test_nothing_unread_lies_before_the_position_and_every_repeat_is_counted(plan, data) -> None:
    """By the records themselves: read here up to any offset, go on there at the position."""
    world = World()
    for event in plan:
        world.do(event)
    committed = data.draw(st.integers(0, len(world.here)))
    (found,) = positions_both_ways(
        packed(world.runs_there, world.next_there),
        packed(world.runs_back, world.next_back),
        [committed],
        PartitionOffsets(0, len(world.there), len(world.there)),
    )
    read = set(world.here[:committed])
    unread = [offset for offset, record in enumerate(world.there) if record not in read]
    assert found is not None
    first_unread = min(unread, default=len(world.there))
    assert found.offset <= first_unread
    (own,) = places(
        [committed],
        PartitionMaps(packed(world.runs_there, world.next_there)),
        PartitionOffsets(0, len(world.there), len(world.there)),
    )
    if own.offset is not None:  # and no earlier than what is known asks for: echoes are nothing to read again
        assert found.offset >= min(
            first_unread, world.next_back, max(own.offset, behind_read_of_there(world, read))
        )
    again = sum(record in read for record in world.there[found.offset :])
    beyond = max(0, committed - world.next_there)
    assert again + sum(it.startswith("h") for it in read - set(world.here[: world.next_there])) <= found.again
    assert found.again <= again + beyond


@given(events, events, st.data())
def test_by_an_older_map_of_the_way_back_nothing_is_skipped(before, after, data) -> None:
    """The other direction has gone on since that map was read: a place lies further back by it, and never on."""
    world = World()
    for event in before:
        world.do(event)
    older = packed([*world.runs_back], world.next_back)
    for event in after:
        world.do(event)
    committed = data.draw(st.integers(0, len(world.here)))
    there = PartitionOffsets(0, len(world.there), len(world.there))
    onward = packed(world.runs_there, world.next_there)
    (found,) = positions_both_ways(onward, older, [committed], there)
    unread = [offset for offset, record in enumerate(world.there) if record not in world.here[:committed]]
    assert found is not None
    assert found.offset <= min(unread, default=len(world.there))


def behind_read_of_there(world: World, read: set[str]) -> int:
    """Behind the last record of the other side's own that was read here."""
    own = [offset for offset, record in enumerate(world.there) if record.startswith("t") and record in read]
    return max(own, default=-1) + 1


def test_what_came_home_is_not_read_again_where_nothing_was_written_since() -> None:
    """Ten of A went over, four of B's own came home behind them: who has read all on A goes on behind the four on B."""
    way_there, way_back = packed([Extent(0, 0, 10)], 14), packed([Extent(10, 10, 4)], 14)
    there = PartitionOffsets(0, 14, 14)
    assert [Place(14, True, False), Place(12, True, False), Place(10, True, False)] == (
        positions_both_ways(way_there, way_back, [14, 12, 10], there)
    )


@given(events, events, st.data())
def test_of_a_map_that_begins_later_nothing_copied_is_skipped(before, after, data) -> None:
    """The way there starts late, at what retention has left: a group below that has a safe position, or none."""
    world = World()
    for event in before:
        if event != "copy there":
            world.do(event)
    first = world.next_there = data.draw(st.integers(0, len(world.here)))
    for event in after:
        world.do(event)
    committed = data.draw(st.integers(0, len(world.here)))
    (found,) = positions_both_ways(
        packed(world.runs_there, world.next_there, first),
        packed(world.runs_back, world.next_back),
        [committed],
        PartitionOffsets(0, len(world.there), len(world.there)),
    )
    read = set(world.here[:committed])
    unread = [offset for offset, record in enumerate(world.there) if record not in read]
    assert found is not None or committed < first
    assert found is None or found.offset <= min(unread, default=len(world.there))


def test_below_everything_copied_the_way_back_alone_says_nothing() -> None:
    """B's first 1000 were copied, A's own from 1500 on: at 1200 on A its records behind 1000 on B are unread."""
    there = PartitionOffsets(0, 1600, 1600)
    way_there = packed([Extent(1500, 1000, 500)], 2000, 1500)
    way_back = packed([Extent(0, 0, 1000)], 1600)
    assert [None] == positions_both_ways(way_there, way_back, [1200], there)


def test_echoes_alone_hold_nobody_up() -> None:
    """All that B holds came from A, and B->A has looked at it: a group of A starts at its own place, and not at 0."""
    there = PartitionOffsets(0, 30, 30)
    found = positions_both_ways(packed([Extent(0, 0, 30)], 30), packed([], 30), [0, 12, 30], there)
    assert [(0, 0), (12, 0), (30, 0)] == [(it.offset, it.again) for it in found if it is not None]


def test_echoes_behind_what_came_back_hold_nobody_up() -> None:
    """After a failback: ten of B came back, and what A wrote since was copied to B, where B->A passed it over."""
    way_there, way_back = packed([Extent(10, 10, 20)], 30), packed([Extent(0, 0, 10)], 30)
    (found,) = positions_both_ways(way_there, way_back, [25], PartitionOffsets(0, 30, 30))
    assert (25, 0) == (found.offset, found.again) if found is not None else False


def test_before_a_hole_others_may_have_copied_what_is_unread() -> None:
    """MM2 copied the other side's first ten records before we did: behind its copies here nobody looked."""
    way_back = PackedMap.of({10: encode_segment(MapSegment(10, 20, (Extent(10, 50, 10),)))})
    there = PartitionOffsets(0, 20, 20)
    found = positions_both_ways(None, way_back, [30, 50, 55], there)
    assert [0, 0, 15] == [it.offset for it in found if it is not None]


def test_the_other_sides_own_records_may_have_expired_before_anything_came_over() -> None:
    """Its first hundred are all copied here; who has read none of them, or thirty, finds fifty fewer there."""
    there, here = PartitionOffsets(50, 100, 100), PartitionOffsets(0, 100, 100)
    assert [Place(50, False, False, 0, 50), Place(50, False, True, 30, 20)] == [
        found
        for offset in (0, 30)
        for found in positions_both_ways(None, packed([Extent(0, 0, 100)], 100), [offset], there, (), here)
    ]


def test_what_has_expired_in_a_hole_of_the_way_back_is_not_passed_over() -> None:
    """MM2 copied the other side's second hundred: their copies here may be unread, and fifty are not there any more."""
    pieces = (MapSegment(0, 100, (Extent(0, 0, 100),)), MapSegment(200, 300, (Extent(200, 200, 100),)))
    way_back = PackedMap.of({it.first_upstream: encode_segment(it) for it in pieces})
    there, here = PartitionOffsets(150, 300, 300), PartitionOffsets(0, 300, 300)
    found = positions_both_ways(packed([], 300), way_back, [100, 50, 250], there, (), here)
    assert [50, 100, 0] == [it.skipped for it in found if it is not None]
