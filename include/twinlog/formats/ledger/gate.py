"""What the readiness gate keeps in the ledger: waivers, its answers, what is at risk, what the source looked like.

All of it is bounded: one answer per mode, a ring of risk samples, one picture of the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from twinlog.formats.ledger.entry import LedgerEntry


@dataclass(frozen=True, slots=True)
class Waiver(LedgerEntry):
    """Until `until_ms` the failed check `check` does not keep the gate from being ready, on `by`'s responsibility.

    `subject` narrows it to what the check names (a topic, "orders partition 3", a group); "" waives all of it.
    """

    KIND: ClassVar[str] = "waiver"
    IDENTITY: ClassVar[tuple[str, ...]] = ("check", "subject")
    check: str
    subject: str
    reason: str
    by: str
    until_ms: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class GateOutcome(LedgerEntry):
    """The gate's newest answer in one mode.

    `failed` are the checks that forbade to be ready, `waived` those that would have; `evidence_sha256` is the
    digest of the evidence file, hexadecimal.
    """

    KIND: ClassVar[str] = "gate"
    IDENTITY: ClassVar[tuple[str, ...]] = ("mode",)
    mode: str
    ready: bool
    at_ms: int
    failed: tuple[str, ...]
    waived: tuple[str, ...]
    evidence_sha256: str


@dataclass(frozen=True, slots=True)
class RiskSample(LedgerEntry):
    """The most that was at risk within one slot of time; slots are used again, so that only a day is kept.

    `records` and `bytes` were not copied yet, the oldest of them for `age_ms`; `bytes` is an estimate, None
    where the source would not tell the sizes of its logs.  Without `age_known` some may have been older: they had no
    time, or nobody could look at them.
    """

    KIND: ClassVar[str] = "risk"
    IDENTITY: ClassVar[tuple[str, ...]] = ("slot",)
    slot: int
    at_ms: int
    records: int
    bytes: int | None
    age_ms: int
    age_known: bool = True


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """One source topic as the last cycle saw it; `drift` are lines "entry: value on A, value on B".

    `oldest_ms` is the time of the oldest record at risk, None when there is none or nobody knows it.
    Of `unread` partitions nothing could be asked: what of them is at risk is not among the records.
    `undecided` of the records lay behind transactions that were open since `undecided_ms` (epoch ms; None when there
    was none, or nobody knows); `held_by` says in words who held the oldest.
    """

    topic: str
    partitions: int
    records_at_risk: int
    bytes_at_risk: int | None
    oldest_ms: int | None
    drift: tuple[str, ...] = ()
    unread: int = 0
    undecided: int = 0
    undecided_ms: int | None = None
    held_by: str = ""


@dataclass(frozen=True, slots=True)
class KnownSource(LedgerEntry):
    """What the last cycle saw of the source, for the day on which nobody can ask it.

    `topics` holds those that had something at risk, drifting, or unread; the `topic_count` others had not.
    Without `undecided_seen` an older twinlog wrote it, which did not look for records behind open transactions.
    """

    KIND: ClassVar[str] = "known-source"
    at_ms: int
    topic_count: int
    topics: tuple[KnownTopic, ...]
    undecided_seen: bool = False
