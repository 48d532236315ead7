"""Define the ledger: what a flow remembers besides progress and the map (docs/architecture.md, "State").

    key    JSON array: the kind, then the fields that identify the record; the newest record of a key counts
    value  JSON object: "version", then every field of the record; None (a tombstone) forgets it
           of a large record: the names of its parts (twinlog.formats.ledger.parts)

Times are epoch ms.  Readers ignore fields that they do not know, but never an unknown kind or version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from twinlog.errors import FormatError
from twinlog.formats.ledger.accepted import Accepted, Shown, Waiver
from twinlog.formats.ledger.audit import PartitionAudit
from twinlog.formats.ledger.entry import VERSION, LedgerEntry
from twinlog.formats.ledger.gate import GateOutcome, KnownSource, RiskSample
from twinlog.formats.ledger.metadata import MetadataRecord
from twinlog.formats.ledger.observed import Observed
from twinlog.formats.ledger.parts import KIND as PART
from twinlog.formats.ledger.recovery import DrillRun, PromotionPlan, RecoveryRun, TailExported
from twinlog.formats.ledger.topics import (
    Beginning,
    CopiedThrough,
    DeletedTopic,
    Gap,
    GapAcknowledged,
    GapCause,
    Incarnation,
    LeaderEpoch,
    OffsetsAltered,
    Rebuild,
    TopicPause,
)
from twinlog.formats.ledger.writers import CopyOutcome, FlowClaim, LaneWriter, MapHole, ReverseFlow, TakenOver
from twinlog.formats.mm2.connect_offset import parsed_json
from twinlog.kafka_types import OfIncarnation

__all__ = [
    "CycleReport",
    "FlowPhase",
    "FlowState",
    "Gap",
    "GapCause",
    "Incarnation",
    "LaneFence",
    "LedgerRecord",
    "Quarantine",
    "parse_ledger",
    "require_known",
]


HANDOVER = "twinlog handover"
"""A flow that MirrorMaker 2 has taken over is paused by this name."""


class FlowPhase(StrEnum):
    """Name the state of a flow between running and having been failed over."""

    ACTIVE = "active"
    PAUSED = "paused"
    FAILING_OVER = "failing-over"
    PROMOTED = "promoted"
    FAILING_BACK = "failing-back"

    @property
    def out_of_service(self) -> bool:
        """Say whether a failover has begun or is done, and the flow does not follow again."""
        return self in {FlowPhase.FAILING_OVER, FlowPhase.PROMOTED, FlowPhase.FAILING_BACK}


@dataclass(frozen=True, slots=True)
class LaneFence(LedgerEntry):
    """The driver of `run_id` fenced the flow and writes through `lane_count` lanes; lane 0 is the control lane."""

    KIND = "lane-fence"
    run_id: str
    lane_count: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class FlowState(LedgerEntry):
    """The flow is in `state` since `since_ms`; `by` names a person, `reason` their reason.

    `run` is the failover or the failback that brought it there, "" if none did.  `cycles` says that cycles copy too:
    the flow copies home, and its way home waits for the next command.  `before` is the state that an abort of that run
    goes back to, None if the flow had none.
    """

    KIND = "flow-state"
    state: FlowPhase
    since_ms: int
    by: str
    reason: str
    run: str = ""
    cycles: bool = False
    before: FlowState | None = None

    @property
    def handed_over(self) -> bool:
        """Say whether MirrorMaker 2 copies instead of the flow (`twinlog migrate handover`)."""
        return self.state is FlowPhase.PAUSED and self.by == HANDOVER

    def lets_copy(self, run: str) -> bool:
        """Say whether records may be copied, on behalf of the failover or failback `run`, or of none ("").

        While a flow is failing over, or failing back, that run alone copies what is left, unless it lets `cycles`.
        """
        mine = run == self.run if run else self.cycles
        under_way = self.state in {FlowPhase.FAILING_OVER, FlowPhase.FAILING_BACK}
        return self.state is FlowPhase.ACTIVE or (under_way and mine)


@dataclass(frozen=True, slots=True)
class CycleReport(LedgerEntry):
    """The last cycle's report, JSON; only the newest is kept."""

    KIND = "cycle-report"
    run_id: str
    summary: Mapping[str, Any]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Quarantine(OfIncarnation, LedgerEntry):
    """The source record at `offset` was not copied because the target cannot hold it."""

    KIND = "quarantine"
    IDENTITY = ("topic", "topic_id", "partition", "offset")
    topic: str
    partition: int
    offset: int
    reason: str
    at_ms: int
    topic_id: str = ""


