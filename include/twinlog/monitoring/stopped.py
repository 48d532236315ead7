"""Name the partitions that the last cycle had to stop, and that nothing has copied on since.  Pure.

Such as at a record that the target refuses, or at a gap: no cycle gets on before a person acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twinlog.copying.result import TRANSIENT_CODES
from twinlog.facts.flow import FlowFacts
from twinlog.facts.partition import PartitionFacts
from twinlog.jsonable import Json
from twinlog.kafka_types import OfPartition, TopicPartition

MOST = 100
"""Partitions that a cycle's report names: it is written in every cycle."""

MOST_CHARACTERS = 300

_NEXT_CYCLE = TRANSIENT_CODES | {"recreated", "topic-deleted"}
"""Codes of what the next cycle deals with by itself."""


@dataclass(frozen=True, slots=True)
class StoppedCopy(OfPartition):
    """A partition that stopped, and why, as the last cycle said; `message` names the upstream offset."""

    topic: str
    partition: int
    message: str


def stopped_in(copy_result: Json | None) -> Mapping[TopicPartition, str]:
    """Return why partitions of a copy stopped, without those that may go on by themselves."""
    if copy_result is None or copy_result.get("transient"):
        return {}
    ended = (
        (it, it["error"], it.get("error_code")) for it in copy_result.get("partitions", ()) if it["error"]
    )
    waiting = ((it, it["message"], it["code"]) for it in copy_result.get("stopped", ()))
    return {
        TopicPartition(it["topic"], it["partition"]): message
        for it, message, code in (*ended, *waiting)
        if code not in _NEXT_CYCLE
    }


def as_reported(stopped: Mapping[TopicPartition, str]) -> dict[str, dict[str, str]]:
    """Return what a cycle's report keeps of them: by topic, and by partition as text."""
    kept: dict[str, dict[str, str]] = {}
    for at, message in sorted(stopped.items())[:MOST]:
        kept.setdefault(at.topic, {})[str(at.partition)] = message[:MOST_CHARACTERS]
    return kept


def still_stopped(facts: FlowFacts) -> tuple[StoppedCopy, ...]:
    """Return the partitions of the last report that have not moved since; all of them without the source."""
    report = facts.ledger.last_report
    summary = report.summary if report is not None else {}
    places = {partition.topic_partition: partition for partition in facts.partitions}
    found = []
    for topic, messages in sorted(summary.get("stopped", {}).items()):
        for number, message in sorted(messages.items(), key=lambda item: int(item[0])):
            at = TopicPartition(topic, int(number))
            if not facts.live or ((row := places.get(at)) is not None and _stands(row, summary)):
                found.append(StoppedCopy(topic, at.partition, message))
    return tuple(found)


def _stands(row: PartitionFacts, summary: Json) -> bool:
    """Say whether there is more to copy, or a log that ends before the copy does, and nothing was copied since."""
    reported = summary.get("next_upstream", {}).get(row.topic, {}).get(str(row.partition))
    unfinished = row.lag_records != 0 or row.undecided_records != 0
    return unfinished and row.next_upstream == reported
