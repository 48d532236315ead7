"""Step `audit`: compare the copy with its source, and remember what is proved.

The order of reads matters: first the ends of the map, then the ends of the logs, then the map.  So all that was mapped
at first lies below those log ends on both sides, and the map contains every record of this flow below them.  The audit
changes nothing but the ledger.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from twinlog import clock
from twinlog.audit.comparison.values import Comparison
from twinlog.audit.coverage import total
from twinlog.audit.deleted_early import deleted_early
from twinlog.audit.lane import AuditLaneSpec, AuditRunner
from twinlog.audit.plan import AuditPlan, PartitionPlan, plan
from twinlog.audit.problems import AuditState
from twinlog.audit.request import AuditRequest
from twinlog.audit.result import (
    AuditResult,
    coverage_of,
    differences_of,
    gathered,
    in_flight,
    judged_to,
    partition_row,
    remembered,
    unfinished,
)
from twinlog.audit.verdict import AuditVerdict, nothing_compared, proves, verdict_of, without_heartbeats
from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.cluster.values import value_of
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.audit import DifferenceKind, PartitionAudit
from twinlog.formats.map.packed_map import UnreadableMap
from twinlog.grouped import grouped
from twinlog.kafka_types import Issue, SourceIncarnation
from twinlog.logs.reading_lanes import spread
from twinlog.offsets.offset_map import OffsetMap
from twinlog.state.ledger import read_ledger, write_ledger
from twinlog.state.progress import Maps, read_maps
from twinlog.topics.discovery import refuse_unknown_topics
from twinlog.topics.other_writers import read_other_writers
from twinlog.topics.snapshot import FlowSnapshot

SETTLE_SECONDS = 2.0
"""Seconds a record at the end of the target may be ahead of the map.

