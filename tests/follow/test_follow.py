"""What follow mode decides, without a broker."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from followed import following_of
from hypothesis import given
from hypothesis import strategies as st

from twinlog.cli.replication.cycle import follow_failures
from twinlog.cluster.api import Clusters
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.copy import TASKS_DIED, rate_shares
from twinlog.copying.ownership import Ownership
from twinlog.copying.packing import pack
from twinlog.copying.progress import CopyProgress, LaneProgress, progress_of
from twinlog.copying.ranges import resolve
from twinlog.copying.result import CopyResult
from twinlog.errors import (
    ClusterRefused,
    ClusterUnreachable,
    FencedError,
    TerminalError,
    TransientError,
    TwinlogError,
)
from twinlog.follow import background, follow, generation, topics
from twinlog.follow.background import Turn, beside, turns
from twinlog.follow.generation import Following
from twinlog.follow.report import LaneGeneration, RunState, prepare
from twinlog.formats.lane_counts import NO_COUNTS
from twinlog.kafka_types import TopicPartition
from twinlog.lane.spec import LaneOutcome, LaneReport, RangeReport, RangeSpec
from twinlog.topics import pauses
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic, RemoteTopic
from twinlog.topics.snapshot import with_offsets

RANGE = RangeSpec("t", "id", "A.t", 0, start=10, end=110)


def test_newer_offsets_replace_the_prepared_ones_and_nothing_else() -> None:
    """A partition whose leader gave no answer is left to the next window."""
    old, new = PartitionOffsets(0, 5, 5), PartitionOffsets(1, 9, 9)
    topic = DiscoveredTopic(
        "t", "id", "A.t", 2, tuple(DiscoveredPartition("t", "id", n, old, None) for n in (0, 1)), None, False
    )
    assert (
        replace(topic, partitions=(DiscoveredPartition("t", "id", 1, new, None),))
        == with_offsets([topic], {TopicPartition("t", 1): new})[0]
    )


def test_a_window_stops_what_has_no_leader_as_it_opens(flow) -> None:
    """Such a window is opened anew at the next look: the look alone would see nothing that changed."""
    old = PartitionOffsets(0, 5, 5)
    parts = tuple(DiscoveredPartition("t", "id", n, old, old) for n in (0, 1))
    topic = DiscoveredTopic("t", "id", "A.t", 2, parts, RemoteTopic("copy", 2))
    seen = with_offsets([topic], {TopicPartition("t", 1): old})
    resolved = resolve(flow, seen, {}, {}, {}, follow=True)
    assert [1] == [it.partition for it in resolved.ranges]
    assert [(0, "partition-unavailable")] == [(it.partition, it.code) for it in resolved.stopped]


def test_tasks_that_keep_dying_end_the_run_with_what_was_copied(
    flow, clusters, with_internal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows in a row without a report: Spark is gone, and what came before it went is in the result."""
    died = TransientError("no Python", code=TASKS_DIED)
    spans = [LaneGeneration("A->B", 1, 1, 7, 70, 1.0)] + [
        LaneGeneration("A->B", 1, 1, 0, 0, 60.0, failure=died)
    ] * 3

    def generation(following: Following) -> LaneGeneration:
        following.tally.totals.add(LaneReport(0, LaneOutcome.DONE, (RangeReport("t", "A.t", 0, 7, 70, 7),)))
        following.tally.totals.ends["t", 0] = 7
        return spans.pop(0)

    monkeypatch.setattr(Following, "run_lanes", generation)
    monkeypatch.setattr(Ownership, "read_ahead", lambda _: None)
    runner = SimpleNamespace(slots=1)
    result = follow.run(flow, clusters, runner, run_id="r", seconds=600)  # type: ignore[arg-type]
    assert ("failed", "tasks-died", True) == (result.state, result.error_code, result.broke_off)
    assert ([], 7 * 4) == (spans, result.records)


