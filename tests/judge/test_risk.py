"""What would be lost, remembered over a day: the worst of every five minutes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinlog.facts.partition import MapSummary, PartitionFacts, newly_copied
from twinlog.formats.ledger.gate import RiskSample
from twinlog.judge.at_risk import SLOT_MS, SLOTS, of_the_last_day, sample

DAY_MS = SLOT_MS * SLOTS


def test_the_worst_of_five_minutes_counts():
    """Of records, bytes and age each; a slot of yesterday is begun anew."""
    first = sample(10_000, 5, 500, 90, ())
    second = sample(20_000, 7, None, 30, [first])
    assert RiskSample(0, 20_000, 7, 500, 90) == second
    assert RiskSample(0, 10_000 + DAY_MS, 1, 2, 3) == sample(10_000 + DAY_MS, 1, 2, 3, [second])
    assert RiskSample(1, SLOT_MS, 1, None, 3) == sample(SLOT_MS, 1, None, 3, [second])


def test_what_was_copied_adds_up_within_five_minutes():
    """Each cycle tells of its own; what an older release did not count stays unknown until one does."""
    first = sample(10_000, 5, 500, 90, (), copied=3)
    assert 10 == sample(20_000, 5, 500, 90, [first], copied=7).copied
    assert 7 == sample(10_000 + SLOT_MS, 5, 500, 90, [first], copied=7).copied
    old = RiskSample(0, 10_000, 5, 500, 90)
    assert (None, 7) == (
        sample(20_000, 5, 500, 90, [old]).copied,
        sample(20_000, 5, 500, 90, [old], copied=7).copied,
    )


def test_what_was_copied_since_the_last_report():
    """Without a report, count what the map knows; never what was rewound, not copied, or left out at the start."""

    def row(next_upstream: int | None, reported: int | None) -> PartitionFacts:
        return PartitionFacts(
            "t", "A.t", 0, 100, 900, next_upstream, 0, None, 0, 0, 1, 1, MapSummary(9, 9, 9), reported
        )

    assert 9 == newly_copied([row(150, None)])
    assert 10 == newly_copied([row(160, 150), row(140, 150), row(None, None)])


@given(st.lists(st.tuples(st.integers(0, 3 * DAY_MS), st.integers(0, 9)), min_size=1))
def test_a_day_is_kept_in_as_many_records_as_it_has_slots(cycles):
    """Whatever ran when: one record a slot, the last day's told in order, none of it lost."""
    ring: dict[int, RiskSample] = {}
    for at_ms, records in sorted(cycles):
        taken = sample(at_ms, records, None, 0, list(ring.values()))
        ring[taken.slot] = taken
    now = max(at_ms for at_ms, _ in cycles)
    told = of_the_last_day(ring.values(), now)
    assert len(ring) <= SLOTS
    assert list(told) == sorted(told, key=lambda it: it.at_ms)
    assert all(now - DAY_MS < it.at_ms <= now for it in told)
    last_hour = [records for at_ms, records in cycles if now - at_ms < SLOT_MS * 12]
    assert max(last_hour) <= max(it.records for it in told)
