"""Encode what lanes and drivers note of the source's transactions, for a consistent cut (docs/decisions/0035).

Topic `mm2-transactions.<source>.internal` on the target, one partition, not compacted.  Records in its order:

    key ["seen", topic, topic id, partition]   written by a lane, in the transaction of the records it copies
    value {"version": 1, "recording": ..., "start": ..., "end": ...,
           "events": [[offset, producer id, epoch, kind], ...]}

    key ["look"]                               written by a driver, which has asked the source twice in a row
    value {"version": 1, "recording": ..., "at_ms": ..., "topics": {topic: [topic id, [end, ...], [end, ...]]}}

All offsets are upstream.  The records of one `recording` leave out no transaction of what was copied meanwhile: every
driver that fences the flow carries it on, or begins another (lane/fence/fence.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from twinlog.errors import FormatError
from twinlog.formats.mm2.connect_offset import json_bytes, parsed_json
from twinlog.kafka_types import OfIncarnation, TopicPartition

VERSION = 1
PARTITION = 0

MOST_EVENTS = 5_000
"""Events in one record: about 200 KB, below every limit of a topic."""

NO_END = -1
"""The end of a partition that did not answer."""


class EventKind(IntEnum):
    """Name what a batch of the source says of a transaction."""

    BEGAN = 0
    COMMITTED = 1
    ABORTED = 2


class Event(NamedTuple):
    """The first batch of a transaction in a partition, or its marker: upstream offset, producer, the batch's epoch."""

    offset: int
    producer_id: int
    epoch: int
    kind: EventKind


@dataclass(frozen=True, slots=True)
class Seen(OfIncarnation):
    """Tell what one transaction of a lane has read of a partition: upstream offsets [start, end), the events in it."""

    topic: str
    topic_id: str
    partition: int
    recording: str
    start: int
    end: int
    events: tuple[Event, ...]

    def key(self) -> bytes:
        """Encode the key."""
        return json_bytes(["seen", self.topic, self.topic_id, self.partition])

    def value(self) -> bytes:
        """Encode the value."""
        numbers = {"start": self.start, "end": self.end, "events": [list(it) for it in self.events]}
        return json_bytes({"version": VERSION, "recording": self.recording, **numbers})

    def split(self) -> Iterator[Seen]:
        """Yield records that are small enough to be written."""
        start = self.start
        for first in range(0, len(self.events), MOST_EVENTS):
            events = self.events[first : first + MOST_EVENTS]
            last = first + MOST_EVENTS >= len(self.events)
            end = self.end if last else events[-1].offset + 1
            yield Seen(*self.life, self.recording, start, end, events)
            start = end


@dataclass(frozen=True, slots=True)
class Look:
    """The ends (high watermarks) of all partitions of the flow's topics, asked twice.

    All answers of `before` had come when the source was asked for its topics again, and then for `after`.  A partition
    is missing in either if it did not exist; a look with a partition that did not answer is not written.
    """

    recording: str
    at_ms: int
    topic_ids: Mapping[str, str]
    before: Mapping[TopicPartition, int]
    after: Mapping[TopicPartition, int]

    @staticmethod
    def key() -> bytes:
        """Encode the key."""
        return json_bytes(["look"])

    def value(self) -> bytes:
        """Encode the value."""
        topics = {
            topic: [topic_id, _ends(topic, self.before), _ends(topic, self.after)]
            for topic, topic_id in self.topic_ids.items()
        }
        return json_bytes({
            "version": VERSION,
            "recording": self.recording,
            "at_ms": self.at_ms,
            "topics": topics,
        })


def _ends(topic: str, ends: Mapping[TopicPartition, int]) -> list[int]:
    numbers = [place.partition for place in ends if place.topic == topic]
    return [ends.get(TopicPartition(topic, number), NO_END) for number in range(max(numbers, default=-1) + 1)]


def parse(key: bytes | None, value: bytes | None) -> Seen | Look:
    """Read a record of the topic.  Raises FormatError for any other."""
    what = "a record of the source's transactions"
    try:
        identity, content = parsed_json(key or b"", what), parsed_json(value or b"", what)
        if content["version"] == VERSION and identity[0] == "seen":
            return _seen(identity, content)
        if content["version"] == VERSION and identity[0] == "look":
            return _look(content)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        pass
    raise FormatError(f"{what} cannot be read: key {key!r}")


def _seen(identity: Sequence[Any], content: Mapping[str, Any]) -> Seen:
    _, topic, topic_id, partition = identity
    events = tuple(
        Event(offset, pid, epoch, EventKind(kind)) for offset, pid, epoch, kind in content["events"]
    )
    return Seen(topic, topic_id, partition, content["recording"], content["start"], content["end"], events)


def _look(content: Mapping[str, Any]) -> Look:
    topics: Mapping[str, Sequence[Any]] = content["topics"]
    return Look(
        content["recording"],
        content["at_ms"],
        {topic: found[0] for topic, found in topics.items()},
        dict(_places((topic, found[1]) for topic, found in topics.items())),
        dict(_places((topic, found[2]) for topic, found in topics.items())),
    )


def _places(ends: Iterable[tuple[str, Sequence[int]]]) -> Iterator[tuple[TopicPartition, int]]:
    for topic, numbers in ends:
        for number, end in enumerate(numbers):
            if end != NO_END:
                yield TopicPartition(topic, number), end
