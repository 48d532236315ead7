"""Say what the gate knows of copies that another engine makes: findings by topic, and topics without a copy.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinlog.config.flow.settings import FlowSettings
from twinlog.facts.flow import FlowFacts
from twinlog.formats.ledger.observed import Observed, ObservedFinding
from twinlog.grouped import grouped
from twinlog.groups.engine import EnginePosition

SHOWN = 10
"""The most findings of a partition that are named; the ledger has more."""


@dataclass(frozen=True, slots=True)
class ObservedTopic:
    """What was found in the copy of one topic: `equal` records, and `counts` by kind of finding, each `since_ms`.

    `open_records` are copied, but positions among them are not exact yet; `indistinct` records cannot be told apart,
    the counterparts of `not_comparable` ones are gone.  `partitions` were observed, the last one at `at_ms`.
    `findings` are the first ones of each partition.
    """

    topic: str
    remote_topic: str
    partitions: int
    equal: int
    counts: Mapping[str, int]
    since_ms: Mapping[str, int]
    findings: Mapping[str, tuple[ObservedFinding, ...]]
    open_records: int
    indistinct: int
    not_comparable: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class ObservedCopy:
    """Who copies, what was found by topic, where groups would go on, and which source topics have no copy."""

    copied_by: str
    topics: tuple[ObservedTopic, ...]
    groups: tuple[EnginePosition, ...]
    not_copied: tuple[str, ...]

    @property
    def again_by_map(self) -> int:
        """Count the records that groups would read a second time where the map puts them: doubled ones."""
        return sum(it.again_by_map or 0 for it in self.groups)

    @property
    def again(self) -> int:
        """Count the records that groups would read a second time by the engine's translation."""
        return sum(it.again or 0 for it in self.groups)

    @property
    def skipped(self) -> int:
        """Count the records that groups would never read by the engine's translation."""
        return sum(it.skipped or 0 for it in self.groups)


def observed_copy(
    flow: FlowSettings, facts: FlowFacts, groups: tuple[EnginePosition, ...]
) -> ObservedCopy | None:
    """Return what is known of the copies of a flow, None if twinlog copies it itself."""
    if not flow.observed:
        return None
    lives = facts.ledger.incarnations
    seen = grouped(
        (it.topic, it)
        for it in facts.ledger.observed.values()
        if it.topic in lives and lives[it.topic].topic_id == it.topic_id
    )
    return ObservedCopy(
        flow.copied_by.value,
        tuple(_topic(parts) for _, parts in sorted(seen.items())),
        groups,
        tuple(it.topic for it in facts.topics if it.copy is None and not it.left_out),
    )


def _topic(parts: Sequence[Observed]) -> ObservedTopic:
    counts: Counter[str] = Counter()
    since: dict[str, int] = {}
    for it in parts:
        counts.update(it.counts)
        for kind, at_ms in it.since_ms.items():
            since[kind] = min(at_ms, since.get(kind, at_ms))
    return ObservedTopic(
        parts[0].topic,
        parts[0].remote_topic,
        len(parts),
        sum(it.equal for it in parts),
        dict(counts),
        since,
        {str(it.partition): it.findings[:SHOWN] for it in parts if it.findings},
        sum(max(0, it.copied_to - it.mapped_to) for it in parts),
        sum(it.indistinct for it in parts),
        sum(it.not_comparable for it in parts),
        max(it.at_ms for it in parts),
    )