The commit markers of one transaction are written within milliseconds of one another, but not at once.
"""


def run(
    flow: FlowSettings, clusters: Clusters, runner: AuditRunner, request: AuditRequest | None = None
) -> AuditResult:
    """Compare what `request` asks for; by default, what is new since the last audit.

    Raises ClusterUnreachable, ClusterRefused, UsageError if the flow does not replicate a topic, and FormatError if
    state cannot be read.  If the map of one partition cannot be read, that is a problem in the report.  Differences
    are an answer, not an error.
    """
    flow.require_copied("an audit (every cycle compares)")
    request = request or AuditRequest()
    began, at_ms = time.monotonic(), clock.now_ms()
    snapshot = FlowSnapshot(flow, clusters).read_state()
    discovery = snapshot.discovery
    refuse_unknown_topics(discovery, request.topics, "name source topics of the flow")
    state = _state(snapshot)
    decided = plan(flow, state, request)
    lanes = pack(flow, decided, runner.slots)
    answers = runner.run(lanes) if lanes else ()
    readings = grouped((reading.life, reading) for answer in answers for reading in answer.partitions)
    found = {it.life: gathered(it, readings.get(it.life, ())) for it in decided.partitions}
    newer = Maps[OffsetMap]({}, {})
    if any(DifferenceKind.EXTRA in comparison.counts for comparison in found.values()):
        time.sleep(SETTLE_SECONDS)
        newer = read_maps(flow, clusters.target)
        writers = read_other_writers(flow, clusters, discovery)
        if not writers.shared <= state.sharing.shared:  # a reverse flow has begun: clients write there
            return run(flow, clusters, runner, request)
        found = {
            it.life: in_flight(it, found[it.life], _known(newer, it.life), writers.others)
            for it in decided.partitions
        }
    troubles = {it.life: unfinished(it, readings.get(it.life, ())) for it in decided.partitions}
    audits = {
        it.life: remembered(it, found[it.life], judged_to(it, _known(newer, it.life)), at_ms)
        for it in decided.partitions
        if it.claims and troubles[it.life] is None  # else it keeps its earlier entry
    }
    write_ledger(flow, clusters.target, audits.values())
    judged = [(it, found[it.life], audits.get(it.life), at_ms) for it in decided.partitions]
    problems = (*decided.problems, *filter(None, troubles.values()))
    cpu_seconds = sum(answer.cpu_seconds for answer in answers)
    seconds = time.monotonic() - began, cpu_seconds
    return _result(flow, request, decided, judged, problems, at_ms, *seconds)


def pack(flow: FlowSettings, decided: AuditPlan, slots: int) -> tuple[AuditLaneSpec, ...]:
    """Spread the partitions over at most `slots` lanes."""

    def size(plan: PartitionPlan) -> int:
        return sum(plan.offset_map.records_between(spec.scope.start, spec.scope.end) for spec in plan.specs)

    planned = ((size(plan), plan.life, plan.specs) for plan in decided.partitions if plan.specs)
    return tuple(spread(flow, planned, slots))


def _state(snapshot: FlowSnapshot) -> AuditState:
    """Add what an audit has to know besides.

    Ledger and map are read once more, after progress and the ends of the logs: offsets that were left out on purpose
    meanwhile must not look lost.
    """
    flow, clusters, discovery = snapshot.flow, snapshot.clusters, snapshot.discovery
    names = [topic.topic for topic in discovery.topics]
    remote = {topic.remote_topic: topic.topic for topic in discovery.topics if topic.remote is not None}
    shrinking = compacted(clusters.source, names)
    shrinking |= {remote[name] for name in compacted(clusters.target, remote)}
    ledger = read_ledger(flow, clusters.target)
    return AuditState(
        discovery,
        ledger,
        read_maps(flow, clusters.target),
        snapshot.progress,
        {incarnation: it.end_upstream for incarnation, it in snapshot.maps.items()},
        shrinking,
        read_other_writers(flow, clusters, discovery, ledger),
        deleted_early(flow, clusters, discovery, ledger, snapshot.maps, clock.now_ms()),
    )


def compacted(cluster: ClusterReader, topics: Iterable[str]) -> set[str]:
    """Return the topics that are compacted; one whose configuration may not be read counts as such."""
    answers = cluster.topic_configs(topics)
    known = answers.found.items()
    return {
        name for name, configs in known if "compact" in (value_of(configs, "cleanup.policy") or "")
    } | set(answers.refused)


_Judged = tuple[PartitionPlan, Comparison, PartitionAudit | None, int]
"""A partition, what was found there, what the ledger keeps of it, and when (epoch ms)."""


def _result(
    flow: FlowSettings,
    request: AuditRequest,
    decided: AuditPlan,
    judged: Sequence[_Judged],
    problems: tuple[Issue, ...],
    at_ms: int,
    seconds: float,
    cpu_seconds: float,
) -> AuditResult:
    rows = tuple(partition_row(*it) for it in judged)
    covered = [coverage_of(*it) for it in judged]
    whole = total(covered)
    difference_count = sum(row.differences for row in rows)
    compared = sum(row.compared for row in rows)
    if not compared and not problems:
        problems = (nothing_compared(flow.name, whole.unproved),)
    verdict = verdict_of(difference_count, compared, problems)
    equal = verdict is AuditVerdict.EQUAL
    return AuditResult(
        flow=flow.name,
        mode=request.mode,
        equal=equal,
        records=sum(row.records for row in rows),
        coverage=total(without_heartbeats(flow, covered)).share,
        difference_count=difference_count,
        differences=tuple(one for it, found, *_ in judged for one in differences_of(it, found)),
        partitions=rows,
        problems=problems,
        at_ms=at_ms,
        seconds=round(seconds, 3),
        cpu_seconds=round(cpu_seconds, 3),
        verdict=verdict,
        proved=equal and proves(flow, covered),
        compared=compared,
        unproved=whole.unproved,
        left_to_clients=decided.left_to_clients,
    )


def _known(maps: Maps[OffsetMap], life: SourceIncarnation) -> OffsetMap | None:
    found = maps.seen(life)
    return None if isinstance(found, UnreadableMap) else found
