"""Say in one word what an audit found of a flow, and whether that proves it.  Pure.

Law: "equal" is said only if something was compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from twinlog.audit.coverage import PartitionCoverage, UnprovedCount, by_topic, told, total
from twinlog.audit.deleted_early import DELETED_EARLY
from twinlog.audit.problems import NOTHING_COPIED
from twinlog.config.flow.settings import FlowSettings
from twinlog.kafka_types import Issue
from twinlog.policy.state_topics import is_known_heartbeats

NOTHING_COMPARED = "nothing-compared"
"""Code of a flow whose copies hold records, none of which could be compared with its source."""

ALL_OF_IT = 100
"""Percent of the records on both sides that must be proved if `twinlog.audit.percent` does not say."""


class AuditVerdict(StrEnum):
    """Name what was found; only `equal` is good."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_AUDITED = "not-audited"
    NOTHING_COMPARED = NOTHING_COMPARED
    NOTHING_TO_COMPARE = "nothing-to-compare"


def verdict_of(differences: int, compared: int, problems: Sequence[Issue]) -> AuditVerdict:
    """Return the verdict; if several apply, the worst."""
    codes = {problem.code for problem in problems}
    if differences or DELETED_EARLY in codes:
        return AuditVerdict.DIFFERENT
    if codes - {NOTHING_COPIED, NOTHING_COMPARED}:
        return AuditVerdict.NOT_AUDITED
    if codes == {NOTHING_COPIED}:
        return AuditVerdict.NOTHING_TO_COMPARE
    if not compared or codes:
        return AuditVerdict.NOTHING_COMPARED
    return AuditVerdict.EQUAL


def nothing_compared(flow: str, unproved: Iterable[UnprovedCount]) -> Issue:
    """Report that not one record could be compared, and why."""
    return Issue(
        NOTHING_COMPARED,
        "",
        f"no record that the copies of {flow} hold could be compared with its source: {told(unproved)}",
        "what the source no longer has was not audited in time; see docs/audit.md, what cannot be proved",
    )


def proves(flow: FlowSettings, partitions: Iterable[PartitionCoverage]) -> bool:
    """Say whether as much of each topic is proved as its tier asks for."""
    counting = by_topic(without_heartbeats(flow, partitions))
    shares = {topic: total(of_topic).percent for topic, of_topic in counting.items()}
    return any(shares.values()) and all(
        percent is None or percent >= wanted_percent(flow, topic) for topic, percent in shares.items()
    )


def without_heartbeats(
    flow: FlowSettings, partitions: Iterable[PartitionCoverage]
) -> tuple[PartitionCoverage, ...]:
    """Return the partitions that count as the copy: a flow whose heartbeats are proved has proved nothing yet."""
    return tuple(
        partition
        for partition in partitions
        if not is_known_heartbeats(flow.policy, flow.aliases, partition.topic)
    )


def wanted_percent(flow: FlowSettings, topic: str, otherwise: int = ALL_OF_IT) -> int:
    """Return how many percent of the records on both sides must be proved: as the topic's tier asks, if it does."""
    asked = flow.tier_of(topic).audit_percent
    return otherwise if asked is None else asked
