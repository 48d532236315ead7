"""Say what is known of copies that another engine makes: findings by topic, groups, topics without a copy.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinlog.config.flow.settings import FlowSettings
from twinlog.fact import Total
from twinlog.formats.ledger.observed import Observed, ObservedFinding
from twinlog.grouped import grouped
from twinlog.kafka_types import OfPartition
from twinlog.state.ledger import Ledger

SHOWN = 10
"""The most findings of a partition that are named; the ledger has more."""


@dataclass(frozen=True, slots=True)
class EnginePosition(OfPartition):
    """Where a group would go on in one copy: by the map (`ours`, `exact` or not), and by the engine (`theirs`).

    `by` says where the engine's is from: the position `committed` on the target, or MirrorMaker 2's `checkpoint`.
    `again` and `skipped` count the records that the group would read a second time by the engine's position, at most,
    and those known by the map that it would never read; None where one of the two positions is not known.  By the map
    it skips none, and reads `again_by_map` a second time: those that the engine has doubled behind it, and those that
    it has read and the engine has not copied yet.
    """

    group: str
    topic: str
    remote_topic: str
    partition: int
    upstream_offset: int
    ours: int | None
    exact: bool
    theirs: int | None
    by: str
    again: int | None
    skipped: int | None
    again_by_map: int | None


@dataclass(frozen=True, slots=True)
class ObservedTopic:
    """Hold what was found in the copy of one topic: `equal` records, and `counts` by kind of finding, each `since_ms`.

    A count is None if nothing was found where not all could be seen.
    `passed_over` records have no copy so far, though later ones have.  `open_records` are copied, but positions among
    them are not exact yet; `indistinct` records cannot be told apart, the counterparts of `not_comparable` ones are
    gone.  `partitions` were observed, the last one at `at_ms`.
    `findings` are the first ones of each partition.
    """

    topic: str
    remote_topic: str
    partitions: int
    equal: int
    counts: Mapping[str, int | None]
    since_ms: Mapping[str, int]
    findings: Mapping[str, tuple[ObservedFinding, ...]]
    passed_over: int
    open_records: int
    indistinct: int
    not_comparable: int
    at_ms: int

    @property
    def equal_alone(self) -> bool:
        """Say whether there is nothing to tell but that its copies are equal."""
        others = self.passed_over, self.open_records, self.indistinct, self.not_comparable
        return self.equal > 0 and not any(others) and not any(it != 0 for it in self.counts.values())


@dataclass(frozen=True, slots=True)
class ObservedCopy:
    """Who copies, what was found by topic, where groups would go on, and which source topics have no copy."""

    copied_by: str
    topics: tuple[ObservedTopic, ...]
    groups: tuple[EnginePosition, ...]
    not_copied: tuple[str, ...]

    @property
    def told(self) -> str:
        """Say what groups would read again and skip, by the engine and by the map; an unknown position is no 0."""
        if not self.groups:
            return "no position of a group is known"
        known = [group for group in self.groups if group.again is not None]
        unknown = (
            f"of {len(self.groups) - len(known):,} of {len(self.groups):,} positions it is not known yet"
        )
        if not known:
            return unknown
        again = sum(group.again or 0 for group in known)
        skipped = sum(group.skipped or 0 for group in known)
        by_map = sum(group.again_by_map or 0 for group in known)
        text = (
            f"{again:,} records read again and {skipped:,} skipped by the translation of {self.copied_by};"
            f" {by_map:,} and none by the map, where it is exact"
        )
        return text if len(known) == len(self.groups) else f"{text}; {unknown}"


def observed_copy(
    flow: FlowSettings,
    ledger: Ledger,
    groups: tuple[EnginePosition, ...],
    not_copied: tuple[str, ...],
    found: Mapping[str, Mapping[str, Total]],
) -> ObservedCopy | None:
    """Return what is known of the copies of a flow, None if twinlog copies it itself; `found` counts, by topic."""
    if not flow.observed:
        return None
    lives = ledger.incarnations
    seen = grouped(
        (observed.topic, observed)
        for observed in ledger.observed.values()
        if observed.topic in lives and lives[observed.topic].topic_id == observed.topic_id
    )
    topics = tuple(_topic(parts, found.get(topic, {})) for topic, parts in sorted(seen.items()))
    return ObservedCopy(flow.copied_by.value, topics, groups, not_copied)


def _topic(parts: Sequence[Observed], found: Mapping[str, Total]) -> ObservedTopic:
    counts: Counter[str] = Counter()
    since: dict[str, int] = {}
    for part in parts:
        counts.update(part.counts)
        for kind, at_ms in part.since_ms.items():
            since[kind] = min(at_ms, since.get(kind, at_ms))
    return ObservedTopic(
        parts[0].topic,
        parts[0].remote_topic,
        len(parts),
        sum(observed.equal for observed in parts),
        {**counts, **{kind: None for kind, it in found.items() if it.shown is None}},
        since,
        {str(observed.partition): observed.findings[:SHOWN] for observed in parts if observed.findings},
        sum(observed.passed_over for observed in parts),
        sum(observed.open_offsets for observed in parts),
        sum(observed.indistinct for observed in parts),
        sum(observed.not_comparable for observed in parts),
        max(observed.at_ms for observed in parts),
    )
