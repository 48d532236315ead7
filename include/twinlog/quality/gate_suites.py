"""What the readiness gate asks for, as suites: those of the cycle, and what only matters before a failover.

What a critical check needs and nobody knows counts as failed: the gate never says "ready" by default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from twinlog.errors import ConfigError
from twinlog.quality.checks import Check, Relation, Severity, Suite
from twinlog.quality.cycle_suites import FLOW_CHECKS, PARTITION_CHECKS, TOPIC_CHECKS

CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING


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


MAP_KNOWN = Check(
    "map-known",
    CRITICAL,
    "mapped_records",
    Relation.AT_LEAST,
    "mapped_wanted",
    "the offset map knows where the copied records went",
    "groups would start at a guess; see whether the offset map topic was deleted, and audit the partition",
    needs=True,
)
LAG = Check(
    "lag-records",
    CRITICAL,
    "lag_records",
    Relation.AT_MOST,
    "lag_allowed",
    "everything the source has is copied, as far as the topic's tier asks",
    "stop the producers, run cycles until nothing lags (`twinlog run --once`), and ask again",
    needs=True,
)
SURVIVES = Check(
    "survives-a-broker",
    WARNING,
    "target_replicas",
    Relation.AT_LEAST,
    2,
    "the copy survives the loss of one broker of the target",
    "use a target with several brokers and set replication.factor",
    needs=True,
)
ALL_READ = Check(
    "every-partition-seen",
    CRITICAL,
    "partitions_seen",
    Relation.EQUAL,
    "source_partitions",
    "every partition of the topic could be read on the source",
    "bring the brokers of the source back that lead the others",
    needs=True,
)
COPY_THERE = Check(
    "copy-there",
    CRITICAL,
    "target_partitions",
    Relation.AT_LEAST,
    "known_partitions",
    "the copy is there with every partition that was copied",
    "the copy was deleted or made anew; without the source it cannot be copied again",
    needs=True,
)
NO_GAPS = Check(
    "no-gaps",
    CRITICAL,
    "gaps",
    Relation.EQUAL,
    0,
    "no records of the topic were lost before they could be copied",
    "see `twinlog status` for offsets and causes; if you can do without them, waive it for this topic",
    needs=True,
)
AUDIT_EQUAL = Check(
    "audit-equal",
    CRITICAL,
    "audit_differences",
    Relation.EQUAL,
    0,
    "what was audited is equal on both sides",
    "see `twinlog audit` for the records that differ, and copy the topic anew",
    needs=True,
)
AUDIT_PROMISED = Check(
    "audit-promised",
    CRITICAL,
    "audited_percent",
    Relation.AT_LEAST,
    "audit_wanted_percent",
    "as much of the topic has been proved equal as its tier asks",
    "run `twinlog audit`",
)
AUDIT_COVERAGE = Check(
    "audit-coverage",
    WARNING,
    "audited_percent",
    Relation.AT_LEAST,
    100,
    "all of the copy has been proved equal to its source",
    "run `twinlog audit`; twinlog.audit.percent makes this block a failover",
    needs=True,
)
KNOWN_DRIFT = Check(
    "known-drift",
    CRITICAL,
    "drifting_entries",
    Relation.EQUAL,
    0,
    "the copy was set up as its source, when the last cycle looked",
    "set the entries of the copy as `twinlog gate` lists them under drift",
    needs=True,
)
KNOWN_RPO = Check(
    "known-rpo",
    CRITICAL,
    "age_seconds",
    Relation.AT_MOST,
    "rpo_seconds",
    "no record had been waiting for longer than the RPO allows, when the last cycle looked",
    "these records are lost with the source; decide whether to go on without them, and waive it",
    needs=True,
)
KNOWN_LAG = Check(
    "known-lag",
    WARNING,
    "records_at_risk",
    Relation.EQUAL,
    0,
    "everything was copied, when the last cycle looked",
    "these records are lost with the source, and what came after the last cycle",
    needs=True,
)

HAS_RUN = Check(
    "flow-has-run",
    CRITICAL,
    "cycles",
    Relation.AT_LEAST,
    1,
    "the flow has run",
    "nothing was ever copied and reported by this flow; run `twinlog run --once` or its Dag",
    needs=True,
)
LAST_CYCLE = Check(
    "last-cycle-succeeded",
    CRITICAL,
    "last_cycle_failed",
    Relation.EQUAL,
    0,
    "the last cycle failed in nothing",
    "see its report (`twinlog status`, or the Dag's last run) and run it again",
    needs=True,
)
STATE_AGE = Check(
    "state-age",
    CRITICAL,
    "state_age_seconds",
    Relation.AT_MOST,
    "state_age_allowed",
    "the last cycle is young enough to rely upon",
    "run a cycle; if the source is gone, all numbers of it are this old: decide, and waive it",
    needs=True,
)
HAS_TOPICS = Check(
    "has-topics",
    CRITICAL,
    "topics",
    Relation.AT_LEAST,
    1,
    "the flow has topics",
    "see `twinlog explain` for what its filters select",
    needs=True,
)
IN_SERVICE = Check(
    "flow-in-service",
    CRITICAL,
    "out_of_service",
    Relation.EQUAL,
    0,
    "the flow has not been failed over",
    "it was promoted, or is being failed over: go on with that (`twinlog failover`), or fail back",
    needs=True,
)
SOURCE_ANSWERS = Check(
    "source-answers",
    CRITICAL,
    "source_answers",
    Relation.EQUAL,
    1,
    "the source answers",
    "a planned failover needs it; if it is lost, ask with --mode source-dead",
    needs=True,
)
SOURCE_SILENT = Check(
    "source-silent",
    CRITICAL,
    "source_answers",
    Relation.EQUAL,
    0,
    "the source does not answer",
    "it is alive, and its records can still be copied: ask with --mode planned; waive this only if clients cannot"
    " write to it any more",
    needs=True,
)
FENCED = Check(
    "source-fenced",
    CRITICAL,
    "moving_partitions",
    Relation.EQUAL,
    0,
    "nothing is written to the source: its partitions' ends stood still, no transaction is open",
    "stop the producers that write to the topics named in the table of moving topics, and ask again",
    needs=True,
)
FREE_DISK = Check(
    "free-disk",
    WARNING,
    "free_disk_percent",
    Relation.AT_LEAST,
    "free_disk_wanted",
    "every broker of the target has disk left for what producers will write to it",
    "add disk to the target, or shorten retention there",
    needs=True,
)
CANARY = Check(
    "canary",
    CRITICAL,
    "canary_seconds",
    Relation.AT_MOST,
    "canary_allowed",
    "a record written to the source now arrived on the target in time",
    "nothing copies, or too slowly: run cycles meanwhile (`twinlog run --for 5m`, or the Dag), and ask again",
    needs=True,
)

ACLS = Check(
    "acl-parity",
    CRITICAL,
    "pending_acls",
    Relation.EQUAL,
    0,
    "who may use a topic on the source may use its copy, as the metadata profile has it",
    "see `twinlog metadata plan`, and apply it",
)
USERS = Check(
    "principal-parity",
    CRITICAL,
    "pending_users",
    Relation.EQUAL,
    0,
    "the declared users can log in on the target",
    "see `twinlog metadata plan`, and apply it",
)
QUOTAS = Check(
    "quota-parity",
    WARNING,
    "pending_quotas",
    Relation.EQUAL,
    0,
    "clients have the quotas on the target that they have on the source",
    "see `twinlog metadata plan`, and apply it",
)
CONFIGS = Check(
    "config-drift",
    WARNING,
    "drifting_configs",
    Relation.EQUAL,
    0,
    "no config of a copy differs from its source's",
    "see `twinlog metadata plan`, changes and drift",
)
METADATA = Check(
    "metadata-known",
    WARNING,
    "metadata_unknown",
    Relation.EQUAL,
    0,
    "configs, rights, users and quotas of both clusters could be compared",
    "see `twinlog metadata plan` for what was refused; without the source nothing of it is known",
    needs=True,
)

GROUP_COVERED = Check(
    "group-covered",
    CRITICAL,
    "wrongly_not",
    Relation.EQUAL,
    0,
    "no group's position is missing on the target that should be there",
    "see the reason in `twinlog groups`, and run a cycle",
    needs=True,
)
GROUP_CURRENT = Check(
    "final-group-pass",
    CRITICAL,
    "passed_on",
    Relation.EQUAL,
    "translated",
    "what the group has committed by now was passed on to the target",
    "stop the consumers or let them finish, run one more cycle, and ask again",
    needs=True,
)
GROUP_NOT_BELOW = Check(
    "group-in-log",
    CRITICAL,
    "position",
    Relation.AT_LEAST,
    "target_log_start",
    "the group's position on the target has not expired there",
    "its auto.offset.reset would decide where it starts: reset it by hand",
)
GROUP_NOT_BEYOND = Check(
    "group-lag-not-negative",
    CRITICAL,
    "target_end",
    Relation.AT_LEAST,
    "position",
    "the group's position on the target is not beyond its end",
    "its auto.offset.reset would decide where it starts: reset it by hand",
)

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
})
"""Checks of topics that only warn in a cycle: they forbid a failover, and need to be known."""

ON_THE_TARGET = frozenset({"can-be-written", "every-partition-led"})
"""Of these, the ones that do not ask the source."""

WITHOUT_SOURCE = frozenset({
    "nothing-copied-twice",
    "downstream-counted-once",
    "map-not-beyond-progress",
    "copy-not-cut-off",
    "progress-never-goes-back",
})
"""Checks of partitions that do not ask the source."""

_GATE_TOPICS = tuple(
    replace(check, severity=CRITICAL, needs=True) if check.name in RAISED else check for check in TOPIC_CHECKS
)
_AUDIT = (AUDIT_EQUAL, AUDIT_PROMISED, AUDIT_COVERAGE)
_HEARTBEAT = tuple(check for check in FLOW_CHECKS if check.name == "heartbeat-age")
_FLOW = (HAS_RUN, LAST_CYCLE, STATE_AGE, IN_SERVICE, HAS_TOPICS)
_GROUP_RANGES = (GROUP_NOT_BELOW, GROUP_NOT_BEYOND)


def suites(mode: Mode, *, still_writing: bool = False, canary: bool = False) -> tuple[Suite, ...]:
    """Return the suites of a mode.

    While producers are `still_writing`, what only holds after them is not asked for: the question is then whether a
    planned failover could begin.
    """
    if mode is Mode.SOURCE_DEAD:
        return _suites(
            (*(it for it in PARTITION_CHECKS if it.name in WITHOUT_SOURCE), MAP_KNOWN),
            (
                *(it for it in _GATE_TOPICS if it.name in ON_THE_TARGET),
                *(SURVIVES, COPY_THERE, KNOWN_DRIFT, KNOWN_RPO, KNOWN_LAG, NO_GAPS),
                *_AUDIT,
            ),
            (GROUP_COVERED, *_GROUP_RANGES),
            (*_FLOW, SOURCE_SILENT, FREE_DISK, METADATA),
        )
    after_producers = (FENCED,) if not still_writing else ()
    return _suites(
        (*PARTITION_CHECKS, MAP_KNOWN, *(() if still_writing else (LAG,))),
        (*_GATE_TOPICS, SURVIVES, ALL_READ, NO_GAPS, *_AUDIT),
        (GROUP_COVERED, *(() if still_writing else (GROUP_CURRENT,)), *_GROUP_RANGES),
        (
            *_FLOW,
            SOURCE_ANSWERS,
            *after_producers,
            *_HEARTBEAT,
            FREE_DISK,
            *(ACLS, USERS, QUOTAS, CONFIGS, METADATA),
            *((CANARY,) if canary else ()),
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
    """Make checks critical that a configuration wants to block (`twinlog.gate.blocking`)."""
    names = frozenset(blocking)
    return tuple(
        replace(
            suite,
            checks=tuple(
                replace(check, severity=CRITICAL) if check.name in names else check for check in suite.checks
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
    **dict.fromkeys(("known-drift", "known-rpo", "known-lag", "progress-never-goes-back"), Fact.CYCLE),
    **dict.fromkeys(("audit-equal", "audit-promised", "audit-coverage"), Fact.AUDIT),
    "group-covered": Fact.CHECKPOINT,
}
"""What each check's facts date from; what is not named here is seen when the gate asks."""
