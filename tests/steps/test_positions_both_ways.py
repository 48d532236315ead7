"""A group that changes sides between two-way flows misses nothing, and what it sees again is counted exactly."""

from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.values import PartitionOffsets
from twinlog.formats.offset_map import encode_piece
from twinlog.formats.packed_map import PackedMap
from twinlog.offsets.piece import MapPiece
from twinlog.offsets.run import Run
from twinlog.steps.positions import positions_both_ways

events = st.lists(st.sampled_from(["write here", "write there", "copy there", "copy back"]), max_size=40)


class World:
    """Two logs that two flows fill from one another, record by record, as exactly as the relay does."""

    def __init__(self) -> None:
        self.here: list[str] = []
        self.there: list[str] = []
        self.runs_there: list[Run] = []
        self.runs_back: list[Run] = []
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
                runs.append(Run(offset, len(target), 1))
                target.append(source[offset])
        return len(source)


def packed(runs: list[Run], end: int) -> PackedMap:
    return PackedMap.of({0: encode_piece(MapPiece(0, end, tuple(runs)))} if end else {})


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
    assert found.offset <= min(unread, default=len(world.there))
    again = sum(record in read for record in world.there[found.offset :])
    beyond = max(0, committed - world.next_there)
    assert again + sum(it.startswith("h") for it in read - set(world.here[: world.next_there])) <= found.slack
    assert found.slack <= again + beyond


def test_before_a_hole_others_may_have_copied_what_is_unread() -> None:
    """MM2 copied the other side's first ten records before we did: behind its copies here nobody looked."""
    way_back = PackedMap.of({10: encode_piece(MapPiece(10, 20, (Run(10, 50, 10),)))})
    there = PartitionOffsets(0, 20, 20)
    found = positions_both_ways(None, way_back, [30, 50, 55], there)
    assert [0, 0, 15] == [it.offset for it in found if it is not None]