def test_a_run_that_ends_while_nobody_leads_a_partition_has_not_copied_all(
    flow, clusters, source, with_internal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lane finds out after 20 seconds: at the end of the run the source is asked again."""
    source.add_topic("orders", 2)

    def generation(following: Following) -> LaneGeneration:
        offsets = source.offsets

        def without_the_second(partitions: Any) -> Any:
            answers = offsets(it for it in partitions if it != ("orders", 1))
            return replace(answers, refused={TopicPartition("orders", 1): TransientError("no leader")})

        monkeypatch.setattr(source, "offsets", without_the_second)
        return LaneGeneration("A->B", 1, 2, 0, 0, 0.1)

    monkeypatch.setattr(Following, "run_lanes", generation)
    monkeypatch.setattr(Ownership, "read_ahead", lambda _: None)
    runner = SimpleNamespace(slots=1)
    result = follow.run(flow, clusters, runner, run_id="r", seconds=0.0)  # type: ignore[arg-type]
    assert [("orders", 1, "partition-unavailable")] == [
        (it.topic, it.partition, it.code) for it in result.stopped
    ]
    assert ("failed", True) == (result.state, result.transient)


def test_a_followed_flow_whose_topic_got_no_place_has_not_copied_all(
    flow, clusters, source, with_internal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target refuses to make it: nobody but the run could tell, and somebody has to act."""
    source.add_topic("orders")
    with_internal.refuse("create_topics", "A.orders", ClusterRefused("no CREATE"))
    monkeypatch.setattr(Following, "run_lanes", lambda _: LaneGeneration("A->B", 1, 0, 0, 0, 0.1))
    monkeypatch.setattr(Ownership, "read_ahead", lambda _: None)
    runner = SimpleNamespace(slots=1)
    result = follow.run(flow, clusters, runner, run_id="r", seconds=0.0)  # type: ignore[arg-type]
    assert ("failed", False, ["A.orders"]) == (
        result.state,
        result.transient,
        [it.name for it in result.refused],
    )
    assert ["A.orders"] == [it.topic for it in follow_failures(result)]


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_refresh_that_failed_is_the_result_only_if_it_fails_at_the_end(
    flow, clusters, source, with_internal, monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    """Lanes that opened after it went on with the topics known before, and copied all."""
    source.add_topic("orders")
    away = ClusterUnreachable("cluster A cannot be reached")
    answers = [None, away, None if comes_back else away]

    def prepared_or_not(*given: Any) -> Any:
        if answers and (error := answers.pop(0)) is not None:
            raise error
        return prepare(*given)

    def opened(following: Following) -> tuple[tuple[()], generation.Opening]:
        if following.number == 1:
            assert away is following.topics.refresh()
        return (), generation.Opening((), (), (), partial=False)

    monkeypatch.setattr(topics, "prepare", prepared_or_not)
    monkeypatch.setattr(Following, "_open", opened)
    monkeypatch.setattr(Ownership, "read_ahead", lambda _: None)
    runner = SimpleNamespace(slots=1)
    result = follow.run(flow, clusters, runner, run_id="r", seconds=0.1)  # type: ignore[arg-type]
    expected = ("", "nothing") if comes_back else (str(away), "failed")
    assert expected == (result.error, result.state)
    assert [] == answers


def test_notes_about_topics_are_told_once(
    flow, clusters, source, with_internal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refresh finds the same: a source without topic ids, say."""
    source.add_topic("orders")
    monkeypatch.setattr(
        topics, "prepare", lambda *it: replace(prepare(*it), notes=("A gives topics no ids",))
    )
    monkeypatch.setattr(Ownership, "read_ahead", lambda _: None)

    def run_lanes(following: Following) -> LaneGeneration:
        assert following.topics.refresh() is None
        return LaneGeneration("A->B", 1, 0, 0, 0, 0.1)

    monkeypatch.setattr(Following, "run_lanes", run_lanes)
    told: list[str] = []
    runner = SimpleNamespace(slots=1)
    follow.run(flow, clusters, runner, run_id="r", seconds=0.0, on_refresh=told.append)  # type: ignore[arg-type]
    assert ["A->B: A gives topics no ids"] == told


def test_heartbeats_follow_the_intervals_that_are_switched_on(flow) -> None:
    """A way back that only beats is written to the source also when the flow itself does not beat."""

    def beats(**changes: object) -> list[float]:
        standing = RunState("run", 0)
        return [it.every for it in turns(replace(flow, **changes), standing) if it.name == "heartbeats"]

    back = replace(flow, enabled=False, emit_heartbeats=True, heartbeats_interval_seconds=3)
    assert [] == beats(emit_heartbeats=False, reverse_heartbeats=None)
    assert [3] == beats(emit_heartbeats=False, heartbeats_interval_seconds=1, reverse_heartbeats=back)
    assert [1] == beats(emit_heartbeats=True, heartbeats_interval_seconds=1, reverse_heartbeats=back)


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


def test_heartbeats_wait_for_no_other_task_and_the_end_for_none(flow, monkeypatch) -> None:
    """A map of 100,000 segments takes a while, and a source that is away a minute; SIGTERM does not wait for it."""
    beats, over = threading.Semaphore(0), threading.Event()
    monkeypatch.setattr(background, "LAST_TURN_SECONDS", 0.1)
    monkeypatch.setattr(background.heartbeats, "beat", lambda *_: beats.release())
    each = [
        Turn("offset_syncs", 0.0, lambda *_: over.wait(30)),
        Turn("heartbeats", 0.0, background.heartbeats.beat),
    ]
    began = time.monotonic()
    with beside(flow, each, lambda *_: None):
        assert all(beats.acquire(timeout=10) for _ in range(3))
    assert time.monotonic() - began < 10
    over.set()


def test_a_task_that_costs_much_has_its_turn_less_often(flow) -> None:
    """Its CPU counts, not its time: what waits for a cluster that is away is not put off."""
    turned: list[str] = []
    others = threading.Semaphore(0)

    def burn(*_: object) -> None:
        turned.append("burns")
        until = time.thread_time() + 0.01
        while time.thread_time() < until:
            pass

    def wait(*_: object) -> None:
        time.sleep(0.01)
        others.release()

    each = [Turn("offset_syncs", 0.0, burn, rests=1e6), Turn("report", 0.0, wait, rests=1.0)]
    with beside(flow, each, lambda *_: None):
        assert all(others.acquire(timeout=10) for _ in range(4))
    assert ["burns"] == turned


def test_a_carried_pair_beats_in_turns_of_its_own(flow, monkeypatch) -> None:
    """While its cluster is away no step of the flow waits for it; its trouble is said once, until it is another."""
    heard: list[tuple[str, str]] = []
    tried, turned = threading.Semaphore(0), threading.Semaphore(0)
    messages = iter(["C is away", "C is away", *["C refuses"] * 1000])

    def beat(*_: object) -> None:
        tried.release()
        raise ClusterUnreachable(next(messages))

    monkeypatch.setattr("twinlog.follow.background.heartbeats.beat", beat)
    pair = replace(flow, target=replace(flow.target, alias="C"), heartbeats_interval_seconds=0)
    each = [Turn("report", 0.0, lambda *_: turned.release())]
    carrying = replace(flow, other_heartbeats=(pair,))
    with beside(carrying, each, lambda step, error: heard.append((step, error.message))):
        assert all(waited.acquire(timeout=10) for waited in (tried,) * 4 + (turned,) * 4)
    assert [("heartbeats of A->C", "C is away"), ("heartbeats of A->C", "C refuses")] == heard


def test_progress_counts_what_lies_in_the_ranges() -> None:
    """Not what was copied before this round, nor what another round copies behind its end."""
    spec = _spec([RANGE, replace(RANGE, partition=1), replace(RANGE, partition=2)])
    counts = {0: NO_COUNTS._replace(bytes=500)}
    seen = progress_of("A->B", [spec], {("t", 0): 59, ("t", 1): 5, ("t", 2): 500}, counts, 2.0)
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


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=40), st.integers(1, 8))
def test_no_lane_that_follows_goes_without(weights: list[int], lanes: int) -> None:
    """All together may send the rate; each at least half of an even share, whatever it weighed as it was opened."""
    ranges = [replace(RANGE, partition=n, estimated_bytes=weight) for n, weight in enumerate(weights)]
    packed = pack(ranges, lanes)
    shares = [share or 0 for share in rate_shares(1000, packed, followed=True)]
    assert 1000.0 == round(sum(shares), 6)
    assert min(shares) >= 1000 / (2 * len(packed))


def test_a_throttle_over_no_lanes_is_shared_by_nobody() -> None:
    """A flow without a topic yet."""
    assert () == rate_shares(1000, (), followed=True)


@pytest.mark.parametrize(("rate", "seconds"), [(None, 0.0), (100, 7.0), (1000, 0.0)])
def test_what_lanes_sent_ahead_of_the_throttle_is_owed(rate: int | None, seconds: float) -> None:
    """A thousand bytes in three seconds: lanes that are called back do not wait, so their driver does."""
    assert seconds == follow.owed_seconds(LaneGeneration("A->B", 1, 1, 1, 1000, 3.0), rate)


@dataclass
class Begun:
    """A run that was told to stop before its first window; its flow is paused.  `fence` is what a fence does."""

    monkeypatch: pytest.MonkeyPatch
    fence: Callable[[], object]
    lanes: int = 0
    lines: list[str] = field(default_factory=list)

    def run(self, flow: FlowSettings, clusters: Clusters, slots: int, sharers: int = 1) -> CopyResult:
        def begin(*given: object) -> SimpleNamespace:
            self.lanes = given[-1]
            return SimpleNamespace(lanes=self.lanes, read_ahead=list, take=self.fence, run_id="run")

        self.monkeypatch.setattr(Ownership, "of", begin)
        stop = threading.Event()
        stop.set()
        return follow.run(
            flow,
            clusters,
            SimpleNamespace(slots=slots),
            run_id="run",
            seconds=60,
            sharers=sharers,
            stop=stop,
            on_refresh=self.lines.append,
        )


@pytest.fixture
def begun(flow, clusters, target, orders, monkeypatch) -> Callable[..., Begun]:
    pauses.pause(flow, target, by="jo", reason="load")
    return lambda fence=list: Begun(monkeypatch, fence)


@pytest.mark.parametrize(
    ("configured", "sharers", "most", "told"),
    [(None, 1, 4, False), (None, 2, 2, False), (1, 2, 1, False), (3, 2, 2, True), (9, 1, 4, True)],
)
def test_a_followed_flow_has_no_more_lanes_than_slots(
    begun, flow, clusters, configured: int | None, sharers: int, most: int, told: bool
) -> None:
    """A lane that waits for a slot waits for ever: none is given back.  Of four, each flow has its share."""
    run = begun()
    run.run(replace(flow, copy=replace(flow.copy, lanes=configured)), clusters, 4, sharers)
    assert (most, told) == (run.lanes, any("lanes instead of" in it for it in run.lines)), run.lines


PAUSE = TerminalError("flow A->B is paused", code="paused")


def test_a_paused_flow_is_ended_without_a_fence(begun, flow, clusters) -> None:
    """It had nothing open, and the fence would say only that it is paused."""

    def fence() -> None:
        raise AssertionError("not asked for")

    assert "nothing" == begun(fence).run(flow, clusters, 1).state


@pytest.mark.parametrize("error", [PAUSE, ClusterUnreachable("B is away")])
def test_a_fence_that_cannot_be_had_costs_no_report(flow, error: TwinlogError) -> None:
    """What lanes that were ended did not report is then not counted."""
    follow._count_unreported(ended(flow, error))


@pytest.mark.parametrize("error", [FencedError("another twinlog"), ClusterRefused("no right to write")])
def test_what_a_last_fence_tells_is_told(flow, error: TwinlogError) -> None:
    """Another driver has the flow, or nobody may."""
    with pytest.raises(type(error)):
        follow._count_unreported(ended(flow, error))


def ended(flow: FlowSettings, error: TwinlogError) -> Following:
    """A window whose lanes were ended, with a target that does not let it fence."""

    def fence() -> None:
        raise error

    owned: Any = SimpleNamespace(take=fence)
    following = following_of(flow, owned=owned)
    following.ranges, following.tally.unreported = (RANGE,), (_spec([RANGE]),)
    return following


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
