"""What a lane is asked to copy, and what it answers: the only things that travel to and from Spark tasks.

Offsets named upstream are on the source, downstream on the target.  `end` is exclusive everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from twinlog.config.security.connection import ConnectionSettings
from twinlog.formats.ledger.records import LaneFence

DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
"""Kafka's default of max.message.bytes, for a target that will not tell."""

NO_END = (1 << 63) - 1
"""The `end` of a range that is followed: offsets never get there."""


@dataclass(frozen=True, slots=True)
class FenceMark:
    """One fence: its record in the ledger, which lies at `ledger_offset` or behind, has these fields."""

    run_id: str
    at_ms: int
    ledger_offset: int

    def is_of(self, fence: LaneFence) -> bool:
        """Whether it marks this fence, and not another driver's, or a later one of the same."""
        return (self.run_id, self.at_ms) == (fence.run_id, fence.at_ms)


@dataclass(frozen=True, slots=True)
class Follow:
    """A lane stays, and copies with every beat (lane/copy/loops.py) what has arrived.

    After `seconds`, and every `seconds` again, it ends if a partition is in trouble: the driver should look.  Otherwise
    it goes on until the flow is fenced anew (later than `fence`), at most for `longest_seconds`.
    """

    seconds: float
    longest_seconds: float
    fence: FenceMark


@dataclass(frozen=True, slots=True)
class RangeSpec:
    """Upstream offsets [start, end) of one source partition, to be copied to the same partition of `remote_topic`.

    `topic_id` is the source topic's incarnation (base64 as Kafka prints it).  `max_message_bytes` is the
    target topic's max.message.bytes.  `estimated_bytes` only serves packing and progress display.  `leader_epoch` is
    the source's, of what was copied last before `start`; -1 where it is not known.  `remote_topic_id` is the life of
    the copy that this goes into, "" where it is not known; `copy_end` is where that copy ended (downstream) with what
    was copied before `start`, None where it is not known.  `echoes` are upstream offsets [first, end) that are copies
    from the target, by the map of the way back.
    """

    topic: str
    topic_id: str
    remote_topic: str
    partition: int
    start: int
    end: int
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    estimated_bytes: int = 0
    leader_epoch: int = -1
    remote_topic_id: str = ""
    echoes: tuple[tuple[int, int], ...] = ()
    copy_end: int | None = None

    @property
    def weight(self) -> int:
        """How much work it is: bytes where they are estimated, offsets where not."""
        return self.estimated_bytes or self.end - self.start


@dataclass(frozen=True, slots=True)
class StateTopics:
    """Where a lane writes progress and the offset map, with their partition counts.

    `quarantine_topic` is where poisonous records go, in batches of at most `quarantine_max_bytes`; empty under `fail`.
    The cluster ids are those of the clusters the flow is between; "" where they were not asked for.
    """

    offsets_topic: str
    offsets_partitions: int
    map_topic: str
    map_partitions: int
    ledger_topic: str
    connector_name: str
    source_alias: str
    quarantine_topic: str = ""
    quarantine_max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    source_cluster_id: str = ""
    target_cluster_id: str = ""


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """One transactional writer: its identity, as the driver's fence granted it, and its ranges.

    A task never initialises it: it writes with `producer_id` and `producer_epoch` and stops on any doubt.  With
    `follow` it stays and copies what arrives, and its ranges have no end.  `bytes_per_second` is its share of the
    throttle.  `sequences` are (topic, partition, next sequence) of what the driver itself wrote with this epoch.
    """

    flow: str
    lane: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    source: ConnectionSettings
    target: ConnectionSettings
    state: StateTopics
    ranges: tuple[RangeSpec, ...]
    sequences: tuple[tuple[str, int, int], ...] = ()
    exactly_once: bool = True
    read_committed: bool = True
    quarantine_poison: bool = False
    transaction_bytes: int = 64 * 1024 * 1024
    transaction_ms: int = 10_000
    fetch_bytes: int = 16 * 1024 * 1024
    partition_fetch_bytes: int = 4 * 1024 * 1024
    way_back_ledger: str = ""
    bytes_per_second: float | None = None
    follow: Follow | None = None


@dataclass(frozen=True, slots=True)
class RangeReport:
    """What became of one range.

    `records` and `bytes` are what was committed (bytes as on the wire, batch headers included).
    `next_upstream` is where the next copy starts.  `skipped` counts upstream offsets that hold no copyable record
    (markers, aborted, compacted away).  `error` is empty when the range was finished.
    """

    topic: str
    remote_topic: str
    partition: int
    records: int
    bytes: int
    next_upstream: int
    skipped: int = 0
    rewritten_batches: int = 0
    quarantined: tuple[int, ...] = ()
    error_code: str = ""
    error: str = ""


class LaneOutcome(StrEnum):
    """How a lane ended.

    `failed`: some ranges have errors.  `fence-again`: it is in doubt what the target has.  `fenced`: somebody took the
    lane, or its transaction timed out.  `refused`: the target will never let us write.
    """

    DONE = "done"
    FAILED = "failed"
    FENCE_AGAIN = "fence-again"
    FENCED = "fenced"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class LaneReport:
    """A lane's answer.  `error` says why it was in doubt, fenced or refused."""

    lane: int
    state: LaneOutcome
    ranges: tuple[RangeReport, ...]
    transactions: int = 0
    cpu_seconds: float = 0.0
    error: str = ""
