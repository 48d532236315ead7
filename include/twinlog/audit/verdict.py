"""What an audit says of a flow in one word, and whether that proves it.  Pure.

Law: "equal" is said only where something was compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from twinlog.audit.problems import NOTHING_COPIED, AuditProblem
from twinlog.checks.coverage import PartitionCoverage, by_topic, total
from twinlog.checks.unproved import UnprovedCount, told
from twinlog.config.flow.settings import FlowSettings
from twinlog.policy.heartbeats import is_known_heartbeats

NOTHING_COMPARED = "nothing-compared"
"""Code of a flow whose copies hold records, of which none could be compared with its source."""

ALL_OF_IT = 100
"""Percent of what both sides still hold that has to be proved, where `twinlog.audit.percent` says nothing else."""


class AuditVerdict(StrEnum):
    """What was found: only `equal` is good news."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_AUDITED = "not-audited"
    NOTHING_COMPARED = NOTHING_COMPARED
    NOTHING_TO_COMPARE = "nothing-to-compare"


def verdict_of(differences: int, compared: int, problems: Sequence[AuditProblem]) -> AuditVerdict:
    """Find the word; what is worse goes first."""
    codes = {it.code for it in problems}
    if differences:
        return AuditVerdict.DIFFERENT
    if codes - {NOTHING_COPIED, NOTHING_COMPARED}:
        return AuditVerdict.NOT_AUDITED
    if codes == {NOTHING_COPIED}:
        return AuditVerdict.NOTHING_TO_COMPARE
    return AuditVerdict.EQUAL if compared and not codes else AuditVerdict.NOTHING_COMPARED


def nothing_compared(flow: str, unproved: Iterable[UnprovedCount]) -> AuditProblem:
    """Say that not one record could be compared, and why."""
    return AuditProblem(
        NOTHING_COMPARED,
        "",
        f"no record that the copies of {flow} hold could be compared with its source: {told(unproved)}",
        "what the source no longer has was not audited in time; see docs/audit.md, what cannot be proved",
    )


def proves(flow: FlowSettings, partitions: Iterable[PartitionCoverage]) -> bool:
    """Say whether of each topic as much is proved as its tier asks for; heartbeats are nobody's data."""
    shares = {
        topic: total(of_topic).percent
        for topic, of_topic in by_topic(partitions).items()
        if not is_known_heartbeats(flow.policy, flow.aliases, topic)
    }
    return any(shares.values()) and all(
        percent is None or percent >= wanted_percent(flow, topic) for topic, percent in shares.items()
    )


def wanted_percent(flow: FlowSettings, topic: str, otherwise: int = ALL_OF_IT) -> int:
    """Return how much of what both sides hold must be proved: what the topic's tier asks for, if it does."""
    asked = flow.tier_of(topic).audit_percent
    return otherwise if asked is None else asked
