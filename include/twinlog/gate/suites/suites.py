"""What the readiness gate asks for, as suites: those of the cycle, and what only matters before a failover.

What a critical check needs and nobody knows counts as failed: the gate never says "ready" by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from twinlog.checks.check import Check, Severity, Suite
from twinlog.checks.cycle_suites import FLOW_CHECKS, PARTITION_CHECKS, TOPIC_CHECKS
from twinlog.errors import ConfigError
from twinlog.gate.suites import copy_checks as copy
from twinlog.gate.suites import flow_checks as whole


class Mode(StrEnum):
    """Whether the source is asked, or nothing but the state on the target is left."""

    PLANNED = "planned"
    SOURCE_DEAD = "source-dead"


class Fact(StrEnum):
    """How old what a check looks at is: seen now, by the last cycle, the last audit, or the last checkpoint."""

    NOW = "now"
    CYCLE = "cycle"
    AUDIT = "audit"
    CHECKPOINT = "checkpoint"


RAISED = frozenset({
    "replication-factor",
    "min-insync-replicas",
    "can-be-written",
    "every-partition-led",
    "retention-time",
    "retention-size",
    "record-size",
    "cleanup-policy",
    "rpo-within-budget",
    "transactions-end",
})
"""Checks of topics that only warn in a cycle: they forbid a failover, and need to be known."""

ON_THE_TARGET = frozenset({"can-be-written", "every-partition-led"})
"""Of these, the ones that do not ask the source."""

WITHOUT_SOURCE = frozenset({
    "nothing-copied-twice",
    "downstream-counted-once",
    "map-not-beyond-progress",
    "map-whole",
    "copy-not-cut-off",
    "progress-never-goes-back",
})
"""Checks of partitions that do not ask the source."""

_GATE_TOPICS = tuple(
    replace(check, severity=Severity.CRITICAL, needs=True) if check.name in RAISED else check
    for check in TOPIC_CHECKS
)
_AUDIT = (copy.AUDIT_EQUAL, copy.AUDIT_AGE, copy.AUDIT_PROMISED, copy.AUDIT_COVERAGE)
_HEARTBEAT = tuple(check for check in FLOW_CHECKS if check.name == "heartbeat-age")
_FLOW = (whole.HAS_RUN, whole.LAST_CYCLE, whole.STATE_AGE, whole.IN_SERVICE, whole.HAS_TOPICS)
_GROUP_RANGES = (copy.GROUP_NOT_BELOW, copy.GROUP_NOT_BEYOND)


def suites(mode: Mode, *, still_writing: bool = False, canary: bool = False) -> tuple[Suite, ...]:
    """Return the suites of a mode.

    While producers are `still_writing`, what only holds after them is not asked for: the question is then whether a
    planned failover could begin.
    """
    if mode is Mode.SOURCE_DEAD:
        return _suites(
            (*(it for it in PARTITION_CHECKS if it.name in WITHOUT_SOURCE), copy.MAP_KNOWN),
            (
                *(it for it in _GATE_TOPICS if it.name in ON_THE_TARGET),
                *(
                    copy.SURVIVES,
                    copy.COPY_THERE,
                    copy.KNOWN_DRIFT,
                    copy.KNOWN_READ,
                    copy.KNOWN_RPO,
                    copy.KNOWN_LAG,
                    copy.KNOWN_UNDECIDED,
                    copy.NO_GAPS,
                ),
                *_AUDIT,
            ),
            (copy.GROUP_COVERED, *_GROUP_RANGES),
            (*_FLOW, whole.SOURCE_SILENT, whole.FREE_DISK, whole.METADATA),
        )
    after_producers = (whole.FENCED,) if not still_writing else ()
    return _suites(
        (*PARTITION_CHECKS, copy.MAP_KNOWN, *(() if still_writing else (copy.LAG,))),
        (*_GATE_TOPICS, copy.SURVIVES, copy.ALL_READ, copy.NO_GAPS, *_AUDIT),
        (
            *(copy.GROUP_COVERED, copy.GROUP_SAME_RECORD, copy.GROUP_NOT_REWOUND, copy.GROUP_NOT_AHEAD),
            copy.GROUP_ALL_THERE,
            *(() if still_writing else (copy.GROUP_CURRENT,)),
            *_GROUP_RANGES,
        ),
        (
            *_FLOW,
            whole.SOURCE_ANSWERS,
            *after_producers,
            *_HEARTBEAT,
            whole.FREE_DISK,
            *(whole.ACLS, whole.USERS, whole.QUOTAS, whole.CONFIGS, whole.METADATA, whole.SCHEMAS),
            *((whole.CANARY,) if canary else ()),
        ),
    )


def _suites(
    partitions: Iterable[Check], topics: Iterable[Check], groups: Iterable[Check], flow: Iterable[Check]
) -> tuple[Suite, ...]:
    return (
        Suite("flow", "flow", ("flow",), tuple(flow)),
        Suite("topics", "topic", ("topic",), tuple(topics)),
        Suite("partitions", "partition", ("topic", "partition"), tuple(partitions)),
        Suite("groups", "group's partition", ("group", "topic", "partition"), tuple(groups)),
    )


def raised(chosen: Iterable[Suite], blocking: Iterable[str]) -> tuple[Suite, ...]:
    """Make warnings critical that a configuration wants to block (`twinlog.gate.blocking`): they need to be known.

    What is critical already stays as it is: some of it may have nothing to judge.
    """
    names = frozenset(blocking)
    return tuple(
        replace(
            suite,
            checks=tuple(
                replace(check, severity=Severity.CRITICAL, needs=True)
                if check.name in names and check.severity is Severity.WARNING
                else check
                for check in suite.checks
            ),
        )
        for suite in chosen
    )


def every_check() -> Mapping[str, Check]:
    """Return all checks that a gate can make, by name."""
    both = (*suites(Mode.PLANNED, canary=True), *suites(Mode.SOURCE_DEAD))
    return {check.name: check for suite in both for check in suite.checks}


def refuse_unknown(names: Iterable[str], where: str) -> None:
    """Raise ConfigError for a name that is no check of the gate: it would silently block, or waive, nothing."""
    known = {*every_check(), NOTHING_BLOCKED}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{where}: {name!r} is no check of the gate", hint=f"one of: {', '.join(sorted(known))}"
            )


NOTHING_BLOCKED = "nothing-blocked"
"""The one check that is not of a suite: its message is made of the problems of topics."""

AGES: Mapping[str, Fact] = {
    **dict.fromkeys(("flow-has-run", "last-cycle-succeeded", "state-age"), Fact.CYCLE),
    **dict.fromkeys(
        ("known-drift", "known-partitions-seen", "known-rpo", "known-lag", "known-transactions-end"),
        Fact.CYCLE,
    ),
    "progress-never-goes-back": Fact.CYCLE,
    **dict.fromkeys(("audit-equal", "audit-age", "audit-promised", "audit-coverage"), Fact.AUDIT),
    "group-covered": Fact.CHECKPOINT,
}
"""What each check's facts date from; what is not named here is seen when the gate asks."""
