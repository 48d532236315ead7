"""The gate's suites: those of the cycle, and the checks that matter only before a failover."""

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
    """Say whether both clusters are asked, or only the state on the target is left."""

    PLANNED = "planned"
    SOURCE_DEAD = "source-dead"


class Fact(StrEnum):
    """The age of the facts a check looks at: seen now, by the last cycle, the last audit, or the last checkpoint."""

    NOW = "now"
    CYCLE = "cycle"
    AUDIT = "audit"
    CHECKPOINT = "checkpoint"


_TABLE = (
    Suite(
        "flow",
        "flow",
        ("flow",),
        (
            *(whole.HAS_RUN, whole.LAST_CYCLE, whole.STATE_AGE, whole.IN_SERVICE, whole.HAS_TOPICS),
            *(whole.NOT_PAUSED, whole.SOURCE_ANSWERS, whole.SOURCE_SILENT, whole.FENCED),
            *FLOW_CHECKS,
            *(whole.FREE_DISK, whole.STATE_WRITERS, whole.ACLS, whole.USERS, whole.QUOTAS, whole.CONFIGS),
            *(whole.METADATA, whole.SCHEMAS, whole.CANARY),
        ),
    ),
    Suite(
        "topics",
        "topic",
        ("topic",),
        (
            # In a cycle they only warn.
            *(replace(check, severity=Severity.CRITICAL) for check in TOPIC_CHECKS),
            *(
                copy.SURVIVES,
                copy.ALL_READ,
                copy.COPY_THERE,
                copy.KNOWN_DRIFT,
                copy.KNOWN_READ,
                copy.KNOWN_RPO,
            ),
            *(copy.KNOWN_LAG, copy.KNOWN_UNDECIDED, copy.NO_GAPS),
            *(copy.AUDIT_EQUAL, copy.AUDIT_AGE, copy.AUDIT_PROMISED, copy.AUDIT_COVERAGE),
        ),
    ),
    Suite(
        "partitions",
        "partition",
        ("topic", "partition"),
        (*PARTITION_CHECKS, copy.MAP_KNOWN, copy.LAG, copy.KNOWN_WHOLE),
    ),
    Suite(
        "groups",
        "group's partition",
        ("group", "topic", "partition"),
        (
            *(copy.GROUP_COVERED, copy.GROUP_SAME_RECORD, copy.GROUP_NOT_REWOUND, copy.GROUP_NOT_AHEAD),
            *(copy.GROUP_ALL_THERE, copy.GROUP_CURRENT, copy.GROUP_NOT_BELOW, copy.GROUP_NOT_BEYOND),
        ),
    ),
)
"""Every check of the gate."""


def suites(mode: Mode, *, still_writing: bool = False, canary: bool = False) -> tuple[Suite, ...]:
    """Return the suites of a mode.

    While producers are `still_writing`, checks that can hold only after they have stopped are left out.  The question
    is then whether a planned failover could begin.
    """
    asked = {"D"} if mode is Mode.SOURCE_DEAD else {"P", *("S" * (not still_writing)), *("C" * canary)}
    return tuple(
        replace(suite, checks=tuple(it for it in suite.checks if asked & {*it.modes})) for suite in _TABLE
    )


def raised(chosen: Iterable[Suite], blocking: Iterable[str]) -> tuple[Suite, ...]:
    """Make those warnings critical that `twinlog.gate.blocking` names."""
    names = frozenset(blocking)
    return tuple(
        replace(
            suite,
            checks=tuple(
                replace(check, severity=Severity.CRITICAL) if check.name in names else check
                for check in suite.checks
            ),
        )
        for suite in chosen
    )


def every_check() -> Mapping[str, Check]:
    """Return all checks that a gate can make, by name."""
    return {check.name: check for suite in _TABLE for check in suite.checks if check.modes}


def refuse_unknown(names: Iterable[str], where: str) -> None:
    """Raise ConfigError for a name that is no check of the gate: it would silently block, or waive, nothing."""
    known = {*every_check(), NOTHING_BLOCKED}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{where}: {name!r} is no check of the gate", hint=f"one of: {', '.join(sorted(known))}"
            )


NOTHING_BLOCKED = "nothing-blocked"
"""The one check that belongs to no suite: its message is made from the problems of topics."""

AGES: Mapping[str, Fact] = {
    **dict.fromkeys(("flow-has-run", "last-cycle-succeeded", "state-age"), Fact.CYCLE),
    **dict.fromkeys(
        ("known-drift", "known-partitions-seen", "known-rpo", "known-lag", "known-transactions-end"),
        Fact.CYCLE,
    ),
    "progress-never-goes-back": Fact.CYCLE,
    **dict.fromkeys(
        ("audit-equal", "audit-age", "audit-promised", "audit-coverage", "known-deleted-early"), Fact.AUDIT
    ),
    "group-covered": Fact.CHECKPOINT,
}
"""The age of each check's facts; a check that is not named here uses facts seen when the gate asks."""
