"""The gate's suites: those of the cycle, and the checks that matter only before a failover.

If a critical check needs a fact that is unknown, it fails: the gate never says "ready" by default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from twinlog.checks.check import Check, Severity, Suite
from twinlog.checks.cycle_suites import FLOW_CHECKS, PARTITION_CHECKS, TOPIC_CHECKS
from twinlog.errors import ConfigError
from twinlog.gate.suites.checks import CHECKS


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


RAISED = frozenset(it.name for it in TOPIC_CHECKS)
"""Checks of topics that only warn in a cycle; in the gate they forbid a failover, and fail if unknown."""

ON_THE_TARGET = ("can-be-written", "every-partition-led")
"""Those of the raised checks that do not ask the source."""

WITHOUT_SOURCE = (
    *("nothing-copied-twice", "downstream-counted-once", "map-not-beyond-progress", "map-whole"),
    *("copy-not-cut-off", "progress-never-goes-back"),
)
"""Checks of partitions that do not ask the source."""

_KNOWN = {
    it.name: replace(it, severity=Severity.CRITICAL, needs=True) if it.name in RAISED else it
    for it in (*PARTITION_CHECKS, *TOPIC_CHECKS, *FLOW_CHECKS, *CHECKS.values())
}
_PARTITIONS, _TOPICS = ([it.name for it in checks] for checks in (PARTITION_CHECKS, TOPIC_CHECKS))
_FLOW = ("flow-has-run", "last-cycle-succeeded", "state-age", "flow-in-service", "has-topics")
_METADATA = (
    "acl-parity",
    "principal-parity",
    "quota-parity",
    "config-drift",
    "metadata-known",
    "schema-parity",
)
_AT_LAST = ("known-drift", "known-partitions-seen", "known-rpo", "known-lag", "known-transactions-end")
"""Checks of topics by what the last cycle saw of the source."""

_AUDIT = ("audit-equal", "audit-age", "audit-promised", "audit-coverage")
_GROUPS = ("group-same-record", "group-not-rewound", "group-not-ahead", "group-all-there")
_GROUP_RANGES = ("group-in-log", "group-lag-not-negative")


def suites(mode: Mode, *, still_writing: bool = False, canary: bool = False) -> tuple[Suite, ...]:
    """Return the suites of a mode.

    While producers are `still_writing`, checks that can hold only after they have stopped are left out.  The question
    is then whether a planned failover could begin.
    """
    if mode is Mode.SOURCE_DEAD:
        return _suites(
            (*_FLOW, "source-silent", "free-disk", "metadata-known"),
            (*ON_THE_TARGET, "survives-a-broker", "copy-there", *_AT_LAST, "no-gaps", *_AUDIT),
            (*WITHOUT_SOURCE, "map-known", "known-deleted-early"),
            ("group-covered", *_GROUP_RANGES),
        )
    left_out = {"source-fenced", "lag-records", "final-group-pass"} if still_writing else set()
    if not canary:
        left_out.add("canary")
    return _suites(
        (
            *(*_FLOW, "flow-not-paused", "source-answers", "source-fenced", "heartbeat-age", "free-disk"),
            *(*_METADATA, "canary"),
        ),
        (*_TOPICS, "survives-a-broker", "every-partition-seen", "no-gaps", *_AUDIT),
        (*_PARTITIONS, "map-known", "lag-records"),
        ("group-covered", *_GROUPS, "final-group-pass", *_GROUP_RANGES),
        left_out,
    )


def _suites(
    flow: Iterable[str],
    topics: Iterable[str],
    partitions: Iterable[str],
    groups: Iterable[str],
    left_out: Collection[str] = (),
) -> tuple[Suite, ...]:
    """Make the suites of the names of their checks."""
    return tuple(
        Suite(name, noun, identity, tuple(_KNOWN[it] for it in names if it not in left_out))
        for name, noun, identity, names in (
            ("flow", "flow", ("flow",), flow),
            ("topics", "topic", ("topic",), topics),
            ("partitions", "partition", ("topic", "partition"), partitions),
            ("groups", "group's partition", ("group", "topic", "partition"), groups),
        )
    )


def raised(chosen: Iterable[Suite], blocking: Iterable[str]) -> tuple[Suite, ...]:
    """Make those warnings critical that `twinlog.gate.blocking` names; an unknown fact then fails them.

    A check that is critical already is left as it is: some of them may have nothing to judge.
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
"""The one check that belongs to no suite: its message is made from the problems of topics."""

AGES: Mapping[str, Fact] = {
    **dict.fromkeys(("flow-has-run", "last-cycle-succeeded", "state-age", *_AT_LAST), Fact.CYCLE),
    "progress-never-goes-back": Fact.CYCLE,
    **dict.fromkeys((*_AUDIT, "known-deleted-early"), Fact.AUDIT),
    "group-covered": Fact.CHECKPOINT,
}
"""The age of each check's facts; a check that is not named here uses facts seen when the gate asks."""
