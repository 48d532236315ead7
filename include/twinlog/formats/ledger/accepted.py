"""Define a person's yes: what was shown to forbid something, and who answers for so much of it, and no more.

Pure: `covering` decides what counts.  Earlier releases wrote waivers and acknowledged gaps; they are read, and count as
they did.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.formats.ledger.topics import GapAcknowledged
from twinlog.grouped import grouped

_AHEAD_MS = 86_400_000
"""Milliseconds that a yes may seem to be given in the future, by another machine's clock, and still count."""

SHOWN_FOR_MS = 86_400_000
"""How long a look may be accepted by its name."""

NO_GAPS = "no-gaps"
"""The check of lost ranges: each of them can be accepted by itself, too."""

GROWING = frozenset({"state-age", "audit-age", "heartbeat-age", "rpo-within-budget", "transactions-end"})
"""Checks of an age that grows with the clock: what is older by just the time since was accepted, too."""


def login_on(host: str) -> str:
    """Say how a person on the command line is known.  Pure."""
    return f"login on {host}, not authenticated"


@dataclass(frozen=True, slots=True)
class Offence:
    """A row that fails a check: its subject, its partition (None: it has none), and by how much.

    None is not known; `why` says for which reason, if there is one.
    """

    subject: str
    partition: int | None
    short: int | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Amount:
    """How far a subject is from what a check asks: short by `short` in all its rows, besides `unknown` of them."""

    check: str
    subject: str
    short: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Shown(LedgerEntry):
    """List what a look found to forbid a failover; a person may accept it for a day, by the name `seen`.

    `lost` records were known to be lost with the source, None if the look did not ask; `last_ended` is the newest
    failover that had been taken back by then.
    """

    KIND = "shown"
    IDENTITY = ("seen",)
    seen: str
    mode: str
    at_ms: int
    amounts: tuple[Amount, ...]
    lost: int | None = None
    last_ended: str = ""


@dataclass(frozen=True, slots=True)
class Accepted(LedgerEntry):
    """Until `until_ms` the failed check `check` forbids nothing, for what this covers: `by` answers for it.

    `subject` is a topic, a group or the flow, "" all of them together; `partitions` are "3" or "0-5", "" all.  All rows
    that it covers may be short of what the check asks by `up_to` together, None by anything: a release that knew no
    limits wrote that.  Of `not_known` rows it may be unknown by how much they are short, None of any.

    Of a lost range `first_offset` is where it begins, in the incarnation `topic_id`, and `up_to` the last offset that
    was accepted.  `known_by` says how the person is known.  Without `until_ms` it has no end.
    """

    KIND = "accepted"
    IDENTITY = ("check", "subject", "partitions", "topic_id", "first_offset")
    check: str
    subject: str
    reason: str
    by: str
    known_by: str
    at_ms: int
    until_ms: int | None
    up_to: int | None
    not_known: int | None = 0
    partitions: str = ""
    topic_id: str = ""
    first_offset: int | None = None

    @property
    def topic(self) -> str:
        """The topic of a lost range, which is forgotten with its topic; "" of all else."""
        return self.subject if self.first_offset is not None else ""

    @property
    def told(self) -> str:
        """Say what it covers."""
        of = f" of {self.subject}" if self.subject else ""
        within = f", partitions {self.partitions}" if self.partitions else ""
        if self.first_offset is not None:
            return f"{self.check}{of}{within}, offsets {self.first_offset} to {self.up_to}"
        limit = "" if self.up_to is None else f" up to {self.up_to:,}"
        unknown = f", not known of {self.not_known:,}" if self.not_known else ""
        return f"{self.check}{of}{within}{limit}{unknown}"

    def counts(self, now_ms: int) -> bool:
        """Say whether it was given, and has not expired yet."""
        return self.until_ms is None or (self.at_ms <= now_ms + _AHEAD_MS and self.until_ms > now_ms)

    def covers(self, offences: Iterable[Offence], now_ms: int) -> frozenset[Offence]:
        """Return the rows of its check that it covers; none if they are short by more than was accepted."""
        mine = [offence for offence in offences if self.is_about(offence)]
        unknown = sum(offence.short is None for offence in mine)
        if self.not_known is not None and unknown > self.not_known:
            return frozenset()
        older = max(0, now_ms - self.at_ms) // 1000 + 1 if self.check in GROWING else 0
        short = sum(max(0, offence.short - older) for offence in mine if offence.short is not None)
        return frozenset(mine if self.up_to is None or short <= self.up_to else ())

    def is_about(self, it: Offence) -> bool:
        """Say whether it covers a row, if that is not short by too much."""
        if self.subject not in {"", it.subject}:
            return False
        if not self.partitions:
            return True
        first, _, last = self.partitions.partition("-")
        return it.partition is not None and int(first) <= it.partition <= int(last or first)


