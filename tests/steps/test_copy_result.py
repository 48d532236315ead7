"""What a copy is called, and whether trying again may help."""

from __future__ import annotations

import pytest

from twinlog.config.settings import FlowSettings
from twinlog.relay.spec import LaneOutcome, LaneReport, RangeReport
from twinlog.relay.trouble import NO_LEADER, SOURCE_LOST
from twinlog.steps.copy_result import Tally, result_of
from twinlog.steps.discovery import Discovery
from twinlog.steps.plan_ranges import StoppedPartition


def copied(flow: FlowSettings, *codes: str, stopped: tuple[str, ...] = ()) -> tuple[str, bool]:
    """State, and whether it is transient, of a copy with a partition for each code ("" is well)."""
    tally = Tally()
    for number, code in enumerate(codes):
        tally.ends["t", number] = 5
        report = RangeReport(
            "t", "A.t", number, 1, 1, 5, error_code=code, error=code and f"t-{number}: trouble"
        )
        tally.add(LaneReport(0, LaneOutcome.FAILED if code else LaneOutcome.DONE, (report,)))
    stops = tuple(StoppedPartition("t", 9, code, "stopped") for code in stopped)
    discovery = Discovery(flow.name, "cluster-A", "cluster-B", 1, (), (), ())
    result = result_of(flow, "r", discovery, tally, stops, None, 1, 1, 0.1)
    return result.state, result.transient


@pytest.mark.parametrize("code", [NO_LEADER, SOURCE_LOST, "stalled"])
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
