"""Transactions of the source that stay open: the records they hold back, their producers, and how to end them.

A consumer with read_committed stops at the last stable offset: what lies behind it is undecided, and on no target.
Most transactions end within milliseconds; only longer ones are looked up (KIP-664).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twinlog.clock import iso, seconds_since
from twinlog.cluster.admin.open_transactions import OpenTransaction
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import Answers
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.facts.partition import PartitionFacts
from twinlog.kafka_types import ReadRecord, TopicPartition

ASKED_AFTER_SECONDS = 60
"""The default transaction timeout of producers (transaction.timeout.ms)."""

Holders = Answers[TopicPartition, OpenTransaction]


@dataclass(frozen=True, slots=True)
class UndecidedPartition:
    """Records of a partition that a transaction has held back for a while: undecided, and not copied.

    `records` counts upstream offsets from `first_offset` on.  The oldest has waited for `seconds`, since `since` (ISO
    8601, UTC); None and "" if unknown.  `producer_id` is None if the source does not tell who holds the transaction.
    `transactional_id` is "" if no coordinator tells.  `message` says all of it, `hint` how to end it.
    """

    topic: str
    partition: int
    records: int
    first_offset: int
    seconds: float | None
    since: str
    producer_id: int | None
    transactional_id: str
    message: str
    hint: str


def who_holds(source: ClusterReader, first: Mapping[TopicPartition, ReadRecord], now_ms: int) -> Holders:
    """Ask which producers hold the transactions whose first record is not recent; a refusal is an answer, too."""
    asked = [
        at
        for at, record in first.items()
        if (age := seconds_since(record.timestamp if record.timestamp >= 0 else None, now_ms)) is None
        or age > ASKED_AFTER_SECONDS
    ]
    if not asked:
        return Answers({})
    try:
        return source.open_transactions(asked)
    except TwinlogError as error:
        return Answers({}, dict.fromkeys(asked, error))


def undecided_partitions(
    flow: FlowSettings, rows: Iterable[PartitionFacts], holders: Holders, now_ms: int
) -> tuple[UndecidedPartition, ...]:
    """List partitions that have been undecided for a while, the oldest first.  Pure."""
    found = [
        _undecided(flow, row, row.source_end - row.undecided_records, row.undecided_records, holders, seconds)
        for row in rows
        if isinstance(row.undecided_records, int)
        and isinstance(row.source_end, int)
        and row.undecided_records
        and ((seconds := seconds_since(row.undecided_since, now_ms)) is None or seconds > ASKED_AFTER_SECONDS)
    ]
    return tuple(
        sorted(found, key=lambda it: (it.seconds is not None, -(it.seconds or 0), it.topic, it.partition))
    )


def _undecided(
    flow: FlowSettings,
    row: PartitionFacts,
    first_offset: int,
    records: int,
    holders: Holders,
    seconds: float | None,
) -> UndecidedPartition:
    at = row.topic_partition
    holder = holders.found.get(at)
    since = iso(row.undecided_since) if row.undecided_since is not None else ""
    message = (
        f"{row.topic}-{row.partition}: {records:,} records from upstream offset {first_offset} on are"
        f" undecided, and not copied, since {since or 'an unknown time'}: a transaction is open"
        f" ({_holder(holder, holders.refused.get(at), flow.source.alias)})"
    )
    return UndecidedPartition(
        row.topic,
        row.partition,
        records,
        first_offset,
        None if seconds is None else round(seconds, 3),
        since,
        None if holder is None else holder.producer_id,
        "" if holder is None else holder.transactional_id,
        message,
        _hint(flow, at, holder),
    )


def _holder(holder: OpenTransaction | None, error: TwinlogError | None, alias: str) -> str:
    if holder is None:
        why = f": {error.message}" if error is not None else ""
        return f"{alias} does not tell whose{why}"
    named_producer = producer_of(holder)
    if not holder.transactional_id:
        return named_producer
    if not holder.ends_by_itself:
        return f"{named_producer}, whose coordinator does not hold it open: it hangs"
    started = "" if holder.started_ms is None else f", begun {iso(holder.started_ms)}"
    return f"{named_producer}{started}, time-out {(holder.timeout_ms or 0) / 1000:,.0f} s"


def producer_of(holder: OpenTransaction) -> str:
    """Name the producer of an open transaction."""
    producer = f"producer {holder.producer_id} epoch {holder.producer_epoch}"
    if not holder.transactional_id:
        return f"{producer}; no coordinator tells its transactional id"
    return f"{producer}, transactional id {holder.transactional_id}"


def _hint(flow: FlowSettings, at: TopicPartition, holder: OpenTransaction | None) -> str:
    tool = f"kafka-transactions.sh --bootstrap-server {shlex.quote(flow.source.bootstrap_servers)}"
    where = f"--topic {at.topic} --partition {at.partition}"
    if holder is None:
        return f"{tool} describe-producers {where} tells whose it is"
    if holder.ends_by_itself:
        return f"let the application of {holder.transactional_id} commit or abort it, or start it again: that aborts it"
    abort = f"abort {where} --start-offset {holder.first_offset}"
    if holder.transactional_id:
        return f"{tool} {abort} aborts it"
    return f"{tool} find-hanging {where} tells whether it hangs; if so, {abort} ends it"
