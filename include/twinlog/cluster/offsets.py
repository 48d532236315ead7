"""Offsets of many partitions at once (Kafka protocol, ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import IsolationLevel
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import OffsetSpec

from twinlog.cluster.refusals import Asked
from twinlog.cluster.session import REQUEST_SECONDS, Session
from twinlog.cluster.values import Answers, PartitionOffsets, TopicPartition


def offsets(
    session: Session, partitions: Iterable[TopicPartition]
) -> Answers[TopicPartition, PartitionOffsets]:
    """Log start, stable end and end.

    The end is asked last: seen from one moment, log start <= stable end <= end holds then, whatever is
    written meanwhile.
    """
    wanted = list(dict.fromkeys(partitions))
    starts = _ask(session, wanted, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)
    stable = _ask(session, wanted, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
    ends = _ask(session, wanted, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
    refused = {**ends.refused, **stable.refused, **starts.refused}
    return Answers(
        {
            it: PartitionOffsets(starts.found[it], max(stable.found[it], starts.found[it]), ends.found[it])
            for it in wanted
            if it not in refused
        },
        refused,
    )


def offsets_at(
    session: Session, partitions: Iterable[TopicPartition], timestamp: int
) -> Answers[TopicPartition, int | None]:
    """First offset whose record is at `timestamp` (ms) or later, None when there is none."""
    spec = OffsetSpec.for_timestamp(timestamp)
    answers = _ask(session, list(dict.fromkeys(partitions)), spec, IsolationLevel.READ_UNCOMMITTED)
    return Answers(
        {it: offset if offset >= 0 else None for it, offset in answers.found.items()}, answers.refused
    )


def _ask(
    session: Session, partitions: list[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
) -> Answers[TopicPartition, int]:
    if not partitions:
        return Answers({})
    futures = session.admin.list_offsets(
        {ClientPartition(*it): spec for it in partitions},
        isolation_level=isolation,
        request_timeout=REQUEST_SECONDS,
    )
    answers = session.answers(by_partition(futures), lambda it: _asked(session, it))
    return Answers({it: info.offset for it, info in answers.found.items()}, answers.refused)


def by_partition(futures: Mapping[ClientPartition, Any]) -> dict[TopicPartition, Any]:
    """Key the client library's answers by our partitions."""
    return {TopicPartition(it.topic, it.partition): value for it, value in futures.items()}


def _asked(session: Session, it: TopicPartition) -> Asked:
    return Asked(
        session.alias,
        "list offsets of",
        f"topic {it.topic} partition {it.partition}",
        f"DESCRIBE on topic {it.topic}",
    )
