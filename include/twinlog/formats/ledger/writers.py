"""Define the ledger records about the writers of a flow.

Define the ledger record of what a copy did to each of many partitions (twinlog.formats.ledger.records).

Define the ledger records about a copy's content from before the flow was migrated from MirrorMaker 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.kafka_types import OfPartition


@dataclass(frozen=True, slots=True)
class LaneWriter(LedgerEntry):
    """The flow's lane `transactional_id` wrote the batches of `producer_id` on the target, since `since_ms`.

    Never forgotten: a cluster gives out a producer id only once, and compaction keeps it in the header of a batch.
    """

    KIND: ClassVar[str] = "lane-writer"
    IDENTITY: ClassVar[tuple[str, ...]] = ("producer_id",)
    producer_id: int
    transactional_id: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class CopyOutcome(LedgerEntry):
    """The result of the copy of `run_id`; only the newest is kept, and only of a flow with many partitions.

    By topic and partition (as text): `copied` holds the number of records of partitions that got some, `errors` the
    reason of those that stopped.  `stopped` are the partitions that could not even be begun, as in the copy's result.
    """

    KIND: ClassVar[str] = "copy-outcome"
    run_id: str
    copied: Mapping[str, Mapping[str, int]]
    errors: Mapping[str, Mapping[str, str]]
    stopped: tuple[Mapping[str, Any], ...]
    at_ms: int


@dataclass(frozen=True, slots=True)
class TakenOver(LedgerEntry):
    """The part of a copy that is MirrorMaker 2's, in downstream offsets, if the copy keeps its topic's name.

    Records at [`compared`, `end`) were compared, and each is the source's.  Records at [`first`, `compared`) were not:
    they may be MirrorMaker 2's copies or the target's own.  `remote_topic_id` is the incarnation of the copy.
    """

    KIND: ClassVar[str] = "taken-over"
    IDENTITY: ClassVar[tuple[str, ...]] = ("topic", "remote_topic_id", "partition", "first")
    topic: str
    remote_topic_id: str
    partition: int
    first: int
    compared: int
    end: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class MapHole(OfPartition, LedgerEntry):
    """Upstream offsets [`start`, `end`) that the offset map leaves out on purpose: MirrorMaker 2 copied there."""

    KIND: ClassVar[str] = "map-hole"
    IDENTITY: ClassVar[tuple[str, ...]] = ("topic", "topic_id", "partition", "start")
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    at_ms: int
