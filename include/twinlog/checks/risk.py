"""Compute what would be lost if the source were lost now and over the last day, across clocks that differ.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from twinlog.clock import CLOCKS_APART_MS
from twinlog.formats.ledger.gate import RiskSample

SLOT_MS = 300_000

SLOTS = 288
"""A day in slots of five minutes."""


@dataclass(frozen=True, slots=True)
class TopicAtRisk:
    """The loss in a topic if the source were lost now: records, their bytes (an estimate) and the age of the oldest.

    `known` records are known to be lost, `records` are all of them: None if a partition could not be looked at, or if
    the source is lost, for nobody knows what came after the last cycle.  Bytes and age are None if unknown.
    `undecided` counts the records behind an open transaction of the source.
    """

    topic: str
    tier: str
    known: int
    bytes: int | None
    seconds: float | None
    rpo_seconds: int
    moving: bool = False
    drift: tuple[str, ...] = ()
    undecided: int = 0
    records: int | None = None

    @property
    def over_rpo(self) -> bool:
        """Say whether its oldest record has waited for longer than its tier allows, or for nobody knows how long."""
        return self.seconds is None or self.seconds > self.rpo_seconds

    @property
    def mark(self) -> str:
        """Say what is wrong with a topic that did not stand still; "" if it did, or was not watched."""
        return "" if not self.moving else "cannot be seen" if self.records is None else "still written to"


def sample(
    at_ms: int,
    records: int,
    lost_bytes: int | None,
    age_ms: int,
    known: Sequence[RiskSample],
    *,
    age_known: bool = True,
    copied: int | None = None,
) -> RiskSample:
    """Take a sample; within one slot the worst value counts, and what was `copied` adds up."""
    slot = at_ms // SLOT_MS % SLOTS
    earlier = next((it for it in known if it.slot == slot and abs(at_ms - it.at_ms) < SLOT_MS), None)
    if earlier is None:
        return RiskSample(slot, at_ms, records, lost_bytes, age_ms, age_known, copied)
    known_bytes = [it for it in (earlier.bytes, lost_bytes) if it is not None]
    known_copied = [it for it in (earlier.copied, copied) if it is not None]
    return RiskSample(
        slot,
        at_ms,
        max(earlier.records, records),
        max(known_bytes, default=None),
        max(earlier.age_ms, age_ms),
        earlier.age_known and age_known,
        sum(known_copied) if known_copied else None,
    )


def of_the_last_day(samples: Iterable[RiskSample], now_ms: int) -> tuple[RiskSample, ...]:
    """Return the samples of the last day, oldest first; a flow that stood still has not overwritten older ones."""
    young = (it for it in samples if -CLOCKS_APART_MS <= now_ms - it.at_ms < SLOT_MS * SLOTS)
    return tuple(sorted(young, key=lambda it: it.at_ms))


def greatest(ages: Iterable[float | None], within: float) -> float | None:
    """Return the greatest of some ages (seconds), 0 of none; None if one of them is unknown.

    If an age is over `within`, it is returned even if others are unknown: that limit is broken already.
    """
    every = list(ages)
    known = max((age for age in every if age is not None), default=0.0)
    return None if None in every and known <= within else known
