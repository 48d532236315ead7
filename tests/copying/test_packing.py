"""How many lanes a copy is worth, and what each of them gets."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.admin.topics import LogDirs
from twinlog.cluster.values import PartitionOffsets
from twinlog.copying.packing import LANE_BYTES, Packed, assign, assign_open, lanes_worth, pack, weighed
from twinlog.errors import ClusterRefused
from twinlog.kafka_types import TopicPartition
from twinlog.lane.spec import NO_END, RangeSpec
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic

RANGE = RangeSpec("t", "id", "A.t", 0, start=10, end=110)

RANGES = st.lists(
    st.builds(
        RangeSpec,
        topic=st.just("t"),
        topic_id=st.just("id"),
        remote_topic=st.just("A.t"),
        partition=st.integers(0, 10_000),
        start=st.integers(0, 10),
        end=st.integers(11, 10_000),
    ),
    max_size=40,
    unique_by=lambda item: item.partition,
)


@given(RANGES, st.integers(1, 8))
def test_lanes_share_the_ranges_out_evenly(ranges: list[RangeSpec], lanes: int) -> None:
    """Every range is in exactly one lane; no lane is empty; none is heavier than another by more than one range."""
    packed = pack(ranges, lanes)
    assert sorted(item.partition for lane in packed for item in lane) == sorted(it.partition for it in ranges)
    assert len(packed) == min(lanes, len(ranges))
    weights = [sum(item.end - item.start for item in lane) for lane in packed]
    heaviest = max((item.end - item.start for item in ranges), default=0)
    assert not weights or max(weights) - min(weights) <= heaviest


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=60), st.integers(1, 8))
def test_no_lane_has_more_than_its_share_and_the_largest_range(weights: list[int], lanes: int) -> None:
    """Largest first to the emptiest lane: the fullest lane exceeds the mean by less than one range."""
    ranges = [replace(RANGE, partition=n, estimated_bytes=weight) for n, weight in enumerate(weights)]
    loads = [sum(it.weight for it in lane) for lane in pack(ranges, lanes)]
    assert max(loads) <= sum(weights) / min(lanes, len(weights)) + max(weights)


TIERED = st.lists(st.tuples(st.sampled_from([10, 300]), st.integers(1, 10**6)), min_size=1, max_size=40).map(
    lambda them: [
        replace(RANGE, partition=n, rpo_seconds=rpo, estimated_bytes=weight)
        for n, (rpo, weight) in enumerate(them)
    ]
)


@given(TIERED, st.integers(1, 8))
def test_urgent_ranges_cost_no_lane_more_than_a_twentieth(ranges: list[RangeSpec], lanes: int) -> None:
    """The copy ends when its fullest lane ends, and tiers must not make that later."""

    def fullest(packed: Packed) -> int:
        return max(sum(it.weight for it in lane) for lane in packed)

    alike = pack([replace(it, rpo_seconds=300) for it in ranges], lanes)
    assert fullest(pack(ranges, lanes)) <= 1.05 * fullest(alike)


def test_all_lanes_share_the_urgent_ranges() -> None:
    """Else one lane would copy them alone, while the others copy what has time."""
    bulk = [replace(RANGE, partition=n, rpo_seconds=300, estimated_bytes=10) for n in range(21)]
    gold = [replace(RANGE, partition=30 + n, rpo_seconds=10, estimated_bytes=5) for n in range(2)]
    shared = [
        [sum(it.partition >= 30 for it in lane) for lane in pack(ranges, 2)]
        for ranges in ([*bulk, *gold], [*bulk, *(replace(it, rpo_seconds=300) for it in gold)])
    ]
    assert [[1, 1], [0, 2]] == shared


def test_a_large_range_is_not_put_on_top_of_urgent_ones() -> None:
    """Here its lane would have a fifth more, for as long as everybody waits for it."""
    large = replace(RANGE, partition=0, rpo_seconds=300, estimated_bytes=100)
    gold = [replace(RANGE, partition=1 + n, rpo_seconds=10, estimated_bytes=20) for n in range(2)]
    assert [[0], [1, 2]] == [[it.partition for it in lane] for lane in pack([large, *gold], 2)]


def test_ranges_are_weighed_by_the_bytes_of_their_logs() -> None:
    """A short range of large records may outweigh a long one of small records."""
    weights = weighed([RANGE, replace(RANGE, partition=1)], {TopicPartition("t", 0): 10_000.0})
    assert [1_000_000, 100] == [it.weight for it in weights]


def leaders_of(leaders: list[int]) -> dict[TopicPartition, int]:
    return {TopicPartition("t", n): leader for n, leader in enumerate(leaders)}


def test_lanes_share_what_each_leader_gives() -> None:
    """Over distance a connection carries only so much: no lane waits for one broker while another has none to ask."""
    leaders = [0, 1, 0, 1, 2, 2]
    lanes = pack([replace(RANGE, partition=n) for n in range(6)], 2, leaders_of(leaders))
    assert [[0, 1, 2]] * 2 == [sorted(leaders[it.partition] for it in lane) for lane in lanes]


@given(
    st.lists(st.tuples(st.integers(-1, 3), st.integers(1, 10**6)), min_size=1, max_size=40),
    st.integers(1, 8),
)
def test_leaders_cost_no_lane_more_than_a_twentieth(ranges: list[tuple[int, int]], lanes: int) -> None:
    """Each range is in one lane, no lane is empty, and none is fuller for it: near by, only bytes count."""
    weighed_ = [replace(RANGE, partition=n, estimated_bytes=weight) for n, (_, weight) in enumerate(ranges)]
    packed = pack(weighed_, lanes, leaders_of([leader for leader, _ in ranges]))
    assert [*range(len(ranges))] == sorted(it.partition for lane in packed for it in lane)
    assert all(packed) and len(packed) == min(lanes, len(ranges))
    fullest, plain = (
        max(sum(it.weight for it in lane) for lane in its) for its in (packed, pack(weighed_, lanes))
    )
    assert fullest <= 1.05 * plain


@dataclass
class Source:
    """A cluster that tells the sizes of its logs, or refuses to."""

    sizes: dict[TopicPartition, int] | None

    def log_dirs(self) -> LogDirs:
        if self.sizes is None:
            raise ClusterRefused("no DESCRIBE on the cluster")
        return LogDirs(self.sizes)

    def leaders(self, topics: set[str]) -> dict[TopicPartition, int]:
        raise ClusterRefused("it tells no leaders, either")


def topic(ends: list[int]) -> list[DiscoveredTopic]:
    """One topic whose partitions hold the offsets from 0 to these."""
    placed = [
        DiscoveredPartition("t", "id", n, PartitionOffsets(0, end, end), None) for n, end in enumerate(ends)
    ]
    return [DiscoveredTopic("t", "id", "A.t", len(ends), tuple(placed), None, False)]


def whole(ends: list[int]) -> list[RangeSpec]:
    return [replace(RANGE, partition=n, start=0, end=end) for n, end in enumerate(ends)]


@pytest.mark.parametrize(
    ("size", "lanes"), [(0, 1), (LANE_BYTES - 1, 1), (LANE_BYTES, 2), (LANE_BYTES * 99, 8)]
)
def test_a_further_lane_for_every_so_many_bytes(size: int, lanes: int) -> None:
    """Never none, never more than there are slots."""
    assert lanes == lanes_worth(size, 8)


@pytest.mark.parametrize(
    ("sizes", "chosen", "lanes"),
    [
        ({TopicPartition("t", n): 1000 for n in range(4)}, None, 1),
        ({TopicPartition("t", n): LANE_BYTES for n in range(4)}, None, 3),
        ({TopicPartition("t", n): 1000 for n in range(4)}, 2, 2),
        ({TopicPartition("t", n): LANE_BYTES for n in range(4)}, 1, 1),
        (None, None, 3),
        (None, 2, 2),
    ],
)
def test_lanes_follow_the_bytes_unless_somebody_chose(sizes, chosen, lanes) -> None:
    """Little is one lane's work; as many as there may be when the source does not tell how much there is."""
    ends = [100] * 4
    assert lanes == len(assign(Source(sizes), whole(ends), topic(ends), most=3, configured=chosen))


