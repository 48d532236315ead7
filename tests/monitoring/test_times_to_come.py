"""A ledger's record with a time to come, forged or of a wrong clock, decides nothing."""

from __future__ import annotations

from twinlog.formats.ledger.accepted import Waiver, accepted_of
from twinlog.formats.ledger.gate import RiskSample
from twinlog.judge.at_risk import of_the_last_day, sample

NOW = 1_700_000_000_000
FAR = 2**62


def test_a_waiver_given_in_the_future_does_not_count():
    """One given now does, until its time."""
    assert not accepted_of(Waiver("no-gaps", "", "forged", "eve", FAR + 1, FAR)).counts(NOW)
    assert accepted_of(Waiver("no-gaps", "", "known", "jo", NOW + 1, NOW)).counts(NOW)


def test_a_sample_of_the_future_is_neither_shown_nor_added_to():
    """It would stand in its slot for ever."""
    slot = sample(NOW, 1, None, 0, ()).slot
    forged = RiskSample(slot, FAR, 99, None, 99)
    assert () == of_the_last_day([forged], NOW)
    assert 1 == sample(NOW, 1, None, 0, [forged]).records
