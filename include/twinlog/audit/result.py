"""Define what an audit answers, and what of it the ledger keeps.  Pure."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from twinlog.audit.comparison.totals import shortened
from twinlog.audit.comparison.values import Comparison, Difference
from twinlog.audit.coverage import (
    PartitionCoverage,
    UnprovedCount,
    covered,
    partition_coverage,
    total,
)
from twinlog.audit.plan import PartitionPlan
from twinlog.audit.request import AuditMode
from twinlog.audit.verdict import AuditVerdict
from twinlog.errors import ExitCode
from twinlog.formats.ledger.audit import (
    KEPT_DIFFERENCES,
    DifferenceKind,
    FoundDifference,
    PartitionAudit,
    Unproved,
    UnprovedSpan,
)
from twinlog.jsonable import Json, to_json
from twinlog.kafka_types import Issue, TopicPartition
from twinlog.logs.reading_lanes import Reading
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.spans import Spans


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedDifference(Difference):
    """One difference with its topic.

    `found_ms` is 0 if this audit found it, else the time of the earlier audit that did; it was not compared again
    since.
    """

    topic: str
    remote_topic: str
    partition: int
    found_ms: int = 0


@dataclass(frozen=True, slots=True)
class AuditedPartition:
    """One partition: `records` were looked at now; `coverage` is the share of its copy that is proved equal.

    `differences` counts all that stand, found now or before.  `audited_to` is the upstream offset that audits have
    reached.  `others` counts foreign records in a shared topic; they count neither as copied nor as proved.  `compared`
    counts the records in the copy that were compared with their source, by this audit or by those it continues.
    """

    topic: str
    remote_topic: str
    partition: int
    records: int
    coverage: float
    equal_bytes: int
    equal_records: int
    superseded: int
    differences: int
    unproved: tuple[UnprovedSpan, ...]
    audited_to: int
    proved_ms: int | None
    others: int = 0
    compared: int = 0


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The audit of a flow.

    `equal` is true if something was compared, no difference stands, and no topic was kept from being audited;
    `verdict` says which of these failed.  `proved` is true if as much of each topic is proved as the gate asks for
    once producers have stopped.  `compared` counts the compared records, `unproved` all that are not proved, by
    reason.  `coverage` is the share of the copy that is proved, heartbeats left out.
    `left_to_clients` says that nothing was looked at behind the copies: the flow is promoted, and clients of the target
    write there.
    """

    flow: str
    mode: AuditMode
    equal: bool
    records: int
    coverage: float
    difference_count: int
    differences: tuple[AuditedDifference, ...]
    partitions: tuple[AuditedPartition, ...]
    problems: tuple[Issue, ...]
    at_ms: int
    seconds: float
    cpu_seconds: float
    verdict: AuditVerdict = AuditVerdict.NOTHING_TO_COMPARE
    proved: bool = False
    compared: int = 0
    unproved: tuple[UnprovedCount, ...] = ()
    left_to_clients: bool = False

    def without_contents(self) -> AuditResult:
        """Leave out the contents of records, for places that others may read; offsets and kinds say where to look."""
        hidden = (
            dataclasses.replace(difference, source=None, target=None) for difference in self.differences
        )
        return dataclasses.replace(self, differences=tuple(hidden))

    @property
    def exit_code(self) -> ExitCode:
        """Return how an application that audited this ends."""
        return ExitCode.DONE if self.equal else ExitCode.SAYS_NO

    @property
    def told(self) -> Json:
        """Return what an application tells of it, without contents of records."""
        found: Json = to_json(self.without_contents())
        return found


def gathered(plan: PartitionPlan, readings: Sequence[Reading[Comparison]]) -> Comparison:
    """Add to the comparison of a partition's scope, if it has one, what was known to be unprovable.

    A scope that was not compared to its end counts as unfinished.
    """
    found, spans = Comparison(), list(plan.unproved)
    for spec, reading in zip(plan.specs, readings, strict=True):
        if reading.found is not None:
            found = reading.found
            spans += found.unproved
        else:
            lost = plan.offset_map.records_between(spec.scope.start, spec.scope.end)
            spans.append(UnprovedSpan(spec.scope.start, spec.scope.end, lost, Unproved.UNFINISHED))
    return dataclasses.replace(found, unproved=shortened(spans))


def in_flight(
    plan: PartitionPlan,
    found: Comparison,
    newer: OffsetMap | None,
    others: Mapping[TopicPartition, Spans] | None = None,
) -> Comparison:
    """Drop extra records that were being copied during the audit, as newer maps show.

    This flow's own records lie after the end of the plan's map.  Records that `others` wrote into the same copy may
    lie anywhere.
    """
    if newer is None or DifferenceKind.EXTRA not in found.counts:
        return found
    theirs = (others or {}).get(TopicPartition(plan.remote_topic, plan.life.partition), Spans())
    known_to = plan.offset_map.end_downstream
    kept = [
        difference
        for difference in found.differences
        if difference.kind is not DifferenceKind.EXTRA
        or difference.downstream_offset is None
        or not (
            theirs.has(difference.downstream_offset)
            or (difference.downstream_offset >= known_to and _knows(newer, difference.downstream_offset))
        )
    ]
    taken_back = len(found.differences) - len(kept)
    counts = Counter(found.counts)
    counts[DifferenceKind.EXTRA] -= taken_back
    return dataclasses.replace(
        found,
        records=found.records - taken_back,
        differences=tuple(kept),
        counts={kind: count for kind, count in counts.items() if count},
    )


