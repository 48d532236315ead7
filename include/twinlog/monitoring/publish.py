"""Step `publish`: make the report of a cycle, return it and keep it in the ledger."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ranges import StoppedPartition
from twinlog.copying.result import completed
from twinlog.fact import Count, if_known, total
from twinlog.facts.flow import FlowFacts
from twinlog.facts.observe import observe
from twinlog.facts.partition import PartitionFacts
from twinlog.formats.ledger.records import CycleReport
from twinlog.jsonable import NOT_SHOWN, Json
from twinlog.judge import at_risk
from twinlog.kafka_types import TopicPartition
from twinlog.metadata import apply_plan
from twinlog.monitoring import alarm, samples
from twinlog.monitoring.cycle_report import FlowReport, PartitionReport, TopicReport
from twinlog.monitoring.exporter import Board
from twinlog.monitoring.metrics import CYCLE_TIMESTAMP_SECONDS
from twinlog.monitoring.stopped import as_reported, still_stopped, stopped_in
from twinlog.state.ledger import drop_left_over, write_ledger
from twinlog.topics.snapshot import FlowSnapshot

log = logging.getLogger(__name__)


def run(
    flow: FlowSettings,
    clusters: Clusters,
    run_id: str,
    copy_result: Json | None,
    started_ms: int,
    facts: FlowFacts | None = None,
    *,
    failed: bool = False,
    board: Board | None = None,
    tells: bool = False,
) -> FlowReport:
    """Report the cycle that began at `started_ms` (epoch ms), and keep the report as the flow's newest.

    The records at risk and a picture of the source are kept beside it: the gate reads them if the source is lost.  So
    is the plan of the rights that producers need on the target then (metadata/apply_plan.py).

    `copy_result` is the copy's result as JSON, None if there was nothing to copy.  `facts` were read just now; if
    None, they are read.  `failed` says that something failed in the cycle that the copy's result does not
    mention.  `board` gets the numbers, and may have more of them.  If `tells`, somebody passes the report's alarms on,
    and the next reports leave them out.  Raises ClusterUnreachable and ClusterRefused.
    """
    facts = facts or observe(FlowSnapshot(flow, clusters))
    # For a copy of many partitions, the ledger holds what the result had no room for.
    copy_result = completed(copy_result, facts.ledger)
    report = make_report(flow, facts, run_id, copy_result, started_ms, failed=failed)
    faults = alarm.over(flow, report, 0)
    told = {} if facts.ledger.last_report is None else facts.ledger.last_report.summary.get("told", {})
    alarms, telling = alarm.news(faults, told, facts.at_ms) if tells else ((), told)
    report = replace(report, alarms=alarms)
    stopped = _stopped(copy_result, facts)
    cycle = CycleReport(
        run_id, {**summary(report, facts, stopped), **({"told": telling} if telling else {})}, facts.at_ms
    )
    sample = at_risk.risk_sample(facts, at_risk.topics_at_risk(flow, facts))
    rights = apply_plan.plan_to_keep(
        flow, clusters, facts.ledger
    )  # for a failover without the source, if it is due
    records = [cycle, at_risk.known_source(facts), sample, *([] if rights is None else [rights])]
    write_ledger(flow, clusters.target, records)
    drop_left_over(flow, clusters.target, facts.ledger)
    _tell(flow, report, facts, board or Board(flow))
    return report


def _stopped(copy_result: Json | None, facts: FlowFacts) -> Mapping[TopicPartition, str]:
    """Return why partitions are stopped: by this cycle's copy, or by an earlier one, with nothing copied since."""
    return {
        **{copy.topic_partition: copy.message for copy in still_stopped(facts)},
        **stopped_in(copy_result),
    }


def _tell(flow: FlowSettings, report: FlowReport, facts: FlowFacts, board: Board) -> None:
    """Tell the numbers of a report, and write them if there is a folder for them."""
    board.tell("report", samples.of_report(flow, report, facts))
    # It says how old the other numbers are, so it is shown for good.
    board.tell("reported", [CYCLE_TIMESTAMP_SECONDS.of(report.at_ms / 1000)], math.inf)
    if flow.metrics.folder is None and flow.metrics.listen is None:
        return
    board.tell("audits", samples.of_audits(facts))
    if flow.metrics.folder is not None:
        try:
            board.write(flow.metrics.folder)
        except OSError as error:  # numbers for people who watch: no reason to call the cycle a failure
            log.warning("metrics cannot be written (twinlog.metrics.folder): %s", error)


