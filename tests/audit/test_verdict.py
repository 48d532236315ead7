"""The one word an audit says of a flow: "equal" is earned."""

from __future__ import annotations

import dataclasses

import pytest

from twinlog.audit.coverage import PartitionCoverage, UnprovedCount
from twinlog.audit.problems import NOTHING_COPIED
from twinlog.audit.verdict import AuditVerdict, nothing_compared, proves, verdict_of, without_heartbeats
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.kafka_types import Issue

FLOW = FlowSettings(*(ClusterSettings(alias, "", ConnectionSettings(alias, ())) for alias in "AB"))
GONE = (UnprovedCount("source-retention", 5),)
NEW = (UnprovedCount("not-audited", 1),)


@pytest.mark.parametrize(
    ("expected", "differences", "compared", "codes"),
    [
        (AuditVerdict.EQUAL, 0, 1, []),
        (AuditVerdict.DIFFERENT, 1, 1, []),
        (AuditVerdict.DIFFERENT, 1, 1, ["no-map"]),
        (AuditVerdict.DIFFERENT, 0, 0, ["deleted-early", "no-map"]),
        (AuditVerdict.NOT_AUDITED, 0, 1, ["no-map"]),
        (AuditVerdict.NOTHING_COMPARED, 0, 0, []),
        (AuditVerdict.NOTHING_COMPARED, 0, 0, ["nothing-compared"]),
        (AuditVerdict.NOTHING_TO_COMPARE, 0, 0, [NOTHING_COPIED]),
    ],
)
def test_the_verdict(expected, differences, compared, codes):
    """What is worse goes first; nothing compared is not equal."""
    assert expected == verdict_of(differences, compared, [Issue(code, "t", "") for code in codes])


@pytest.mark.parametrize(
    ("expected", "rows"),
    [
        (False, []),
        (True, [(5, 5, ())]),
        (False, [(5, 0, GONE)]),
        (True, [(6, 1, GONE)]),
        (False, [(6, 5, NEW)]),
        (True, [(5, 5, ()), (0, 0, ())]),
        (False, [(0, 0, ())]),
    ],
)
def test_what_is_proved(expected, rows):
    """All that both sides hold, and something at least."""
    parts = [PartitionCoverage(f"t{n}", 0, *it[:2], 0, 7, it[2]) for n, it in enumerate(rows)]
    assert expected is proves(FLOW, parts)


def test_heartbeats_prove_nothing_of_a_copy():
    """A flow that had copied nothing else was 100.0 % proved, and NOT proved."""
    parts = [PartitionCoverage(topic, 0, 5, 5, 0, 7) for topic in ("heartbeats", "orders")]
    assert (tuple(parts[1:]), False) == (without_heartbeats(FLOW, parts), proves(FLOW, parts[:1]))


def test_a_tier_may_ask_for_less():
    """Then that much is called proved."""
    easy = dataclasses.replace(FLOW, tiers=(dataclasses.replace(FLOW.tiers[0], audit_percent=80),))
    part = PartitionCoverage("t", 0, 6, 5, 0, 7, NEW)
    assert [False, True] == [proves(flow, [part]) for flow in (FLOW, easy)]


def test_why_nothing_was_compared_is_said():
    """By count and reason."""
    assert "5 source-retention" in nothing_compared("A->B", GONE).message