def judged_to(plan: PartitionPlan, newer: OffsetMap | None) -> int:
    """Return the downstream offset below which the map knew every record."""
    if newer is None or newer.end_upstream <= plan.end:
        return plan.downstream_end
    started = newer.upstream >= plan.end
    return (
        min(plan.downstream_end, int(newer.downstream[started].min()))
        if started.any()
        else plan.downstream_end
    )


def _knows(offset_map: OffsetMap, downstream: int) -> bool:
    index = int(offset_map.downstream.searchsorted(downstream, side="right")) - 1
    return index >= 0 and downstream < offset_map.downstream[index] + offset_map.length[index]


def remembered(plan: PartitionPlan, found: Comparison, downstream_end: int, at_ms: int) -> PartitionAudit:
    """Return what the ledger keeps of an incremental or full audit: its findings, after those it continues."""
    before = plan.before or Comparison()
    return PartitionAudit(
        *plan.life,
        remote_topic=plan.remote_topic,
        remote_topic_id=plan.remote_topic_id,
        start=plan.start,
        end=plan.end,
        downstream_end=downstream_end,
        records=before.records + found.records,
        equal_bytes=before.equal_bytes + found.equal_bytes,
        equal_records=before.equal_records + found.equal_records,
        unproved=shortened((*before.unproved, *found.unproved)),
        difference_count=before.difference_count + found.difference_count,
        differences=_named((*before.differences, *found.differences))[:KEPT_DIFFERENCES],
        at_ms=at_ms,
    )


def _named(found: Iterable[Difference | FoundDifference]) -> tuple[FoundDifference, ...]:
    return tuple(FoundDifference(it.kind, it.upstream_offset, it.downstream_offset) for it in found)


def coverage_of(
    plan: PartitionPlan, found: Comparison, audit: PartitionAudit | None, at_ms: int
) -> PartitionCoverage:
    """Judge one partition; `audit` is what the ledger keeps, None for an earlier incarnation."""
    if audit is not None:
        return partition_coverage(plan.life, plan.offset_map, audit)
    proved = found.equal_bytes + found.equal_records if plan.claims else 0
    count, named = found.difference_count, _named(found.differences)
    return covered(plan.life, plan.offset_map, proved, count, found.unproved, at_ms, named)


def partition_row(
    plan: PartitionPlan, found: Comparison, audit: PartitionAudit | None, at_ms: int
) -> AuditedPartition:
    """Make the row of one partition, as `coverage_of` does."""
    coverage = coverage_of(plan, found, audit, at_ms)
    return AuditedPartition(
        plan.life.topic,
        plan.remote_topic,
        plan.life.partition,
        found.records,
        total([coverage]).share,
        found.equal_bytes,
        found.equal_records,
        found.superseded,
        coverage.differences,
        found.unproved if audit is None else audit.unproved,
        plan.start if audit is None else audit.end,
        at_ms if plan.claims else None,
        found.others,
        min(plan.held, coverage.proved + found.superseded) + coverage.differences,
    )


def differences_of(plan: PartitionPlan, found: Comparison) -> list[AuditedDifference]:
    """List the differences of a partition: those found now, then those that earlier audits found before that range."""
    listed = [(difference, 0) for difference in found.differences]
    if plan.before is not None:
        message = "found by an earlier audit; a full one compares it again"
        listed += [
            (Difference(it.kind, it.upstream_offset, it.downstream_offset, message), plan.before.at_ms)
            for it in plan.before.differences
        ]
    return [
        AuditedDifference(
            **{field.name: getattr(difference, field.name) for field in dataclasses.fields(Difference)},
            topic=plan.life.topic,
            remote_topic=plan.remote_topic,
            partition=plan.life.partition,
            found_ms=found_ms,
        )
        for difference, found_ms in listed
    ]


def unfinished(plan: PartitionPlan, readings: Sequence[Reading[Comparison]]) -> Issue | None:
    """Return the problem that kept a partition from being compared to its end."""
    failed = next((reading for reading in readings if reading.found is None), None)
    if failed is None:
        return None
    name = f"{plan.life.topic}-{plan.life.partition}"
    return Issue(
        failed.error_code or "unfinished",
        plan.life.topic,
        f"{name} from upstream offset {failed.start}: {failed.error}",
        "audit again; what was proved before stays proved",
    )
