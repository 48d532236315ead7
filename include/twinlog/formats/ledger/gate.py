"""Define what the readiness gate keeps in the ledger: its answers, samples of risk, the source as last seen.

All of it is bounded: one answer per mode, a ring of risk samples, one record of the source.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.formats.ledger.entry import LedgerEntry


@dataclass(frozen=True, slots=True)
class GateOutcome(LedgerEntry):
    """The gate's newest answer in one mode.

    `failed` are the checks that made it say no; `waived` are the failed checks that were waived.  `evidence_sha256` is
    the digest of the evidence file, hexadecimal.
    """

    KIND = "gate"
    IDENTITY = ("mode",)
    mode: str
    ready: bool
    at_ms: int
    failed: tuple[str, ...]
    waived: tuple[str, ...]
    evidence_sha256: str


@dataclass(frozen=True, slots=True)
class RiskSample(LedgerEntry):
    """The most that was at risk within one slot of time; slots are reused, so that only a day is kept.

    `records` and `bytes` were not copied yet, the oldest of them for `age_ms`.  `bytes` is an estimate, None if the
    source would not report the sizes of its logs.  Without `age_known` some records may have been older: they had no
    timestamp, or could not be read.  `copied` counts the upstream offsets that the reports of the slot
    were the first to tell of, None if an older release wrote the record.
    """

    KIND = "risk"
    IDENTITY = ("slot",)
    slot: int
    at_ms: int
    records: int
    bytes: int | None
    age_ms: int
    age_known: bool = True
    copied: int | None = None


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """One source topic as the last cycle saw it; `drift` are lines "entry: value on A, value on B".

    `oldest_ms` is the time of the oldest record at risk, None if there is none or it is unknown.  `unread` partitions
    could not be asked: their records at risk are not counted.  `undecided` records lay behind transactions that were
    open since `undecided_ms` (epoch ms; None if there was none, or it is unknown); `held_by` says in words which
    producer held the oldest.
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
class KnownLeftBehind:
    """A topic that the file leaves out though its copy lacks records; `message` says how many, as the cycle saw."""

    topic: str
    message: str


@dataclass(frozen=True, slots=True)
class KnownSource(LedgerEntry):
    """The source as the last cycle saw it, for the day on which it cannot be asked.

    `topics` are those with records at risk, drift, or unread partitions; the `topic_count` other topics had none of
    these.  Without `undecided_seen` an older release wrote the record, which did not look for records behind open
    transactions; if `left_behind` is None, for topics left behind.
    """

    KIND = "known-source"
    at_ms: int
    topic_count: int
    topics: tuple[KnownTopic, ...]
    undecided_seen: bool = False
    left_behind: tuple[KnownLeftBehind, ...] | None = None
