"""What a copy is called, and whether trying again may help."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.copy import count_dead
from twinlog.copying.ranges import StoppedPartition
from twinlog.copying.result import Totals, result_of
from twinlog.formats.lane_counts import LaneCounts
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.range_errors import NO_LEADER, SOURCE_LOST, TOPIC_DELETED
from twinlog.lane.spec import NO_END, LaneOutcome, LaneReport, RangeReport, RangeSpec
from twinlog.topics.discovery import Discovery


def copied(flow: FlowSettings, *codes: str, stopped: tuple[str, ...] = ()) -> tuple[str, bool]:
    """State, and whether it is transient, of a copy with a partition for each code ("" is well)."""
    totals = Totals()
    for number, code in enumerate(codes):
        totals.ends["t", number] = 5
        report = RangeReport(
            "t", "A.t", number, 1, 1, 5, error_code=code, error=code and f"t-{number}: trouble"
        )
        totals.add(LaneReport(0, LaneOutcome.FAILED if code else LaneOutcome.DONE, (report,)))
    stops = tuple(StoppedPartition("t", 9, code, "stopped") for code in stopped)
    discovery = Discovery(flow.name, "cluster-A", "cluster-B", 1, (), (), ())
    result = result_of(flow, "r", discovery, totals, stops, None, 1, 1, 0.1)
    return result.state, result.transient


@pytest.mark.parametrize("code", [NO_LEADER, SOURCE_LOST, "stalled", "partition-unavailable"])
def test_what_a_broker_causes_that_is_away_is_tried_again(flow: FlowSettings, code: str) -> None:
    """Also on the target, and also where it was found before a lane began."""
    assert ("failed", True) == copied(flow, "", code)
    assert ("failed", True) == copied(flow, "", stopped=(code,))


@pytest.mark.parametrize("code", ["gap", "recreated", "corrupt-batch"])
def test_what_a_person_must_settle_is_not_tried_again(flow: FlowSettings, code: str) -> None:
    """Whatever else may go away by itself."""
    assert ("failed", False) == copied(flow, NO_LEADER, code)


def test_a_copy_without_trouble_is_done(flow: FlowSettings) -> None:
    """There is nothing to try again."""
    assert ("done", False) == copied(flow, "", "")


RANGES = (RangeSpec("t", "id", "A.t", 0, 5, NO_END), RangeSpec("u", "id", "A.u", 0, 5, NO_END))


def followed(code: str) -> Totals:
    """What is known of two topics that were followed up to offset 5, one of them in trouble there."""
    totals = Totals()
    totals.note_ends(RANGES)
    totals.add(
        LaneReport(
            0,
            LaneOutcome.FAILED,
            (
                RangeReport("t", "A.t", 0, 5, 5, 5, error_code=code, error="trouble"),
                RangeReport("u", "A.u", 0, 5, 5, 5),
            ),
        )
    )
    return totals


@pytest.mark.parametrize(
    ("well", "progress", "lasts"), [(False, 4, True), (True, 4, False), (False, 5, False)]
)
def test_trouble_lasts_until_it_is_over(well: bool, progress: int, lasts: bool) -> None:
    """Its partition is followed without any, though nothing may have come since; or it is copied further."""
    errors = followed(SOURCE_LOST).errors(RANGES if well else (), {("t", 0): progress})
    assert ({("t", 0): "trouble"} if lasts else {}) == errors


@pytest.mark.parametrize(
    ("code", "there", "state", "lag"),
    [
        (TOPIC_DELETED, False, "done", 0),
        (TOPIC_DELETED, True, "failed", 4),
        ("poison-record", False, "failed", 0),
    ],
)
def test_a_topic_that_is_gone_is_no_trouble_and_has_no_lag(
    flow: FlowSettings, code: str, there: bool, state: str, lag: int
) -> None:
    """Once that is discovered; what else kept its records from being copied is still said."""
    totals = followed(code)
    totals.forget_gone({"t", "u"} if there else {"u"})
    totals.end_at({("u", 0): 7} | ({("t", 0): 9} if there else {}))
    discovery = Discovery(flow.name, "cluster-A", "cluster-B", 1, (), (), ())
    result = result_of(flow, "r", discovery, totals, (), None, 1, 1, 0.1)
    assert (state, [lag, 2]) == (result.state, [it.lag_records for it in result.partitions])


def test_an_end_seen_before_the_copy_came_there_is_no_lag() -> None:
    """As of the last look, when the source is out of reach at the end of a run."""
    totals = followed("")
    totals.end_at({("t", 0): 3, ("u", 0): 5})
    assert {("t", 0): 5, ("u", 0): 5} == totals.ends


def test_lanes_that_died_count_what_they_stored_with_their_progress(flow, target, orders, lane_tells) -> None:
    """Not what a lane of another fence stored, and nothing for a partition that they did not come to."""
    other = TopicPartition("orders", 1)
    lane_tells(orders, LaneCounts(7, 2, 5_000, 4, 1, 500, 90, 20, 3_000, 15, 2_000))
    lane_tells(other, LaneCounts(6, 2, 5_000, 9, 9, 999, 99, 99, 9_999, 99, 9_999))
    ranges = tuple(RangeSpec("orders", "id", "A.orders", number, 10, NO_END) for number in range(2))
    owned: Any = SimpleNamespace(flow=flow, progress={orders: 30})
    dead: Any = SimpleNamespace(lane=2, fence_ms=7, ranges=ranges)
    totals = Totals()
    count_dead(owned, target, [dead], totals)
    assert (4, 1, 500, {orders: 2_000, other: 0}) == (
        totals.transactions,
        totals.retries,
        totals.throttled_ms,
        totals.bytes,
    )
    assert [(15, 31), (0, 10)] == [(it.records, it.next_upstream) for it in totals.ranges.values()]
