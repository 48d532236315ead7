"""Tell what would be lost with the source, now and over the last day: for status, gate, pages, metrics.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from twinlog.clock import CLOCKS_APART_MS
from twinlog.config.flow.settings import FlowSettings
from twinlog.fact import Unknown, if_known, known, total
from twinlog.facts.flow import FlowFacts
from twinlog.facts.partition import newly_copied
from twinlog.facts.topic import TopicFacts
from twinlog.formats.ledger.gate import KnownLeftBehind, KnownSource, KnownTopic, RiskSample
from twinlog.topics.discovery import ProblemCode

SLOT_MS = 300_000

SLOTS = 288
"""A day in slots of five minutes."""


@dataclass(frozen=True, slots=True)
class TopicAtRisk:
    """The loss in a topic if the source were lost now: records, their bytes (an estimate) and the age of the oldest.

    `known` records are known to be lost, None if nobody looked.  `records` are all of them: None if a partition could
    not be looked at, or if the source is lost, for nobody knows what came after the last cycle.  Bytes and age are None
    if unknown.  `undecided` counts the records behind an open transaction of the source, None as `known`.
    """

    topic: str
    tier: str
    known: int | None
    bytes: int | None
    seconds: float | None
    rpo_seconds: int
    moving: bool = False
    drift: tuple[str, ...] = ()
    undecided: int | None = 0
    records: int | None = None

    @property
    def over_rpo(self) -> bool:
        """Say whether its oldest record has waited for longer than its tier allows, or for nobody knows how long."""
        return self.seconds is None or self.seconds > self.rpo_seconds

    @property
    def tells(self) -> bool:
        """Say whether something of it is at risk, or not known, or stands otherwise than on the source."""
        return self.records != 0 or bool(self.undecided) or self.over_rpo or bool(self.mark or self.drift)

    @property
    def mark(self) -> str:
        """Say what is wrong with a topic that did not stand still; "" if it did, or was not watched."""
        return "" if not self.moving else "cannot be seen" if self.records is None else "still written to"


def topics_at_risk(
    flow: FlowSettings, facts: FlowFacts, moving: Collection[str] = ()
) -> tuple[TopicAtRisk, ...]:
    """Return for each topic what would be lost now; without the source nobody knows all of it."""
    return tuple(
        _topic_at_risk(flow, topic, live=facts.live, moving=topic.topic in moving) for topic in facts.judged
    )


def _topic_at_risk(flow: FlowSettings, it: TopicFacts, *, live: bool, moving: bool) -> TopicAtRisk:
    tier = flow.tier_of(it.topic)
    return TopicAtRisk(
        it.topic,
        tier.name,
        it.missing.shown,
        if_known(it.bytes),
        if_known(it.age_seconds),
        tier.rpo_seconds,
        moving=moving,
        drift=drift_of(it),
        undecided=it.undecided.shown,
        records=if_known(it.missing.fact) if live else None,
    )


def drift_of(topic: TopicFacts) -> tuple[str, ...]:
    """Return the config entries in which a copy falls behind, none if they were not compared."""
    return () if isinstance(topic.drift, Unknown) else topic.drift


def known_source(facts: FlowFacts) -> KnownSource:
    """Make the picture of the source that is kept in case the source is lost."""
    known = [_known_topic(topic, facts.at_ms) for topic in facts.topics]
    telling = [topic for topic in known if topic.records_at_risk or topic.drift or topic.unread]
    return KnownSource(
        at_ms=facts.at_ms,
        topic_count=len(known) - len(telling),
        topics=tuple(sorted(telling, key=lambda it: it.topic)),
        undecided_seen=True,
        left_behind=tuple(
            KnownLeftBehind(problem.topic, problem.message)
            for problem in facts.problems
            if problem.code is ProblemCode.LEFT_BEHIND
        ),
    )


def _known_topic(it: TopicFacts, at_ms: int) -> KnownTopic:
    """Note a topic; of one that is blocked, only that it could not be looked at."""
    missing, undecided = it.missing.least, it.undecided.least
    return KnownTopic(
        it.topic,
        it.partition_count,
        missing,
        if_known(it.bytes),
        _before(at_ms, it.age_seconds) if missing else None,
        drift_of(it),
        it.unseen,
        undecided,
        _before(at_ms, it.undecided_seconds) if undecided else None,
        it.held_by,
    )


def _before(at_ms: int, seconds: float | Unknown) -> int | None:
    return None if isinstance(seconds, Unknown) else at_ms - round(seconds * 1000)


def risk_sample(facts: FlowFacts, topics: Iterable[TopicAtRisk]) -> RiskSample:
    """Take the sample of this moment, joined with the sample already in the same slot."""
    every = list(topics)
    sizes = total(known(topic.bytes, "a topic's size") for topic in every)
    return sample(
        facts.at_ms,
        sum(topic.known or 0 for topic in every),
        if_known(sizes.fact),
        round(max((topic.seconds or 0.0 for topic in every), default=0.0) * 1000),
        facts.ledger.risk_samples,
        age_known=not facts.unseen and all(topic.seconds is not None for topic in every),
        copied=newly_copied(facts.partitions),
    )


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
