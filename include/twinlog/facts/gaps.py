"""Show gaps to people: open, expired, or acknowledged by a person.

A gap expires when the lost records would be gone from source and target anyway: from then on a copy without them holds
all that a copy with them would.  A gap never expires by itself if its topic keeps records for ever or for an unknown
time, or if the partition has stopped at the gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from twinlog.clock import iso
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import Configs
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TransientError
from twinlog.formats.ledger.accepted import Accepted
from twinlog.formats.ledger.records import Gap, GapCause
from twinlog.state.ledger import Ledger


class GapState(StrEnum):
    """Say whether a gap still counts against the copy."""

    OPEN = "open"
    EXPIRED = "expired"
    ACKNOWLEDGED = "acknowledged"


@dataclass(frozen=True, slots=True)
class GapReport:
    """Upstream offsets first_offset..last_offset that will never be copied, and why.

    `records` is at most how many there were.  The lost records lay between the times `since` and `until` (ISO 8601, ""
    if unknown).  `copied_past` says that the copy went on after them; if it did not, the partition is stopped.
    `expires` is when they would be gone anyway, "" for never.  `acknowledged_by` names the person who answers for
    going on without them.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    cause: GapCause
    records: int = 1
    since: str = ""
    until: str = ""
    copied_past: bool = True
    topic_id: str = ""
    state: GapState = GapState.OPEN
    expires: str = ""
    acknowledged_by: str = ""
    acknowledged_reason: str = ""
    acknowledged_at: str = ""


def read_gaps(
    flow: FlowSettings,
    target: ClusterReader,
    ledger: Ledger,
    now_ms: int,
    source: ClusterReader | None = None,
) -> tuple[GapReport, ...]:
    """List the gaps of a flow as of `now_ms`.

    If `source` is None or does not answer, nothing is left of the records there, so the copy's retention counts.
    Without gaps no cluster is asked.  Raises ClusterUnreachable for the target.
    """
    names = sorted(
        {gap.topic for gap in ledger.gaps} | {quarantine.topic for quarantine in ledger.quarantined}
    )
    if not names:
        return ()
    remote = {name: copy_of(flow, ledger, name) for name in names}
    copies = target.topic_configs(sorted(set(remote.values()))).found
    try:
        origins = source.topic_configs(names) if source is not None else None
    except TransientError:
        origins = None
    keeps = {}
    for name in names:
        sides = [copies.get(remote[name], {})]
        if origins is not None:
            sides.append(origins.found.get(name, {}))
        keeps[name] = keeps_ms(sides)
    return gap_reports(ledger, keeps, now_ms)


def copy_of(flow: FlowSettings, ledger: Ledger, topic: str) -> str:
    """Return the name of the copy that a topic has, or would have.  Pure."""
    life = ledger.incarnations.get(topic)
    return life.remote_topic if life is not None else flow.remote_name(topic)


def gap_reports(ledger: Ledger, keeps_ms: Mapping[str, int | None], now_ms: int) -> tuple[GapReport, ...]:
    """List gaps and quarantined records, by topic, partition and offset.

    `keeps_ms` says for each source topic how long both sides keep records; None means for ever.  For a topic that is
    not in it, that time is unknown.
    """
    reports = [_with_expiry(report, lost_ms, keeps_ms, now_ms) for report, lost_ms in _all(ledger)]
    known = {
        (accepted.subject, accepted.topic_id, accepted.partitions, accepted.first_offset): accepted
        for accepted in ledger.accepted
        if accepted.first_offset is not None and accepted.counts(now_ms)
    }
    judged = (
        _with_answer(
            report, known.get((report.topic, report.topic_id, str(report.partition), report.first_offset))
        )
        for report in reports
    )
    return tuple(sorted(judged, key=lambda it: (it.topic, it.partition, it.first_offset)))


def open_gaps(gaps: Iterable[GapReport]) -> tuple[GapReport, ...]:
    """Return the gaps that count against the copy."""
    return tuple(gap for gap in gaps if gap.state is GapState.OPEN)


def keeps_ms(sides: Iterable[Configs]) -> int | None:
    """Return how long the side that keeps a topic's records longest keeps them (ms); None for ever or unknown."""
    kept = [_keeps(configs) for configs in sides]
    known = [it for it in kept if it is not None]
    return max(known) if known and len(known) == len(kept) else None


def _keeps(configs: Configs) -> int | None:
    policy, retention = configs.get("cleanup.policy"), configs.get("retention.ms")
    if policy is None or retention is None or policy.value is None or retention.value is None:
        return None
    milliseconds = int(retention.value)
    return milliseconds if "delete" in policy.value and milliseconds >= 0 else None


def _all(ledger: Ledger) -> Iterator[tuple[GapReport, int]]:
    """Yield each gap with the latest time at which the newest of its records can have been lost."""
    for gap in ledger.gaps:
        yield _of_gap(gap), max(gap.at_ms, gap.grown_ms or 0, gap.last_ms or 0)
    for record in ledger.quarantined:
        place = record.topic, record.partition, record.offset, record.offset
        yield GapReport(*place, GapCause.QUARANTINE, topic_id=record.topic_id), record.at_ms


def _of_gap(it: Gap) -> GapReport:
    return GapReport(
        it.topic,
        it.partition,
        it.first_offset,
        it.last_offset,
        it.cause,
        it.records_estimate,
        iso(it.first_ms) if it.first_ms is not None else "",
        iso(it.last_ms) if it.last_ms is not None else "",
        it.copied_past,
        it.topic_id,
    )


def _with_expiry(report: GapReport, lost_ms: int, keeps: Mapping[str, int | None], now_ms: int) -> GapReport:
    kept = keeps.get(report.topic)
    if kept is None or not report.copied_past:
        return report
    state = GapState.EXPIRED if lost_ms + kept < now_ms else GapState.OPEN
    return replace(report, state=state, expires=iso(lost_ms + kept))


def _with_answer(report: GapReport, answer: Accepted | None) -> GapReport:
    if answer is None or answer.up_to is None or answer.up_to < report.last_offset:
        return report
    return replace(
        report,
        state=GapState.ACKNOWLEDGED if report.state is GapState.OPEN else report.state,
        acknowledged_by=answer.by,
        acknowledged_reason=answer.reason,
        acknowledged_at=iso(answer.at_ms),
    )