@pytest.mark.parametrize(
    ("start", "least", "lanes"),
    [(100, 1, 1), (99, 1, 1), (0, 1, 3), (100, 2, 2), (0, 2, 3)],
)
def test_open_lanes_follow_the_backlog(start: int, least: int, lanes: int) -> None:
    """Nothing behind is one lane's work, or that of as many as have turned out to be needed."""
    ends = [100] * 4
    ranges = [replace(it, start=start, end=NO_END) for it in whole(ends)]
    sizes = {TopicPartition("t", n): LANE_BYTES for n in range(4)}
    dealt = assign_open(
        Source(sizes), ranges, topic(ends), recent_bytes={}, least=least, most=3, configured=None
    )
    assert (lanes, {NO_END}, 4) == (
        len(dealt),
        {it.end for lane in dealt for it in lane},
        len({it.partition for lane in dealt for it in lane}),
    )


def test_a_busy_partition_has_a_lane_to_itself() -> None:
    """What it had in the last window weighs, also when nothing is left of it now."""
    ends = [100] * 3
    ranges = [replace(it, start=100, end=NO_END) for it in whole(ends)]
    busy = {TopicPartition("t", 1): 10_000}
    dealt = assign_open(Source({}), ranges, topic(ends), recent_bytes=busy, least=2, most=2, configured=None)
    assert [[1], [0, 2]] == [[it.partition for it in lane] for lane in dealt]
