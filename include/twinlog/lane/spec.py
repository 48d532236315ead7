"""Define the input and the result of a lane: the only values that travel to and from Spark tasks.

Upstream offsets are on the source, downstream offsets on the target.  `end` is exclusive everywhere.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum

from twinlog.config.security.connection import ConnectionSettings
from twinlog.formats.ledger.records import LaneFence
from twinlog.kafka_types import OfIncarnation, OfPartition, TopicPartition
from twinlog.transforms.chain import NO_CHAIN, Chain

DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
"""Kafka's default of max.message.bytes, for a target that does not report its own."""

NO_END = (1 << 63) - 1
"""The `end` of a range in follow mode: offsets never reach it."""


@dataclass(frozen=True, slots=True)
class FenceMark:
    """The mark of one fence: its record in the ledger has these fields, and lies at or behind `ledger_offset`."""

    run_id: str
    at_ms: int
    ledger_offset: int

    def is_of(self, fence: LaneFence) -> bool:
        """Say whether the mark belongs to this fence, not to another driver's or a later one of the same driver."""
        return (self.run_id, self.at_ms) == (fence.run_id, fence.at_ms)


@dataclass(frozen=True, slots=True)
class Follow:
    """Terms of a lane that stays, and copies at every commit tick (lane/copy/loops.py) the records that have arrived.

    After each `seconds` the lane ends if a range has an error, so that the driver can look.  Otherwise it goes on
    until the flow is fenced again (later than `fence`), for at most `longest_seconds`.
    """

    seconds: float
    longest_seconds: float
    fence: FenceMark


@dataclass(frozen=True, slots=True)
class RangeSpec(OfIncarnation):
    """Upstream offsets [start, end) of one source partition, to be copied to the same partition of `remote_topic`.

    `topic_id` is the source topic's incarnation (base64 as Kafka prints it).  `max_message_bytes` is the target
    topic's max.message.bytes.  `estimated_bytes` serves only packing and the display of progress.  `leader_epoch` is
    the source's leader epoch of the last record copied before `start`; -1 if unknown.  `remote_topic_id` is the
    incarnation of the copy to write to, "" if unknown.  `copy_end` is the end of the copy (downstream) after the
    records copied before `start`, None if unknown.  `loopback` are upstream offsets [first, end) that are copies from
    the target, by the reverse flow's map; `both_ways` says that some came home from a copy of another name.  `chain` is
    what is made of each record.  `notes_chain`: the ledger does not say yet that records from `start` on go through it.
    `rpo_seconds` is the budget of the topic's tier: the less, the sooner it is read while the lane is behind.
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
    both_ways: bool = False
    loopback: tuple[tuple[int, int], ...] = ()
    copy_end: int | None = None
    chain: Chain = NO_CHAIN
    notes_chain: bool = False
    rpo_seconds: int = 0

    @property
    def remote(self) -> TopicPartition:
        """The partition of the copy."""
        return TopicPartition(self.remote_topic, self.partition)

    @property
    def weight(self) -> int:
        """Return the amount of work: estimated bytes, or the number of offsets if there is no estimate."""
        return self.estimated_bytes or self.end - self.start


@dataclass(frozen=True, slots=True)
class StateTopics:
    """The topics to which a lane writes progress and the offset map, with their partition counts.

    `quarantine_topic` receives poisonous records, in batches of at most `quarantine_max_bytes`; it is empty under
    `fail`.  The cluster ids are those of the
    flow's clusters; "" if they were not asked for.
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

    A task never initialises the writer: it writes with `producer_id` and `producer_epoch`, and stops at any
    indeterminate outcome.  With `follow` it stays and copies records as they arrive; its ranges then have no end.
    `bytes_per_second` is its share of the throttle.  `sequences` are (topic, partition, next sequence) for the records
    that the driver itself wrote with this epoch.  `codec` is what batches are compressed with, None: what each has.
    `log_level` is the driver's, `fence_ms` the time of its fence (FenceMark).
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
    read_committed: bool = True
    quarantine_poison: bool = False
    codec: int | None = None
    transaction_bytes: int = 64 * 1024 * 1024
    transaction_ms: int = 10_000
    transaction_timeout_ms: int = 60_000
    fetch_bytes: int = 16 * 1024 * 1024
    partition_fetch_bytes: int = 4 * 1024 * 1024
    reverse_ledger: str = ""
    bytes_per_second: float | None = None
    follow: Follow | None = None
    log_level: int = logging.WARNING
    fence_ms: int = 0

    @property
    def holds_secrets(self) -> bool:
        """Say whether a password is in it."""
        return self.source.holds_secrets or self.target.holds_secrets


@dataclass(frozen=True, slots=True)
class RangeReport(OfPartition):
    """The result of one range.

    `records` and `bytes` count what was committed (bytes as on the wire, batch headers included).  `next_upstream` is
    the upstream offset at which the next copy starts.  `skipped` counts upstream offsets that hold no copyable record
    (markers, aborted, compacted away, dropped).  `error` is
    empty if the range was finished.  `latency_ms` is how old the newest record of the last transaction was when that
    was committed, None if there was none with a timestamp.
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
    latency_ms: int | None = None


class LaneOutcome(StrEnum):
    """Name how a lane ended.

    `failed`: some ranges have errors.  `fence-again`: the state of the target is indeterminate.  `fenced`: another
    driver took the lane, or its transaction timed out.  `refused`: the target will never let us write.
    """

    DONE = "done"
    FAILED = "failed"
    FENCE_AGAIN = "fence-again"
    FENCED = "fenced"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class LaneReport:
    """The report of a lane.  `error` says why it stopped as `fence-again`, `fenced` or `refused`.

    `retries` are transactions that were aborted because the target refused something.  `throttled_ms` is for how long
    brokers took or gave nothing because of quotas, by their answers.
    """

    lane: int
    state: LaneOutcome
    ranges: tuple[RangeReport, ...]
    transactions: int = 0
    cpu_seconds: float = 0.0
    error: str = ""
    retries: int = 0
    throttled_ms: int = 0
