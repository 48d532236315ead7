"""Upkeep changes how the map is stored, and nothing it answers."""

from dataclasses import replace

import pytest
from fake_cluster import FakeCluster
from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.formats.ledger.topics import Incarnation
from twinlog.formats.map.offset_map import (
    MapKey,
    decode_map_key,
    decode_segments,
    encode_map_key,
    encode_segment,
)
from twinlog.formats.map.packed_map import PackedMap
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.offset_sync import map_compaction
from twinlog.offset_sync.map_compaction import (
    JOINED_RUNS,
    WORTH_IT,
    CompactionResult,
    Replacement,
    make_plan,
    records_of,
)
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.state.ledger import write_ledger

LIFE = SourceIncarnation("orders", "id", 3)


def stored(pieces: list[MapSegment]) -> dict[int, bytes]:
    return {it.first_upstream: encode_segment(it) for it in pieces}


def applied(pieces: dict[int, bytes], plan: list[Replacement]) -> dict[int, bytes]:
    """What the topic holds behind the transaction."""
    result = dict(pieces)
    for it in plan:
        for at, first in enumerate(it.replaced):
            result.pop(first)
            if at == 0 and it.value is not None:
                result[first] = it.value
    return result


@st.composite
def many(draw) -> list[MapSegment]:
    """Small pieces one behind the other, some empty, some with a hole before them."""
    result, upstream, downstream = [], 0, 0
    for shape in draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.booleans()), max_size=70)):
        length, jump, hole = shape
        upstream += 5 if hole and draw(st.integers(0, 9)) == 0 else 0
        downstream += jump
        runs = (Extent(upstream, downstream, length),) if length else ()
        result.append(MapSegment(upstream, upstream + length + 1, runs))
        upstream, downstream = upstream + length + 1, downstream + length
    return result


@given(many(), st.integers(0, 200))
def test_every_position_is_the_same_afterwards(pieces, log_start):
    """Held within the log, as every position is; the newest piece is untouched; running again changes nothing."""
    before = PackedMap.of(stored(pieces))
    plan = make_plan({LIFE: before}, {LIFE: log_start})
    after = PackedMap.of(applied(stored(pieces), plan))
    assert before.values[-1:] == after.values[-1:]
    assert make_plan({LIFE: after}, {LIFE: log_start}) == [] or len(after.values) < len(before.values)
    if not before.run_count:
        return
    wanted = list(range(before.end_upstream + 3))
    old, new = before.translate_many(wanted), after.translate_many(wanted)
    assert [max(it, log_start) for it in old.offset.tolist()] == [
        max(it, log_start) for it in new.offset.tolist()
    ]
    above = [at for at in wanted if old.offset[at] > log_start]
    assert old.exact[above].tolist() == new.exact[above].tolist()


def test_a_dense_topic_becomes_one_run():
    """A day of one-run pieces, each beginning where the last one ended."""
    pieces = [MapSegment(n * 10, n * 10 + 10, (Extent(n * 10, n * 10, 10),)) for n in range(1440)]
    (plan,) = make_plan({LIFE: PackedMap.of(stored(pieces))}, {})
    assert (1439, 0) == (len(plan.replaced), plan.replaced[0])
    table = decode_segments([0], [plan.value])
    assert [MapSegment(0, 14_390, (Extent(0, 0, 14_390),))] == [table.piece(0)]


def test_joined_pieces_stay_small():
    """Transactions of one record each, a marker between: joined up to a limit, and again when there are more."""
    pieces = [MapSegment(n * 2, n * 2 + 2, (Extent(n * 2, n * 3, 1),)) for n in range(3 * JOINED_RUNS)]
    plan = make_plan({LIFE: PackedMap.of(stored(pieces))}, {})
    assert [JOINED_RUNS, JOINED_RUNS, JOINED_RUNS - 1] == [len(it.replaced) for it in plan]
    assert all(len(it.value) < 4 * JOINED_RUNS for it in plan)


def test_few_pieces_are_left_alone():
    """They are not worth a transaction."""
    pieces = [MapSegment(n, n + 1, (Extent(n, n, 1),)) for n in range(WORTH_IT)]
    assert [] == make_plan({LIFE: PackedMap.of(stored(pieces))}, {LIFE: 0})


def test_what_lies_below_the_log_start_is_forgotten_but_for_one():
    """The piece that is kept says that what lies before the log start was ours."""
    pieces = [MapSegment(n * 10, n * 10 + 10, (Extent(n * 10, n * 10, 10),)) for n in range(8)]
    plan = make_plan({LIFE: PackedMap.of(stored(pieces))}, {LIFE: 45})
    assert [Replacement(LIFE, (0, 10, 20, 30), None)] == plan
    assert [] == make_plan({LIFE: PackedMap.of(applied(stored(pieces), plan))}, {LIFE: 45})