@dataclass(frozen=True, slots=True)
class Waiver(LedgerEntry):
    """Read what release 0.2 wrote instead of `accepted`: `by` answers for a whole subject of a check, without limit."""

    KIND = "waiver"
    IDENTITY = ("check", "subject")
    check: str
    subject: str
    reason: str
    by: str
    until_ms: int
    at_ms: int


_OLD = "twinlog 0.2 kept a name"


def accepted_of(old: Waiver | GapAcknowledged) -> Accepted:
    """Return what an older release wrote as it is written now."""
    if isinstance(old, Waiver):
        return Accepted(
            old.check, old.subject, old.reason, old.by, _OLD, old.at_ms, old.until_ms, None, not_known=None
        )
    return Accepted(
        NO_GAPS,
        old.topic,
        old.reason,
        old.by,
        _OLD,
        old.at_ms,
        None,
        old.last_offset,
        partitions=str(old.partition),
        topic_id=old.topic_id,
        first_offset=old.first_offset,
    )


def every_form(it: Accepted) -> tuple[Accepted | Waiver | GapAcknowledged, ...]:
    """Return it, and the record of an older release that stood for the same: if one goes, so does the other."""
    if it.first_offset is not None:
        place = it.subject, it.topic_id, int(it.partitions), it.first_offset
        return it, GapAcknowledged(*place, it.up_to or 0, "", "", 0)
    return (it,) if it.partitions else (it, Waiver(it.check, it.subject, "", "", 0, 0))


def short_by(left: float, right: float) -> int:
    """Return how far two sides of a check are apart, rounded up."""
    return math.ceil(abs(left - right))


def amounts(check: str, offences: Iterable[Offence]) -> tuple[Amount, ...]:
    """Add up how far each subject is from what a check asks.  Pure."""
    return tuple(
        Amount(
            check,
            subject,
            sum(short for short in shorts if short is not None),
            sum(short is None for short in shorts),
        )
        for subject, shorts in sorted(
            grouped((offence.subject, offence.short) for offence in offences).items()
        )
    )


def covering(
    accepted: Iterable[Accepted], check: str, offences: Sequence[Offence], now_ms: int
) -> tuple[Accepted, ...]:
    """Return the acceptances that together cover every row in which a check fails; none if one row is left.  Pure."""
    covers = _covers(accepted, check, offences, now_ms)
    whole = frozenset(offences)
    alone = next((it for it, found in covers.items() if found == whole), None)
    if alone is not None:
        return (alone,)
    return tuple(covers) if whole and frozenset().union(*covers.values()) == whole else ()


def uncovered(
    accepted: Iterable[Accepted], check: str, offences: Sequence[Offence], now_ms: int
) -> tuple[Offence, ...]:
    """Return the rows in which a check fails, and which nobody has accepted.  Pure."""
    covered = frozenset[Offence]().union(*_covers(accepted, check, offences, now_ms).values())
    return tuple(offence for offence in offences if offence not in covered)


def not_enough(accepted: Iterable[Accepted], check: str, offences: Sequence[Offence], now_ms: int) -> str:
    """Say why what was accepted of a failed check does not cover it; "" if nothing was.  Pure.

    Who accepted that a number is not known has accepted no number: once it is known, it is asked about anew.
    """
    for it in counting(accepted, check, now_ms):
        (now, *_) = amounts(check, [replace(row, subject="") for row in offences if it.is_about(row)]) or (
            None,
        )
        if now is not None and not it.covers(offences, now_ms):
            unknown = f", not known of {now.unknown:,}" if now.unknown else ""
            return f"{it.by} accepted {it.told}; now it is {now.short:,}{unknown}"
    return ""


def counting(accepted: Iterable[Accepted], check: str, now_ms: int) -> tuple[Accepted, ...]:
    """Return what was accepted of a check, and has not expired; lost ranges are accepted one by one.  Pure."""
    return tuple(it for it in accepted if it.check == check and it.first_offset is None and it.counts(now_ms))


def _covers(
    accepted: Iterable[Accepted], check: str, offences: Sequence[Offence], now_ms: int
) -> dict[Accepted, frozenset[Offence]]:
    """Return the rows that each acceptance covers, without those that cover none."""
    every = {it: it.covers(offences, now_ms) for it in counting(accepted, check, now_ms)}
    return {it: found for it, found in every.items() if found}