LedgerRecord = (
    LaneFence
    | LaneWriter
    | FlowClaim
    | ReverseFlow
    | FlowState
    | CycleReport
    | CopyOutcome
    | Quarantine
    | Incarnation
    | Beginning
    | LeaderEpoch
    | CopiedThrough
    | Gap
    | GapAcknowledged
    | OffsetsAltered
    | TopicPause
    | DeletedTopic
    | Rebuild
    | GateOutcome
    | KnownSource
    | RiskSample
    | Accepted
    | Shown
    | Waiver
    | MetadataRecord
    | PartitionAudit
    | Observed
    | TakenOver
    | MapHole
    | RecoveryRun
    | PromotionPlan
    | TailExported
    | DrillRun
)

_RECORDS: Mapping[str, type[LedgerRecord]] = {record.KIND: record for record in get_args(LedgerRecord)}
LEFT_KINDS = {
    "audit-sample": "what `audit --sample` found; `twinlog audit --full` finds it again",
    "group-look": "where groups stood (`groups --at`); `twinlog translate --at` knows it from checkpoints",
    "scram-secret-set": "fingerprints of `twinlog.scram.users`; give users their logins by kafka-configs",
}
"""Kinds that earlier releases wrote and nothing reads any more: what they hold, and what to do instead."""

_KINDS = frozenset(kind.encode() for kind in (*_RECORDS, *LEFT_KINDS, PART))
NEWER = "a newer twinlog wrote it: use that release"

_OURS = b'{"version":%d,' % VERSION


@cache
def _reader(kind: str) -> TypeAdapter[LedgerRecord]:
    """Make what reads a kind, when the first record of it comes: all together take 0.15 s of each process."""
    return TypeAdapter(_RECORDS[kind])


def parse_ledger(key: bytes, value: bytes | None) -> LedgerRecord | None:
    """Read a record; None for a tombstone.

    Raises FormatError for bytes that are not a ledger record, for an unknown kind or version, and for a record under
    another record's key.  Join a record in parts first (twinlog.formats.ledger.reading).
    """
    kind = _kind(key)
    if kind == PART:
        raise FormatError("a part of a ledger record says nothing by itself", bytes=key.hex())
    return None if value is None else _record(kind, key, value)


def require_known(key: bytes) -> None:
    """Check that a record's kind is known to this release, or that it is a part.  Raises FormatError."""
    end = key.find(b'"', 2)
    if not key.startswith(b'["') or key[2:end] not in _KINDS:
        _kind(key)


def left_kind(key: bytes) -> str:
    """Return the kind of a record that nothing reads any more, "" for any other."""
    return next((kind for kind in LEFT_KINDS if key.startswith(f'["{kind}"'.encode())), "")


def _kind(key: bytes) -> str:
    match parsed_json(key, "ledger key"):
        case [str(kind), *_] if kind in _RECORDS or kind == PART:
            return kind
        case [str(kind), *_]:
            raise FormatError(f"ledger key has the unknown kind {kind!r}", hint=NEWER, bytes=key.hex())
    raise FormatError("ledger key is not an array that begins with a kind", bytes=key.hex())


def _record(kind: str, key: bytes, value: bytes) -> LedgerRecord:
    if not value.startswith(_OURS):
        fields = parsed_json(value, f"ledger record {kind}")
        version = fields.get("version") if isinstance(fields, dict) else None
    else:  # the form that every release writes: parsed only once
        version = VERSION
    if version != VERSION or isinstance(version, bool):
        raise FormatError(
            f"ledger record {kind} has version {version}; only version {VERSION} is known",
            hint=NEWER,
            bytes=value.hex(),
        )
    try:
        record = _reader(kind).validate_json(value, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise FormatError(f"ledger record {kind}: {where}: {first['msg']}", bytes=value.hex()) from None
    if record.key() != key:
        raise FormatError(f"ledger record {kind} is stored under another's key", bytes=key.hex())
    return record