def test_the_newest_piece_is_never_touched():
    """A lane may be writing it this moment."""
    pieces = [MapSegment(n * 10, n * 10 + 10, (Extent(n * 10, n * 10, 10),)) for n in range(40)]
    plan = make_plan({LIFE: PackedMap.of(stored(pieces))}, {LIFE: 10_000})
    assert 390 not in {first for it in plan for first in it.replaced}


def test_records_go_where_the_copy_writes_them():
    """All pieces of a source partition live in one partition of the map: here as in relay.state_records."""
    records = list(records_of(16, Replacement(LIFE, (0, 7), b"joined")))
    assert [(0, b"joined"), (7, None)] == [
        (decode_map_key(it.key).first_upstream, it.value) for it in records
    ]
    assert 1 == len({it.partition for it in records})


FLOW = FlowSettings(*(ClusterSettings(alias, "", ConnectionSettings(alias, ())) for alias in "AB"))


class World:
    """A copy of which 45 records were deleted, its map in pieces of ten, and what an upkeep writes."""

    def __init__(self, monkeypatch) -> None:
        self.target = FakeCluster("B")
        for name, partitions in [(FLOW.ledger_topic, 1), (FLOW.offset_map_topic, 16), ("A.orders", 4)]:
            self.target.add_topic(name, partitions)
        self.copy = TopicPartition("A.orders", 3)
        for number in range(80):
            self.target.append(self.copy, key=b"k%d" % number, value=b"v")
        self.target.delete_records(self.copy, 45)
        copy_id = self.target.topics["A.orders"].topic_id
        write_ledger(FLOW, self.target, [Incarnation("orders", "id", 1, "A.orders", copy_id)])
        for first in range(0, 80, 10):
            piece = MapSegment(first, first + 10, (Extent(first, first, 10),))
            key = encode_map_key(MapKey(*LIFE, first))
            self.target.append(TopicPartition(FLOW.offset_map_topic, 0), key=key, value=encode_segment(piece))
        self.before_init = lambda: None
        self.written: list = []
        taken = self.target.turn

        def turn(*terms):
            self.before_init()
            return replace(taken(*terms), cluster=self)

        monkeypatch.setattr(self.target, "turn", turn)
        self.meanwhile, self.turns = [], self.target.turns

    def produce(self, topic: str, records: list) -> None:
        self.written += records

    def recreate(self) -> None:
        """Delete the copy and make it again, with a log that begins further on."""
        self.target.add_topic("A.orders", 4)
        for _ in range(100):
            self.target.append(self.copy, key=b"k", value=b"v")
        self.target.delete_records(self.copy, 75)

    def run(self) -> list[int]:
        map_compaction.run(FLOW, Clusters(FakeCluster("A"), self.target))
        return [decode_map_key(it.key).first_upstream for it in self.written]


@pytest.fixture
def world(monkeypatch) -> World:
    return World(monkeypatch)


def test_the_start_of_the_log_is_read_behind_the_initialising(world):
    """What was seen before it is no reason to cut: the start moved on meanwhile, and the new one counts."""
    world.before_init = lambda: world.target.delete_records(world.copy, 65)
    assert [0, 10, 20, 30, 40, 50] == world.run()


def test_a_copy_made_anew_before_the_write_has_nothing_cut(world):
    """Its log begins elsewhere, and the ledger does not know it: the map is another log's."""
    world.before_init = world.recreate
    assert [] == world.run()


def test_a_copy_made_anew_while_its_start_is_asked_for_has_nothing_cut(world):
    """Offsets are asked for by name: the id is looked at before and after."""
    asked = world.target.offsets

    def recreated_first(partitions):
        partitions = list(partitions)
        if partitions:
            world.recreate()
        return asked(partitions)

    world.before_init = lambda: setattr(world.target, "offsets", recreated_first)
    assert [] == world.run()


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (CompactionResult("A->B", 1_200), "1,200 segments, nothing to compact"),
        (CompactionResult("A->B", 1_200, 90, 3, 7), "90 of 1,200 segments joined into 3, 7 deleted"),
        (CompactionResult("A->B", 5, note="another one came in between"), "another one came in between"),
    ],
)
def test_a_log_says_what_was_compacted(result: CompactionResult, sentence: str) -> None:
    """In a sentence, not in the names of fields."""
    assert sentence == result.sentence
