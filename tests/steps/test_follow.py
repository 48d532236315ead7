"""What follow mode decides, without a broker."""

import threading
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.values import PartitionOffsets, TopicPartition
from twinlog.relay.spec import RangeSpec
from twinlog.steps.beside import Turn, beside, due, turns
from twinlog.steps.copy_progress import CopyProgress, LaneProgress, progress_of
from twinlog.steps.copy_round import rate_shares
from twinlog.steps.discover import with_offsets
from twinlog.steps.discovery import DiscoveredPartition, DiscoveredTopic
from twinlog.steps.follow_report import RunState
from twinlog.steps.packing import pack

RANGE = RangeSpec("t", "id", "A.t", 0, start=10, end=110)


def test_newer_offsets_replace_the_prepared_ones_and_nothing_else() -> None:
    """A partition whose leader gave no answer is left to the next window."""
    old, new = PartitionOffsets(0, 5, 5), PartitionOffsets(1, 9, 9)
    topic = DiscoveredTopic(
        "t", "id", "A.t", 2, tuple(DiscoveredPartition(n, old, None) for n in (0, 1)), None, False
    )
    assert (
        replace(topic, partitions=(DiscoveredPartition(1, new, None),))
        == with_offsets([topic], {TopicPartition("t", 1): new})[0]
    )


def test_a_step_has_its_turn_when_its_interval_is_over() -> None:
    """At once the first time."""
    each = [Turn("a", 1.0, print), Turn("b", 60.0, print)]
    assert each == due(each, {}, 5.0)
    assert each[:1] == due(each, {"a": 4.0, "b": 4.0}, 5.0)


def test_heartbeats_follow_the_intervals_that_are_switched_on(flow) -> None:
    """A way back that only beats is written to the source also when the flow itself does not beat."""

    def beats(**changes: object) -> list[float]:
        standing = RunState("run", 0)
        return [it.every for it in turns(replace(flow, **changes), standing) if it.name == "heartbeats"]

    back = replace(flow, enabled=False, emit_heartbeats=True, heartbeats_interval_seconds=3)
    assert [] == beats(emit_heartbeats=False, way_back=None)
    assert [3] == beats(emit_heartbeats=False, heartbeats_interval_seconds=1, way_back=back)
    assert [1] == beats(emit_heartbeats=True, heartbeats_interval_seconds=1, way_back=back)


def test_checkpoints_follow_the_intervals_that_are_switched_on(flow) -> None:
    """What is switched off has no say in how often."""

    def every(*, emit: bool, sync: bool) -> list[float]:
        switched = replace(
            flow,
            emit_checkpoints=emit,
            sync_group_offsets=sync,
            emit_checkpoints_interval_seconds=600,
            sync_group_offsets_interval_seconds=60,
        )
        return [it.every for it in turns(switched, RunState("run", 0)) if it.name == "checkpoints"]

    cases = ((True, False), (False, True), (True, True), (False, False))
    assert [[600], [60], [60], []] == [every(emit=emit, sync=sync) for emit, sync in cases]


def test_a_step_that_cannot_go_on_keeps_no_other_from_its_turn(flow) -> None:
    """A metrics folder that is full is said, and tried again."""
    heard: list[tuple[str, str]] = []
    beats = threading.Semaphore(0)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    each = [Turn("report", 0.0, full), Turn("heartbeats", 0.0, lambda *_: beats.release())]
    with beside(flow, each, lambda step, error: heard.append((step, error.message))):
        assert all(beats.acquire(timeout=10) for _ in range(2))
    assert ("report", "OSError: [Errno 28] No space left on device") == heard[0]


def test_progress_counts_what_lies_in_the_ranges() -> None:
    """Not what was copied before this round, nor what another round copies behind its end."""
    spec = _spec([
        replace(RANGE, estimated_bytes=1000),
        replace(RANGE, partition=1),
        replace(RANGE, partition=2),
    ])
    seen = progress_of("A->B", [spec], {("t", 0): 59, ("t", 1): 5, ("t", 2): 500}, 2.0)
    assert (50 + 0 + 100, 300, 75.0, 250.0) == (
        seen.done,
        seen.total,
        seen.records_per_second,
        seen.bytes_per_second,
    )


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=40), st.integers(1, 8))
def test_the_shares_of_a_throttle_add_up(weights: list[int], lanes: int) -> None:
    """However ranges are packed, all lanes together may send the rate, and all end together."""
    ranges = [replace(RANGE, partition=n, estimated_bytes=weight) for n, weight in enumerate(weights)]
    packed = pack(ranges, lanes)
    shares = [share or 0 for share in rate_shares(1000, packed)]
    ends = {
        round(sum(it.weight for it in lane) / share, 3) for lane, share in zip(packed, shares, strict=True)
    }
    assert (1000.0, 1) == (round(sum(shares), 6), len({round(end / max(ends), 6) for end in ends}))


def _spec(ranges: list[RangeSpec]):
    class Spec:
        lane = 0

    spec = Spec()
    spec.ranges = ranges
    return spec


def test_a_line_says_what_is_done_what_is_left_and_each_lane() -> None:
    """Records, speed, and MB where sizes are known."""
    lanes = (LaneProgress(0, 3, 50, 100, 500_000), LaneProgress(1, 1, 100, 100, 1_500_000))
    assert CopyProgress("A->B", 2.0, lanes).line == (
        "A->B: 150 records copied, 50 to go, 75 records/s, 1.0 MB/s (lane 0 50%, lane 1 100%)"
    )
