"""Show where the copy of each partition stands: the next upstream offset, the source's log, the map, what stops it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from twinlog.copying.ranges import resolve
from twinlog.formats.ledger.topics import OffsetsAltered
from twinlog.formats.map.packed_map import PackedMap
from twinlog.kafka_types import OfPartition
from twinlog.topics.discovery import DiscoveredTopic
from twinlog.topics.snapshot import FlowSnapshot


@dataclass(frozen=True, slots=True)
class CopyPosition(OfPartition):
    """Where the copy of one partition stands, in upstream offsets; None for what is not known.

    `next_offset` is copied next.  [`log_start`, `end`) is what the source can give.  `map_end` is where the offset map
    ends.  `lag` counts the offsets that are still to be copied, at most, `never_copied` those of its gaps and
    quarantined records, acknowledged and expired ones too.
    `why` says what keeps it from being copied, "" for nothing.
    """

    topic: str
    partition: int
    remote_topic: str
    next_offset: int | None
    log_start: int | None
    end: int | None
    map_end: int | None
    lag: int | None
    never_copied: int
    why: str


@dataclass(frozen=True, slots=True)
class CopyPositions:
    """Where the copies of a flow stand, by topic and partition, and how people moved them, oldest first."""

    flow: str
    partitions: tuple[CopyPosition, ...]
    altered: tuple[OffsetsAltered, ...]


def run(snapshot: FlowSnapshot) -> CopyPositions:
    """Read where the copies stand.  Raises FormatError for state that cannot be read, and errors of clusters."""
    snapshot.read_state()
    return CopyPositions(
        snapshot.flow.name,
        tuple(position for topic in snapshot.discovery.topics for position in _of_topic(snapshot, topic)),
        snapshot.ledger.altered,
    )


def _of_topic(snapshot: FlowSnapshot, topic: DiscoveredTopic) -> Iterator[CopyPosition]:
    flow, ledger = snapshot.flow, snapshot.ledger
    held = _why_held(snapshot, topic)
    stopped = resolve(flow, [topic], snapshot.progress, {}, {}).stopped
    whys = {partition.partition: partition.message for partition in stopped}
    read = {partition.partition: partition for partition in topic.partitions}
    never = Counter[int]()
    for gap in ledger.gaps:
        if (gap.topic, gap.topic_id) == (topic.topic, topic.topic_id):
            never[gap.partition] += gap.last_offset - gap.first_offset + 1
    never.update(
        quarantine.partition
        for quarantine in ledger.quarantined
        if (quarantine.topic, quarantine.topic_id) == (topic.topic, topic.topic_id)
    )
    for number in range(topic.partition_count):
        mapped, it = snapshot.maps.seen(topic.life(number)), read.get(number)
        last = snapshot.progress.get(topic.at_source(number))
        goes_on = last + 1 if last is not None else it.begins if it is not None else None
        end = it.source_end(flow) if it is not None else None
        yield CopyPosition(
            topic.topic,
            number,
            topic.remote_topic,
            next_offset=goes_on,
            log_start=it.source.log_start if it is not None else None,
            end=end,
            map_end=mapped.end_upstream if isinstance(mapped, PackedMap) else None,
            lag=None if goes_on is None or end is None else max(0, end - goes_on),
            never_copied=never[number],
            why=held or whys.get(number, ""),
        )


def _why_held(snapshot: FlowSnapshot, topic: DiscoveredTopic) -> str:
    """Say what keeps the whole topic from being copied; "" for nothing."""
    problems = (it.message for it in snapshot.discovery.problems if it.topic == topic.topic and it.blocking)
    if problem := next(problems, ""):
        return problem
    if snapshot.discovery.stands_by:
        return f"the flow is {snapshot.discovery.stands_by}"
    return topic.paused