def make_report(
    flow: FlowSettings,
    facts: FlowFacts,
    run_id: str,
    copy_result: Json | None,
    started_ms: int,
    *,
    failed: bool,
) -> FlowReport:
    """Join the copy's result with the present state.  Pure."""
    result = {"state": "nothing", "records": 0, "bytes": 0, **(copy_result or {})}
    copied = {TopicPartition(it["topic"], it["partition"]): it for it in result.get("partitions", ())}
    stopped = tuple(StoppedPartition(**it) for it in result.get("stopped", ()))
    ended = set() if result.get("transient") else {place for place, it in copied.items() if it["error"]}
    not_shown = result.get(NOT_SHOWN, {}).get("stopped", 0)
    blocked = any(problem.blocking for problem in facts.problems)
    return FlowReport(
        flow=flow.name,
        run_id=run_id,
        state="failed" if blocked or failed else result["state"],
        records=result["records"],
        bytes=result["bytes"],
        topics=tuple(
            TopicReport(
                topic.topic,
                topic.remote_topic,
                tuple(_partition(row, copied) for row in topic.partitions),
                if_known(topic.age_seconds),
                topic.undecided.least,
                topic.lag_since(started_ms).shown,
            )
            for topic in facts.topics
            if topic.partitions
        ),
        gaps=facts.gaps,
        stopped=stopped,
        problems=facts.problems,
        lag_records=if_known(total(topic.lag_since(started_ms) for topic in facts.topics).fact),
        rpo_seconds=facts.rpo_seconds,
        seconds=round(clock.seconds_between(started_ms, facts.at_ms), 3),
        at_ms=facts.at_ms,
        stopped_not_shown=not_shown,
        stopped_partitions=len({it.topic_partition for it in stopped} | ended) + not_shown,
        undecided_records=facts.undecided_records.least,
        undecided=facts.undecided,
        unseen_partitions=facts.unseen,
    )


def summary(report: FlowReport, facts: FlowFacts, stopped: Mapping[TopicPartition, str]) -> Json:
    """Choose what the ledger keeps: totals, where each partition's copy continues, and how much lay before that.

    Of partitions with records at risk it keeps the source's end too, by which a failover without the source counts, and
    why partitions are `stopped`.  Kept small on purpose: a report is written in every cycle.
    """
    rows = facts.partitions
    return {
        "state": report.state,
        "records": report.records,
        "bytes": report.bytes,
        "seconds": report.seconds,
        "lag_records": if_known(facts.lag.fact),
        "rpo_seconds": report.rpo_seconds,
        "undecided_records": report.undecided_records,
        "unseen_partitions": report.unseen_partitions,
        "next_upstream": {row.topic: {} for row in rows}
        | _by_topic((row, row.next_upstream) for row in rows),
        "lag": _by_topic((row, row.lag or None) for row in rows),
        "undecided": _by_topic((row, row.undecided_records or None) for row in rows),
        "ends": _by_topic((row, row.source_end) for row in rows if row.missing_records != 0),
        **({"stopped": as_reported(stopped)} if stopped else {}),
        **(
            {
                "deleted_early": _by_topic((row, row.deleted_early or None) for row in rows),
                "lag_when_read": report.lag_records,
            }
            if facts.ledger.observed
            else {}
        ),
    }


def _by_topic(numbers: Iterable[tuple[PartitionFacts, Count | None]]) -> dict[str, dict[str, int]]:
    """Return those numbers of partitions that there are, by topic, and by partition as text."""
    found: dict[str, dict[str, int]] = {}
    for row, number in numbers:
        if isinstance(number, int):
            found.setdefault(row.topic, {})[str(row.partition)] = number
    return found


def _partition(row: PartitionFacts, copied: Mapping[TopicPartition, Json]) -> PartitionReport:
    this_cycle = copied.get(row.topic_partition, {})
    return PartitionReport(
        partition=row.partition,
        copied_records=this_cycle.get("copied_records", 0),
        last_upstream_offset=-1 if row.last_upstream is None else row.last_upstream,
        lag_records=if_known(row.lag) or 0,
        error=this_cycle.get("error", ""),
        undecided_records=if_known(row.undecided_records) or 0,
    )
