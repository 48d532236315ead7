"""Define the ledger record of an observed copy: what another engine has copied, and what is wrong with it.

Upstream offsets are on the source, downstream offsets on the target; ranges are [first, end).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from twinlog.formats.ledger.audit import DifferenceKind, FoundDifference, PartitionAudit
from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.kafka_types import OfIncarnation

KEPT_FINDINGS = 50
"""The most findings of one partition that the ledger names; `counts` counts all."""

MISSING, DOUBLED, CHANGED, FOREIGN = "missing", "doubled", "changed", "foreign"
KINDS = (MISSING, DOUBLED, CHANGED, "reordered", FOREIGN)
"""Name what may be wrong with records (twinlog.observe.values)."""


@dataclass(frozen=True, slots=True)
class ObservedFinding:
    """Neighbouring records of one partition with which the same is wrong.

    A range is None on the side that has none of them.  `fields` say what differs of changed records.  `at_ms` is when
    they were found.
    """

    kind: str
    upstream: tuple[int, int] | None
    downstream: tuple[int, int] | None
    records: int
    fields: tuple[str, ...]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Observed(OfIncarnation, LedgerEntry):
    """Hold what was seen so far of one partition that another engine copies.

    The next look goes on with `carried` (twinlog.observe.values.Carried).  `begins` is the first upstream offset looked
    at, `copied_to` the end of what is copied, `mapped_to` up to where positions are exact, `seen_to` the end of the
    copy that was read (downstream).  `equal` counts copies that are as their source record.  `counts` are records by
    kind of finding, `since_ms` when a kind was found first; `findings` are the first ones.  `indistinct` records cannot
    be told apart, the counterparts of `not_comparable` ones are gone.  The copy ended at `read_to` at the last look,
    and at most `lag_records` of the source had no copy then; None if an earlier release looked.
    """

    KIND = "observed"
    IDENTITY = ("topic", "topic_id", "partition")
    topic: str
    topic_id: str
    partition: int
    remote_topic: str
    remote_topic_id: str
    begins: int
    copied_to: int
    mapped_to: int
    seen_to: int
    equal: int
    counts: Mapping[str, int]
    since_ms: Mapping[str, int]
    findings: tuple[ObservedFinding, ...]
    indistinct: int
    not_comparable: int
    at_ms: int
    carried: Mapping[str, Any]
    read_to: int = 0
    lag_records: int | None = None

    def doubled_again(self, committed: int, offset: int) -> int:
        """Count the doubled records that a reader has read, and meets again if it goes on at `offset` of the copy.

        It has read all before upstream offset `committed`.  Doubled records that are not named count, too: at most.
        """
        doubled = [observed_finding for observed_finding in self.findings if observed_finding.kind == DOUBLED]
        met = self.counts.get(DOUBLED, 0) - sum(observed_finding.records for observed_finding in doubled)
        for finding in doubled:
            if finding.upstream is not None and finding.downstream is not None:
                behind = min(finding.records, committed - finding.upstream[0])
                met += max(0, behind - max(0, offset - finding.downstream[0]))
        return met

    def copied_again(self, offset: int) -> Iterator[tuple[int, int]]:
        """Yield upstream offsets [first, end) of records with a later copy at or behind an offset of the copy."""
        for finding in self.findings:
            if finding.kind == DOUBLED and finding.upstream is not None and finding.downstream is not None:
                (first, end), (begins, ends) = finding.upstream, finding.downstream
                if begins >= offset:
                    yield first, end
                elif end - first == ends - begins and offset < ends:
                    yield first + offset - begins, end

    @property
    def foreign_to(self) -> int:
        """Return the downstream offset behind which all records that were seen are the source's."""
        foreign = [finding for finding in self.findings if finding.kind == FOREIGN]
        if sum(finding.records for finding in foreign) < self.counts.get(FOREIGN, 0):
            return self.seen_to
        return max((finding.downstream[1] for finding in foreign if finding.downstream), default=0)

    @property
    def passed_over(self) -> int:
        """Count the source records behind which the engine has gone on, and which may still come."""
        return sum(end - first for first, end in self._skipped)

    @property
    def _skipped(self) -> list[tuple[int, int]]:
        return [it["upstream"] for it in self.carried.get("skipped", ()) if not it["told"]]

    @property
    def unmatched(self) -> bool:
        """Say whether records at the copy's end are like none of the source so far."""
        return self.carried.get("unmatched_since") is not None

    @property
    def open_offsets(self) -> int:
        """Count the copied upstream offsets that the map does not tell of yet: the engine may still copy them again."""
        return max(0, self.copied_to - self.mapped_to)

    def open_below(self, log_start: int, mapped: int | None) -> bool:
        """Say whether a copy that begins at `log_start` has lost records of which the map does not tell yet.

        Without a map (`mapped` is None) nobody knows of which records it has lost the copies before the first look.
        """
        return any(
            it["downstream"] < log_start or mapped is None for it in self.carried.get("open", ()) if log_start
        )

    @property
    def absent(self) -> int:
        """Count the source records that the engine has passed over: they are not on the target."""
        return self.counts.get(MISSING, 0) + self.passed_over

    @property
    def first_absent(self) -> int | None:
        """Return the upstream offset of the first of them that is named."""
        named = [it.upstream[0] for it in self.findings if it.kind == MISSING and it.upstream is not None]
        return min([*named, *(first for first, _ in self._skipped)], default=None)

    @property
    def audit(self) -> PartitionAudit:
        """Return what is proved by it: every record that the map knows was compared; the changed ones are not equal."""
        changed = [
            finding for finding in self.findings if finding.kind == CHANGED and finding.upstream is not None
        ]
        named = (
            FoundDifference(DifferenceKind.VALUE, finding.upstream[0], None)
            for finding in changed
            if finding.upstream
        )
        return PartitionAudit(
            *self.life,
            remote_topic=self.remote_topic,
            remote_topic_id=self.remote_topic_id,
            start=self.begins,
            end=self.mapped_to,
            downstream_end=self.seen_to,
            records=self.equal + self.counts.get(CHANGED, 0),
            equal_bytes=0,
            equal_records=self.equal,
            unproved=(),
            difference_count=self.counts.get(CHANGED, 0),
            differences=tuple(named),
            at_ms=self.at_ms,
        )

    def audit_behind(self, before: PartitionAudit | None) -> PartitionAudit:
        """Return what is proved by it, behind what twinlog had copied and proved itself until it was handed over."""
        mine = self.audit
        if before is None or (before.end, before.remote_topic_id) != (self.begins, self.remote_topic_id):
            return mine
        return replace(
            before,
            end=mine.end,
            downstream_end=mine.downstream_end,
            records=before.records + mine.records,
            equal_records=before.equal_records + mine.equal_records,
            difference_count=before.difference_count + mine.difference_count,
            differences=(*before.differences, *mine.differences),
            at_ms=mine.at_ms,
        )
