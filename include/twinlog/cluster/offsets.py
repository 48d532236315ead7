"""Read offsets of many partitions at once (Kafka protocol, ListOffsets)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import IsolationLevel
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from twinlog.cluster.session import REQUEST_SECONDS, Asked, Session
from twinlog.cluster.values import Answers, PartitionOffsets
from twinlog.errors import TwinlogError
from twinlog.kafka_types import TopicPartition
from twinlog.protocol.errors import LEADER_MOVED

ASKED_AT_ONCE = 1_000
"""Partitions in one request: librdkafka compares each with every other (ten thousand took it half a second)."""

SETTLE_SECONDS = 10.0
SETTLE_POLL_SECONDS = 0.2


def offsets(
    session: Session, partitions: Iterable[TopicPartition]
) -> Answers[TopicPartition, PartitionOffsets]:
    """Return log start, stable end and end.

    The end is asked last. So log start <= stable end <= end holds, even if records are written meanwhile.
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
    """Return the first offset whose record is at `timestamp` (ms) or later, None if there is none."""
    spec = OffsetSpec.for_timestamp(timestamp)
    answers = _ask(session, list(dict.fromkeys(partitions)), spec, IsolationLevel.READ_UNCOMMITTED)
    return Answers(
        {it: offset if offset >= 0 else None for it, offset in answers.found.items()}, answers.refused
    )


def _ask(
    session: Session, partitions: list[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
) -> Answers[TopicPartition, int]:
    """Ask, and ask again for partitions whose leader is changing, as right after a topic's creation."""
    found: dict[TopicPartition, int] = {}
    refused: dict[TopicPartition, TwinlogError] = {}
    deadline = time.monotonic() + SETTLE_SECONDS
    while partitions:
        answers = _ask_once(session, partitions, spec, isolation)
        found |= answers.found
        refused = {it: error for it, error in refused.items() if it not in found} | dict(answers.refused)
        partitions = [
            it for it, error in answers.refused.items() if error.data.get("kafka_code") in LEADER_MOVED
        ]
        if partitions and time.monotonic() > deadline:
            break
        if partitions:
            time.sleep(SETTLE_POLL_SECONDS)
    return Answers(found, refused)


def _ask_once(
    session: Session, partitions: list[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
) -> Answers[TopicPartition, int]:
    def send(admin: AdminClient) -> dict[TopicPartition, Any]:
        futures: dict[TopicPartition, Any] = {}
        for first in range(0, len(partitions), ASKED_AT_ONCE):
            asked = {
                ClientPartition(*partition): spec for partition in partitions[first : first + ASKED_AT_ONCE]
            }
            futures |= by_partition(
                admin.list_offsets(asked, isolation_level=isolation, request_timeout=REQUEST_SECONDS)
            )
        return futures

    answers = session.answers(send, lambda it: _asked(session, it))
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
