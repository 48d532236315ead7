"""Put together the transactions of each partition from what lanes have noted, in the order of the topic.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from twinlog.formats.transactions import EventKind, Look, Seen
from twinlog.kafka_types import TopicPartition

UNKNOWN = -1
"""The first offset, or the epoch, of a transaction of which only the marker was seen."""


class Part(NamedTuple):
    """The part of a source transaction in one partition: offsets are upstream, `marker` is None while it is open.

    `epoch` is that of its first batch.
    """

    place: TopicPartition
    producer_id: int
    epoch: int
    first: int
    marker: int | None


@dataclass(frozen=True, slots=True)
class History:
    """The parts of transactions that were copied, and the looks at the source, oldest first.

    `recreated` are topics of which the newest look saw another incarnation than the one that is copied.
    """

    parts: tuple[Part, ...]
    looks: tuple[Look, ...]
    recreated: tuple[str, ...] = ()


@dataclass(slots=True)
class _Partition:
    """Hold what is known of one partition; `reached` is how far it was read."""

    reached: int = 0
    open_now: dict[int, Part] = field(default_factory=dict)
    ended: list[Part] = field(default_factory=list)

    def take(self, seen: Seen) -> None:
        if seen.start < self.reached:  # it is copied anew from there
            self.ended = [it for it in self.ended if it.marker is not None and it.marker < seen.start]
            self.open_now = {pid: it for pid, it in self.open_now.items() if it.first < seen.start}
        self.reached = seen.end
        place = seen.topic_partition
        for offset, producer, epoch, kind in seen.events:
            if kind is EventKind.BEGAN:
                # A lane that goes on in the midst of a transaction notes another first batch.
                self.open_now.setdefault(producer, Part(place, producer, epoch, offset, None))
                continue
            begun = self.open_now.pop(producer, Part(place, producer, UNKNOWN, UNKNOWN, None))
            if kind is EventKind.COMMITTED:
                self.ended.append(begun._replace(marker=offset))


def history(
    records: Iterable[Seen | Look], recording: str, topic_ids: Mapping[str, str], *, whole: bool
) -> History:
    """Return what the records of `recording` tell of the topics' present incarnations.

    Unless `whole`, the topic is not read from the recording's beginning, and its first look is left out: what lanes
    committed right after it may stand before it.  A look that goes back in a partition is left out, too: it was held
    up on its way, or came from a leader that did not know the end yet.
    """
    partitions: dict[TopicPartition, _Partition] = {}
    looks: list[Look] = []
    for record in records:
        if record.recording != recording:
            continue
        if isinstance(record, Look):
            if not looks or _goes_on(looks[-1], record):
                looks.append(record)
        elif topic_ids.get(record.topic) == record.topic_id:
            partitions.setdefault(record.topic_partition, _Partition()).take(record)
    parts = [part for it in partitions.values() for part in (*it.ended, *it.open_now.values())]
    others = [_others(it, topic_ids) for it in looks]
    kept = [it for it, foreign in zip(looks, others, strict=True) if not foreign]
    return History(tuple(parts), tuple(kept if whole else kept[1:]), others[-1] if others else ())


def _others(look: Look, topic_ids: Mapping[str, str]) -> tuple[str, ...]:
    """Return the topics of which the look saw another incarnation than the one of `topic_ids`."""
    return tuple(sorted(topic for topic, key in look.topic_ids.items() if topic_ids.get(topic, key) != key))


def _goes_on(last: Look, look: Look) -> bool:
    """Say whether no end lies before that of the look before it; a topic that was created anew begins anew."""

    def steady(before: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int]) -> bool:
        return all(
            now[place] >= end
            for place, end in before.items()
            if place in now and last.topic_ids[place.topic] == look.topic_ids[place.topic]
        )

    return steady(last.before, look.before) and steady(last.after, look.after)
