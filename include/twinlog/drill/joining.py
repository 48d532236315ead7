"""Read with a cloned group by requests of our own, on clusters that confluent-kafka cannot log in to.

As `twinlog.drill.reading`: join the group, read the first record of each partition, commit nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from twinlog.cluster.admin.group_offsets import committed_in, fetch, refusal
from twinlog.cluster.few_records import read_few
from twinlog.errors import TwinlogError
from twinlog.grouped import grouped
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import EARLIEST, LATEST, Brokers
from twinlog.protocol.socket.connection import Connection

SESSION_SECONDS = 10
"""How long the brokers hold a consumer whose process has died for a member of its group."""


@dataclass(frozen=True, slots=True)
class First:
    """Tell what a consumer met first in a partition: a record, or the end of the log (None), after so many seconds.

    `error` says that the group's position could not be read from.
    """

    record: ReadRecord | None
    seconds: float
    error: str = ""


_DOING = "read with"


def first_records(
    brokers: Brokers, group: str, places: Collection[TopicPartition]
) -> Mapping[TopicPartition, First]:
    """Read the first record at or after the group's position in each of its partitions.

    Raises the refusal of the cluster, such as ClusterRefused without READ on the group.
    """
    began = time.monotonic()
    coordinators, failed = brokers.group_coordinators([group])
    if group in failed:
        raise refusal(brokers.settings.alias, failed[group], _DOING, group)
    coordinator = coordinators[group]
    member = _joined(coordinator, group, places, brokers.settings.alias)
    try:
        read = _read(brokers, coordinator, group, places)
        seconds = round(time.monotonic() - began, 3)
    finally:
        with suppress(TwinlogError):  # a member that is gone leaves its group when its session ends
            coordinator.call(kafka_python.LEAVE_GROUP, group_id=group, member_id=member)
    nowhere = First(None, seconds, "the group has no position in the log")
    return {at: First(read[at][0] if read[at] else None, seconds) if at in read else nowhere for at in places}


def _read(
    brokers: Brokers, coordinator: Connection, group: str, places: Collection[TopicPartition]
) -> Mapping[TopicPartition, Sequence[ReadRecord]]:
    """Read the first record at the group's position in each partition where it has one in the log."""
    ((_, error, topics),) = fetch(coordinator, [group], {group: places})
    error = error or next(
        (it.error_code for topic in topics or () for it in topic.partitions if it.error_code), 0
    )
    if error:
        raise refusal(brokers.settings.alias, error, _DOING, group)
    positions = {at: it.offset for at, it in committed_in(topics).items()}
    firsts, ends = brokers.offsets(positions, EARLIEST), brokers.offsets(positions, LATEST)
    within = {at: it for at, it in positions.items() if firsts[at] <= it <= ends[at]}
    return read_few(brokers, within, 1, read_committed=True)


def _joined(coordinator: Connection, group: str, places: Collection[TopicPartition], alias: str) -> str:
    """Join as the group's only member, and so its leader, who gives all partitions to itself; return its id."""
    names = sorted({place.topic for place in places})
    protocol = kafka_python.JOIN_GROUP.request.JoinGroupRequestProtocol
    milliseconds = SESSION_SECONDS * 1000
    joined = coordinator.call(
        kafka_python.JOIN_GROUP,
        group_id=group,
        session_timeout_ms=milliseconds,
        rebalance_timeout_ms=milliseconds,
        member_id="",
        protocol_type="consumer",
        protocols=[protocol(name="range", metadata=kafka_python.subscription(names))],
    )
    _require(joined, group, alias)
    assignment = kafka_python.SYNC_GROUP.request.SyncGroupRequestAssignment
    given = kafka_python.assignment(grouped(places))
    synced = coordinator.call(
        kafka_python.SYNC_GROUP,
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[assignment(member_id=joined.member_id, assignment=given)],
    )
    _require(synced, group, alias)
    return str(joined.member_id)


def _require(answer: Any, group: str, alias: str) -> None:
    if answer.error_code:
        raise refusal(alias, answer.error_code, _DOING, group)
