"""Alarms of drills: each is said once, whoever asks and however often."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.recovery import DrillRun, DrillState
from twinlog.monitoring.alarm import DAY_MS, drill_overdue, failed_drill

AGE = 7 * 86_400


def drill(at_ms: int, state: DrillState) -> DrillRun:
    return DrillRun(f"drill-{at_ms}", state, "jo", at_ms, at_ms, message="read: none within 30 s")


@pytest.fixture(scope="module")
def aged(base_flow: FlowSettings) -> FlowSettings:
    """A flow whose drills may be a week old."""
    return replace(base_flow, failover=replace(base_flow.failover, drill_age_seconds=AGE))


class TestOverdue:
    def test_without_an_age_nobody_is_told(self, flow):
        """It is nobody's promise."""
        assert [] == drill_overdue(flow, [], 0, 10 * DAY_MS)

    def test_only_a_drill_that_passed_counts(self, aged):
        """One that had nothing to read proves nothing."""
        drills = [drill(DAY_MS, DrillState.PASSED), drill(8 * DAY_MS, DrillState.WAITING)]
        due = 8 * DAY_MS
        assert [] == drill_overdue(aged, drills, 0, due - 1)
        assert ["no drill has passed for 604,800 s, longer than twinlog.drill.age.seconds=604800"] == (
            drill_overdue(aged, drills, due - 1, due)
        )
        assert ["no drill that the ledger knows has passed: twinlog.drill.age.seconds=604800"] == (
            drill_overdue(aged, drills[1:], 0, due)
        )

    @given(st.lists(st.integers(1, 40 * DAY_MS), min_size=1, unique=True).map(sorted))
    def test_it_is_said_when_it_begins_and_once_a_day(self, aged, moments):
        """Looked at in any moments: at most once for each day, and in each look behind which a new day began."""
        drills = [drill(DAY_MS, DrillState.PASSED)]
        due, since, told = 8 * DAY_MS, 0, []
        for now in moments:
            if drill_overdue(aged, drills, since, now):
                told.append((now - due) // DAY_MS)
            since = now
        assert sorted({(now - due) // DAY_MS for now in moments if now >= due}) == told


class TestFailed:
    def test_the_newest_that_proved_something_is_told_once(self):
        """A pass behind it takes it back; one that waits does not."""
        failed = drill(5, DrillState.FAILED)
        assert ["drill drill-5 failed: read: none within 30 s"] == failed_drill([failed], 0, 9)
        assert ["drill drill-5 failed: read: none within 30 s"] == (
            failed_drill([failed, drill(6, DrillState.WAITING)], 4, 9)
        )
        assert [] == failed_drill([failed], 5, 9)
        assert [] == failed_drill([failed, drill(6, DrillState.PASSED)], 0, 9)
        assert [] == failed_drill([], 0, 9)
