"""Progress that one of our lanes wrote in a transaction that has no end in the log (lane/hanging.py).

Whether it counts is not known from the progress topic alone; the fence stops there, and gives what it has found to the
driver, which may find it out (copying/mend/state.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from twinlog.errors import TerminalError
from twinlog.formats.mm2.connect_offset import parse_offset_value
from twinlog.lane.copy.state_records import own_key
from twinlog.lane.spec import StateTopics
from twinlog.lane.transaction import Writer
from twinlog.logs.log_state import LogState
from twinlog.protocol.brokers import TopicPartition

LOST_MARKER = "lost-marker"
"""Code of the error for a transaction whose end the target lost."""

WHAT_TO_DO = 'see docs/topics.md, "A transaction without an end"'


@dataclass(frozen=True, slots=True)
class LostProgress:
    """Progress of a source partition that may count: its last upstream offset (None: there is none), by whom, where."""

    topic: str
    partition: int
    last: int | None
    producer_id: int
    place: TopicPartition


class LostProgressError(TerminalError):
    """The target lost the end of a transaction in the progress topic.

    `writers` are those the fence was granted, `records` what is undecided, `progress` what is sure.
    """

    code = LOST_MARKER

    def __init__(
        self,
        alias: str,
        state: StateTopics,
        writers: Sequence[Writer],
        records: Sequence[LostProgress],
        progress: Mapping[tuple[str, int], int],
    ) -> None:
        names = [f"{it.topic}-{it.partition}" for it in records]
        super().__init__(
            f"cluster {alias} lost the end of a transaction: whether the last records of {', '.join(names[:5])} were"
            f" committed is not known from {state.offsets_topic}",
            hint=WHAT_TO_DO,
            partitions=names,
        )
        self.writers = tuple(writers)
        self.records = tuple(records)
        self.progress = progress


def lost_progress(log: LogState, state: StateTopics, ours: Collection[int]) -> list[LostProgress]:
    """Find what is undecided in the progress topic and was written by a producer of `ours`.  Pure."""
    found = []
    for key, it in log.undecided.items():
        own = own_key(state, key) if it.producer_id in ours else None
        if own is not None:
            last = None if it.value is None else parse_offset_value(it.value)
            place = state.offsets_topic, it.partition
            found.append(LostProgress(own.topic, own.partition, last, it.producer_id, place))
    return sorted(found, key=lambda it: (it.topic, it.partition))
