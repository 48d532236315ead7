"""Gaps: open until what was lost would be gone anyway, or somebody answers for it."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.values import ConfigSource, ConfigValue
from twinlog.facts.gaps import GapReport, GapState, gap_reports, keeps_ms, open_gaps
from twinlog.formats.ledger.records import Gap, GapCause, Quarantine, parse_ledger
from twinlog.formats.ledger.topics import GapAcknowledged
from twinlog.state.ledger import ledger_from

DAY = 86_400_000
GAP = Gap("t", 0, 5, 9, GapCause.RETENTION, DAY, 5, "id", copied_past=True)
ANSWER = GapAcknowledged("t", "id", 0, 5, 9, "nobody reads it", "jo", 2 * DAY)


def judged(*records, keeps=DAY, now=DAY) -> GapReport:
    (report,) = gap_reports(ledger_from(records), {"t": keeps}, now)
    return report


@pytest.mark.parametrize(
    ("expected", "changes", "keeps", "now"),
    [
        (GapState.OPEN, {}, DAY, 2 * DAY),
        (GapState.EXPIRED, {}, DAY, 2 * DAY + 1),
        (GapState.OPEN, {}, None, 99 * DAY),
        (GapState.OPEN, {"copied_past": False}, DAY, 99 * DAY),
        (GapState.OPEN, {"grown_ms": 5 * DAY}, DAY, 6 * DAY),
        (GapState.EXPIRED, {"grown_ms": 5 * DAY}, DAY, 6 * DAY + 1),
        (GapState.OPEN, {"last_ms": 5 * DAY}, DAY, 6 * DAY),
        (GapState.OPEN, {}, 1 << 62, 99 * DAY),
    ],
)
def test_a_gap_expires_when_its_records_would_be_gone(expected, changes, keeps, now):
    """Counted from when its newest record was lost at the latest; never in front of a stopped partition."""
    assert expected == judged(dataclasses.replace(GAP, **changes), keeps=keeps, now=now).state


def test_how_long_is_not_known_is_for_ever():
    """Of a topic that neither cluster tells about."""
    (report,) = gap_reports(ledger_from([GAP]), {}, 99 * DAY)
    assert (GapState.OPEN, "") == (report.state, report.expires)


def test_a_quarantined_record_expires_too():
    """It would be gone as well."""
    record = Quarantine("t", 0, 5, "too large", DAY)
    assert [GapState.OPEN, GapState.EXPIRED] == [judged(record, now=day * DAY).state for day in (1, 3)]


def test_who_answers_for_a_gap_is_told():
    """It is open no longer; one that has expired says so."""
    report = judged(GAP, ANSWER)
    assert (GapState.ACKNOWLEDGED, "jo", "nobody reads it", "1970-01-03T00:00:00+00:00") == (
        report.state,
        report.acknowledged_by,
        report.acknowledged_reason,
        report.acknowledged_at,
    )
    assert GapState.EXPIRED == judged(GAP, ANSWER, now=9 * DAY).state


def test_an_answer_covers_what_it_was_given_for():
    """Not a gap that has grown since, nor another's."""
    for other in (
        dataclasses.replace(ANSWER, last_offset=8),
        dataclasses.replace(ANSWER, first_offset=4),
        dataclasses.replace(ANSWER, partition=1),
        dataclasses.replace(ANSWER, topic_id="new"),
    ):
        assert GapState.OPEN == judged(GAP, other).state


def test_an_answer_is_written_and_read():
    """As a ledger record; a gap from before there were answers is read."""
    assert ANSWER == parse_ledger(ANSWER.key(), ANSWER.value())
    old = GAP.value().replace(b',"grown_ms":null', b"")
    assert old != GAP.value() and GAP == parse_ledger(GAP.key(), old)


@pytest.mark.parametrize(
    ("expected", "sides"),
    [
        (5, [("delete", "5")]),
        (7, [("delete", "5"), ("compact,delete", "7")]),
        (None, [("delete", "5"), ("compact", "7")]),
        (None, [("delete", "-1")]),
        (None, [("delete", "5"), None]),
        (None, []),
    ],
)
def test_how_long_a_topic_keeps_records(expected, sides):
    """On the side that keeps them longest; compacted alone is for ever, and so is what is not known."""
    configs = [
        {} if side is None else {"cleanup.policy": value_of(side[0]), "retention.ms": value_of(side[1])}
        for side in sides
    ]
    assert expected == keeps_ms(configs)


def value_of(text: str) -> ConfigValue:
    return ConfigValue("", text, ConfigSource.TOPIC)


@given(st.integers(0, 10 * DAY), st.integers(0, 10 * DAY), st.integers(0, 10 * DAY), st.booleans())
def test_what_is_not_open_has_a_reason(at_ms, keeps, now, answered):
    """It is beyond its retention, or somebody answers for it."""
    gap = dataclasses.replace(GAP, at_ms=at_ms)
    gaps = gap_reports(ledger_from([gap, *([ANSWER] if answered else [])]), {"t": keeps}, now)
    assert (not answered and now <= at_ms + keeps) is bool(open_gaps(gaps))


TIMES = st.integers(-(1 << 63), (1 << 63) - 1)


@given(TIMES, TIMES, TIMES, st.integers(0, (1 << 63) - 1))
def test_a_gap_is_told_whatever_the_times_of_its_records(first, last, at, keeps):
    """Its producer chose them; microseconds for milliseconds ended every command, a failover's gate, too."""
    gap = dataclasses.replace(GAP, first_ms=first, last_ms=last, at_ms=at)
    report = judged(gap, dataclasses.replace(ANSWER, at_ms=at), keeps=keeps)
    assert all(
        it.endswith("+00:00") for it in (report.since, report.until, report.expires, report.acknowledged_at)
    )
