"""Find progress that one of our lanes wrote in a transaction without an end in the log (lane/open_transactions.py).

The progress topic alone does not tell whether such progress counts.  The fence stops there and passes its findings to
the driver, which may find the outcome (copying/mend/state.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from twinlog.errors import TerminalError
from twinlog.formats.mm2.connect_offset import parse_offset_value
from twinlog.kafka_types import OfPartition, Positions, TopicPartition
from twinlog.lane.copy.state_records import own_key
from twinlog.lane.spec import StateTopics
from twinlog.lane.transaction import Writer
from twinlog.logs.log_state import LogState

LOST_MARKER = "lost-marker"
"""Code of the error for a transaction whose end the target lost."""

WHAT_TO_DO = 'see docs/topics.md, "A transaction without an end"'


@dataclass(frozen=True, slots=True)
class LostProgress(OfPartition):
    """Progress of a source partition that may count: its last upstream offset (None: a tombstone), producer, place."""

    topic: str
    partition: int
    last: int | None
    producer_id: int
    place: TopicPartition


class LostProgressError(TerminalError):
    """Report that the target lost the end of a transaction in the progress topic.

    `writers` are those that the fence was granted, `records` the undecided progress, `progress` the certain progress.
    """

    code = LOST_MARKER

    def __init__(
        self,
        alias: str,
        state: StateTopics,
        writers: Sequence[Writer],
        records: Sequence[LostProgress],
        progress: Positions,
    ) -> None:
        names = [f"{record.topic}-{record.partition}" for record in records]
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
    """Return the undecided records of the progress topic that a producer of `ours` wrote.  Pure."""
    found = []
    for key, it in log.undecided.items():
        own = own_key(state, key) if it.producer_id in ours else None
        if own is not None:
            last = None if it.value is None else parse_offset_value(it.value)
            place = TopicPartition(state.offsets_topic, it.partition)
            found.append(LostProgress(own.topic, own.partition, last, it.producer_id, place))
    return sorted(found, key=lambda it: it.topic_partition)
