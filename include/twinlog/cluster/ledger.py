"""The ledger of a flow as one frozen state, and how records get into it (twinlog.formats.ledger)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from twinlog.cluster.cluster import Cluster, ClusterReader
from twinlog.cluster.values import InternalRecord
from twinlog.config.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.formats.ledger import (
    CycleReport,
    FlowPhase,
    FlowState,
    Gap,
    Incarnation,
    LaneFence,
    LedgerRecord,
    Quarantine,
    parse_ledger,
)
from twinlog.formats.ledger_gate import GateOutcome, KnownSource, RiskSample, Waiver
from twinlog.formats.ledger_metadata import AclsAdded, PlanApplied, QuotasSet, TopicConfigsSet

LEDGER_PARTITION = 0

Timed = TypeVar("Timed", GateOutcome, RiskSample)


@dataclass(frozen=True, slots=True)
class MetadataMemory:
    """What the flow gave to the target and may take back; applied plans are by their digest."""

    configs: tuple[TopicConfigsSet, ...] = ()
    acls: tuple[AclsAdded, ...] = ()
    quotas: tuple[QuotasSet, ...] = ()
    applied: Mapping[str, PlanApplied] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a flow remembers.

    `incarnations` holds the newest known life of each source topic, by topic; `lives` all of them, oldest
    first.  Gaps and quarantined records are in order of topic, partition and offset; waivers by check, risk
    samples and the gate's outcomes oldest first.
    """

    lane_fence: LaneFence | None = None
    incarnations: Mapping[str, Incarnation] = field(default_factory=dict)
    lives: tuple[Incarnation, ...] = ()
    gaps: tuple[Gap, ...] = ()
    quarantined: tuple[Quarantine, ...] = ()
    flow_state: FlowState | None = None
    last_report: CycleReport | None = None
    waivers: tuple[Waiver, ...] = ()
    gate_outcomes: tuple[GateOutcome, ...] = ()
    risk_samples: tuple[RiskSample, ...] = ()
    known_source: KnownSource | None = None
    metadata: MetadataMemory = field(default_factory=MetadataMemory)

    @property
    def phase(self) -> FlowPhase:
        """Where the flow stands; a flow nobody has paused or failed over is active."""
        return self.flow_state.state if self.flow_state is not None else FlowPhase.ACTIVE


def read_ledger(flow: FlowSettings, cluster: ClusterReader) -> Ledger:
    """Read the flow's ledger from its target; empty while the topic does not exist.

    Raises FormatError for a record of an unknown kind or version: it may forbid what we are about to do.
    """
    latest = latest_or_empty(cluster, flow.ledger_topic)
    return ledger_from(record for key, value in latest.items() if (record := parse_ledger(key, value)))


def ledger_from(records: Iterable[LedgerRecord]) -> Ledger:
    """Sort records into the state they make."""
    known = list(records)
    lives = sorted((it for it in known if isinstance(it, Incarnation)), key=lambda it: it.since_ms)
    gaps = (it for it in known if isinstance(it, Gap))
    quarantined = (it for it in known if isinstance(it, Quarantine))
    return Ledger(
        lane_fence=next((it for it in known if isinstance(it, LaneFence)), None),
        incarnations={it.topic: it for it in lives},
        lives=tuple(lives),
        gaps=tuple(sorted(gaps, key=lambda it: (it.topic, it.partition, it.first_offset))),
        quarantined=tuple(sorted(quarantined, key=lambda it: (it.topic, it.partition, it.offset))),
        flow_state=next((it for it in known if isinstance(it, FlowState)), None),
        last_report=next((it for it in known if isinstance(it, CycleReport)), None),
        waivers=tuple(
            sorted(
                (it for it in known if isinstance(it, Waiver)),
                key=lambda waiver: (waiver.check, waiver.subject),
            )
        ),
        gate_outcomes=_by_time(it for it in known if isinstance(it, GateOutcome)),
        risk_samples=_by_time(it for it in known if isinstance(it, RiskSample)),
        known_source=next((it for it in known if isinstance(it, KnownSource)), None),
        metadata=MetadataMemory(
            configs=tuple(it for it in known if isinstance(it, TopicConfigsSet)),
            acls=tuple(it for it in known if isinstance(it, AclsAdded)),
            quotas=tuple(it for it in known if isinstance(it, QuotasSet)),
            applied={it.digest: it for it in known if isinstance(it, PlanApplied)},
        ),
    )


def _by_time(records: Iterable[Timed]) -> tuple[Timed, ...]:
    return tuple(sorted(records, key=lambda it: it.at_ms))


def write_ledger(flow: FlowSettings, cluster: Cluster, records: Iterable[LedgerRecord]) -> None:
    """Write records into the flow's ledger, each replacing the one with its key; all or an error."""
    entries = [InternalRecord(it.key(), it.value(), LEDGER_PARTITION) for it in records]
    if entries:
        cluster.produce(flow.ledger_topic, entries)


def forget(flow: FlowSettings, cluster: Cluster, record: LedgerRecord) -> None:
    """Take a record out of the flow's ledger."""
    cluster.produce(flow.ledger_topic, [InternalRecord(record.key(), None, LEDGER_PARTITION)])


def latest_or_empty(cluster: ClusterReader, topic: str) -> Mapping[bytes, bytes | None]:
    """Read the latest value of each key; nothing while the topic does not exist."""
    try:
        return cluster.latest(topic)
    except TwinlogError as error:
        if error.code == "no-internal-topic":
            return {}
        raise
