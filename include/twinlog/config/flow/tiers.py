"""Declare what a flow promises by tiers of topics, and how its gate and its audit judge it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from twinlog import clock
from twinlog.config.file.keys import Key, Kind, tier_key
from twinlog.config.file.providers import Secret
from twinlog.config.flow.reader import Reader
from twinlog.config.flow.values import (
    CRON,
    CRON_OR_NEVER,
    NAMES,
    PATH,
    PATTERNS,
    PERCENT,
    POSITIVE_LONG,
    SECRET_ADDRESS,
    TEXT,
    Value,
    declared_in,
    optional,
    setting,
    whole,
)
from twinlog.policy.selection import NameFilter


class StartKind(StrEnum):
    """Name how a beginning is given."""

    EARLIEST = "earliest"
    LATEST = "latest"
    MOMENT = "moment"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class Start:
    """Where the copy of a topic begins.  `ms`: of a moment, since the epoch; of the last records, how far back."""

    kind: StartKind
    ms: int = 0

    def moment_ms(self, now_ms: int) -> int | None:
        """Return the time (epoch ms) of the first record to copy; None if it is the first or the next one there is."""
        if self.kind is StartKind.MOMENT:
            return self.ms
        return now_ms - self.ms if self.kind is StartKind.LAST else None


def parse_start(text: str) -> Start:
    """Read `earliest`, `latest`, a moment such as 2026-01-31T12:00:00Z, or how far back: 7d.  Raises ValueError."""
    if text in {StartKind.EARLIEST, StartKind.LATEST}:
        return Start(StartKind(text))
    if (seconds := clock.duration_seconds(text)) is not None:
        return Start(StartKind.LAST, seconds * 1000)
    if (moment := clock.moment_ms(text)) is not None:
        return Start(StartKind.MOMENT, moment)
    raise ValueError


_START_SAID = "is neither earliest, latest, a time such as 2026-01-31T12:00:00Z nor how far back, such as 7d"

_START: Value[Start | None] = Value(Kind.STRING, lambda read, key: read.parsed(key, parse_start, _START_SAID))


@dataclass(frozen=True, slots=True)
class Tier:
    """Topics with limits of their own; the tier "" covers all other topics.  None sets no limit, and no start."""

    name: str = ""
    topics: NameFilter = setting(PATTERNS, "twinlog.tier.NAME.topics", None, initial=NameFilter())
    """topics (names or regexes) of a tier; NAME is yours. A topic that several tiers name belongs to the one with the
    least RPO"""
    rpo_seconds: int = setting(POSITIVE_LONG, "twinlog.rpo.seconds", "300")
    """how old a record may get before it is copied, for topics without a tier of their own; after an outage topics with
    the least are [caught up first](operations.md#after-an-outage)"""
    _tier_rpo_seconds: ClassVar = Key("twinlog.tier.NAME.rpo.seconds", Kind.LONG, None)
    """as `twinlog.rpo.seconds`, for the tier; default: that one"""
    lag_records: int = setting(whole(Kind.LONG, 0), "twinlog.lag.records", "0")
    """records of a partition that may be missing when a planned failover begins"""
    _tier_lag_records: ClassVar = Key("twinlog.tier.NAME.lag.records", Kind.LONG, None)
    """as `twinlog.lag.records`, for the tier; default: that one"""
    audit_percent: int | None = setting(PERCENT, "twinlog.audit.percent", None)
    """how much of what both sides still hold of each topic must have been proved equal; without it 100 once producers
    have stopped, 50 while they write and without the source ([gate.md](gate.md#topics))"""
    _tier_audit_percent: ClassVar = Key("twinlog.tier.NAME.audit.percent", Kind.INT, None)
    """as `twinlog.audit.percent`, for the tier; default: that one"""
    drill_rto_seconds: int | None = setting(optional(Kind.LONG), "twinlog.drill.rto.seconds", None)
    """seconds that placing groups and reading a first record of a topic may take in a [drill](drills.md): one
    that takes longer has failed; not given, it is only measured"""
    _tier_drill_rto_seconds: ClassVar = Key("twinlog.tier.NAME.drill.rto.seconds", Kind.LONG, None)
    """as `twinlog.drill.rto.seconds`, for the tier; default: that one"""
    start: Start | None = setting(_START, "twinlog.start", None)
    """where the copy of a topic begins that the flow has never seen: `earliest`, `latest`, a time
    (`2026-01-31T12:00:00Z`), or how far back (`7d`); default: as `consumer.auto.offset.reset`
    ([topics.md](topics.md#where-a-copy-begins))"""
    _tier_start: ClassVar = Key("twinlog.tier.NAME.start", Kind.STRING, None)
    """as `twinlog.start`, for the tier; default: that one"""


def read_tiers(read: Reader, *, enabled: bool) -> tuple[Tier, ...]:
    """Return the tier of all other topics first, then the tiers of the file, in order of name.

    A tier has the limits of all topics unless it sets its own.  If a flow is enabled, a tier without topics is a
    mistake; if it is not, the tier's topics may be written for another flow alone.
    """
    limits = {name: it.read(read) for name, it in declared_in(Tier).items() if name != "topics"}
    everything = Tier(**limits)
    names = sorted({found[0] for key in read if (found := tier_key(key)) is not None})
    nameless = [name for name in names if not read.has(f"twinlog.tier.{name}.topics")]
    if nameless and enabled:
        read.findings.error(
            read.findings.missing(),
            f"tier {nameless[0]} names no topics",
            f"add a line such as twinlog.tier.{nameless[0]}.topics = orders, payments",
        )
    return (everything, *(_tier(read, name, everything) for name in names if name not in nameless))


def _tier(read: Reader, name: str, everything: Tier) -> Tier:
    own = {}
    for field, it in declared_in(Tier).items():
        key = f"twinlog.tier.{name}.{it.key.name.removeprefix('twinlog.').removeprefix('tier.NAME.')}"
        found = it.value.read(read, key)  # also if it is not written: `plan --explain` shows it
        if read.has(key) and not read.unresolved(key):
            own[field] = found
    return replace(everything, name=name, **own)


@dataclass(frozen=True, slots=True)
class GateSettings:
    """The conditions of the readiness gate, and where its alarms and reports go.

    `reports` None is the default folder of the user.
    """

    fence_seconds: int = setting(POSITIVE_LONG, "twinlog.gate.fence.seconds", "10")
    """seconds over which the ends of the source's partitions must stand still to prove that producers stopped"""
    state_age_seconds: int = setting(POSITIVE_LONG, "twinlog.gate.state.age.seconds", "3600")
    """how old the last cycle may be"""
    audit_age_seconds: int = setting(POSITIVE_LONG, "twinlog.gate.audit.age.seconds", "86400")
    """how old a topic's last audit may be; one that was never audited is never ready"""
    canary_seconds: int = 120
    """how long the gate waits for its canary to arrive"""
    undecided_seconds: int = setting(POSITIVE_LONG, "twinlog.undecided.seconds", "900")
    """how long a transaction of the source may hold records back before that is an alarm and forbids a failover:
    Kafka's `transaction.max.timeout.ms`"""
    free_disk_percent: int = setting(whole(Kind.INT, 0), "twinlog.gate.free.disk.percent", "10")
    """disk that must be free on each broker of the target, else the gate warns"""
    schemas_topic: str = setting(TEXT, "twinlog.gate.schemas.topic", "_schemas")
    """source topic in which a schema registry keeps its schemas; if the flow copies it, the copy must hold the
    same"""
    blocking: tuple[str, ...] = setting(NAMES, "twinlog.gate.blocking", "")
    """checks that only warn by themselves and forbid a failover here, such as `survives-a-broker`"""
    schedule: str = setting(CRON, "twinlog.gate.schedule", "0 6 * * *")
    """cron expression of the Dag `failover_readiness__A__B`, in UTC"""
    reports: Path | None = setting(PATH, "twinlog.reports.folder", None)
    """folder for gate pages, evidence and Data Docs; default: `twinlog/reports` in the user's data folder"""
    reports_kept: int = 50
    """reports kept of each kind and flow; older ones are deleted, evidence never"""
    sign_with: Path | None = setting(PATH, "twinlog.gate.sign.with", None)
    """private Ed25519 key (PEM) that signs evidence (default: one beside the reports); `--sign-with` wins"""
    alert_url: Secret | None = setting(SECRET_ADDRESS, "twinlog.alert.url", None)
    """address that gets a POST with JSON (`text`, `flow`, `run`) from Airflow and `twinlog run`, when a topic is over
    its RPO, or no cycle or report ends within the strictest RPO; treated as a secret"""


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Tell when the flow is audited."""

    schedule: str = setting(CRON_OR_NEVER, "twinlog.audit.schedule", "45 * * * *")
    """cron expression of the Dag `audit__A__B`, and of audits by `twinlog run`, in UTC: records that are new since
    the last audit are compared; or `never`"""
