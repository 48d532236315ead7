"""Tell what would be lost with the source: for status, gate, pages and metrics, and for the ledger.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from twinlog.checks.risk import TopicAtRisk, sample
from twinlog.config.flow.settings import FlowSettings
from twinlog.fact import Unknown, if_known, known, total
from twinlog.facts.flow import FlowFacts
from twinlog.facts.partition import newly_copied
from twinlog.facts.topic import TopicFacts
from twinlog.formats.ledger.gate import KnownSource, KnownTopic, RiskSample


def topics_at_risk(
    flow: FlowSettings, facts: FlowFacts, moving: Collection[str] = ()
) -> tuple[TopicAtRisk, ...]:
    """Return for each topic what would be lost now; without the source nobody knows all of it."""
    return tuple(_topic_at_risk(flow, it, live=facts.live, moving=it.topic in moving) for it in facts.judged)


def _topic_at_risk(flow: FlowSettings, it: TopicFacts, *, live: bool, moving: bool) -> TopicAtRisk:
    tier = flow.tier_of(it.topic)
    return TopicAtRisk(
        it.topic,
        tier.name,
        it.missing.least,
        if_known(it.bytes),
        if_known(it.age_seconds),
        tier.rpo_seconds,
        moving=moving,
        drift=drift_of(it),
        undecided=it.undecided.least,
        records=if_known(it.missing.fact) if live else None,
    )


def drift_of(topic: TopicFacts) -> tuple[str, ...]:
    """Return the config entries in which a copy falls behind, none if they were not compared."""
    return () if isinstance(topic.drift, Unknown) else topic.drift


def known_source(facts: FlowFacts) -> KnownSource:
    """Make the picture of the source that is kept in case the source is lost."""
    known = [_known_topic(it, facts.at_ms) for it in facts.topics]
    telling = [it for it in known if it.records_at_risk or it.drift or it.unread]
    return KnownSource(
        at_ms=facts.at_ms,
        topic_count=len(known) - len(telling),
        topics=tuple(sorted(telling, key=lambda it: it.topic)),
        undecided_seen=True,
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
    sizes = total(known(it.bytes, "a topic's size") for it in every)
    return sample(
        facts.at_ms,
        sum(it.known for it in every),
        if_known(sizes.fact),
        round(max((it.seconds or 0.0 for it in every), default=0.0) * 1000),
        facts.ledger.risk_samples,
        age_known=not facts.unseen and all(it.seconds is not None for it in every),
        copied=newly_copied(facts.partitions),
    )
