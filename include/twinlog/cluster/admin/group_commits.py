"""Commit offsets for groups without members; each position is compared right before it is replaced.

This uses our own connections, as reading does (twinlog.cluster.admin.group_offsets).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from twinlog.cluster.admin.group import OFFSET_MOVED, CommittedOffset, GroupPartition, OffsetChange
from twinlog.cluster.admin.group_offsets import GONE, by_coordinator, committed_in, fetch, refusal
from twinlog.cluster.values import Answers, TopicPartition
from twinlog.errors import TransientError, TwinlogError
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.error_codes import COORDINATOR_MOVED, Code
from twinlog.protocol.socket.connection import Connection

GROUPS_AT_ONCE = 20
POSITIONS_AT_ONCE = 500
"""Groups, and their positions, that are compared and then committed without waiting in between.

Kafka takes one group a request. With a round trip each, 5,000 groups would wait for 10,000 of them. A larger number
would leave more time between reading a position and replacing it.
"""


def alter_offsets(
    brokers: Brokers, changes: Mapping[str, Mapping[TopicPartition, OffsetChange]]
) -> Answers[GroupPartition, None]:
    """Commit positions for groups without members, each group read again right before it is written.

    A change is refused with `offset-moved` if the position is no longer the expected one, or if an open transaction is
    about to replace it. It is refused with `group-active` if the group has members; the broker says so, in the write
    itself. Between our read and our write a consumer may still join, commit and leave: Kafka has no compare-and-set,
    and the time between is some milliseconds.
    """
    alias = brokers.settings.alias
    found: dict[GroupPartition, None] = {}
    refused: dict[GroupPartition, TwinlogError] = {}

    def write(connection: Connection, names: Sequence[str]) -> dict[str, int]:
        failed: dict[str, int] = {}
        for part in _portions(names, changes):
            writable: dict[str, Mapping[TopicPartition, OffsetChange]] = {}
            for name, error, topics in fetch(connection, part, changes):
                if error and error not in GONE:
                    failed[name] = error
                    continue
                moved = _moved(alias, name, changes[name], committed_in(topics), _unstable(topics))
                refused.update(moved)
                writable[name] = {
                    it: v for it, v in changes[name].items() if GroupPartition(name, *it) not in moved
                }
            for key, code in _commit(connection, {name: it for name, it in writable.items() if it}):
                if code in COORDINATOR_MOVED:
                    failed[key.group] = code
                elif code:
                    refused[key] = refusal(alias, code, "commit offsets of", key.group)
                else:
                    found[key] = None
        return failed

    unreached = by_coordinator(brokers, changes, "commit offsets of", write)
    for name, error in unreached.items():
        refused |= {GroupPartition(name, *it): error for it in changes[name]}
    return Answers({it: None for it in found if it not in refused}, refused)


def _moved(
    alias: str,
    group: str,
    changes: Mapping[TopicPartition, OffsetChange],
    standing: Mapping[TopicPartition, CommittedOffset],
    unstable: Collection[TopicPartition],
) -> dict[GroupPartition, TwinlogError]:
    """Return the changes whose partition no longer has the expected position, or is about to lose it."""
    now = {it: standing[it].offset if it in standing else None for it in changes}
    moving = "a transaction is about to commit another"
    return {
        GroupPartition(group, *it): _has_moved(
            alias, group, it, change, moving if it in unstable else f"now has {now[it]}"
        )
        for it, change in changes.items()
        if it in unstable or now[it] != change.expected
    }


def _portions(
    names: Sequence[str], changes: Mapping[str, Mapping[TopicPartition, OffsetChange]]
) -> Iterator[Sequence[str]]:
    """Cut groups into portions to be compared and committed at once."""
    portion: list[str] = []
    positions = 0
    for name in names:
        size = len(changes[name])
        if portion and (len(portion) == GROUPS_AT_ONCE or positions + size > POSITIONS_AT_ONCE):
            yield portion
            portion, positions = [], 0
        portion.append(name)
        positions += size
    if portion:
        yield portion


def _commit(
    connection: Connection, changes: Mapping[str, Mapping[TopicPartition, OffsetChange]]
) -> Iterator[tuple[GroupPartition, int]]:
    """Commit as a simple consumer does: generation -1, no member; the broker refuses if the group has members."""
    requests = [_commit_request(group, offsets) for group, offsets in changes.items()]
    answers = connection.call_each(kafka_python.OFFSET_COMMIT, requests)
    for group, answer in zip(changes, answers, strict=True):
        for topic in answer.topics:
            for it in topic.partitions:
                yield GroupPartition(group, topic.name, it.partition_index), it.error_code


def _commit_request(group: str, changes: Mapping[TopicPartition, OffsetChange]) -> dict[str, Any]:
    request = kafka_python.OFFSET_COMMIT.request
    topics: dict[str, list[Any]] = {}
    for it, change in changes.items():
        entry = request.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
            partition_index=it.partition,
            committed_offset=change.offset,
            committed_leader_epoch=-1,
            committed_metadata=change.metadata,
        )
        topics.setdefault(it.topic, []).append(entry)
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "retention_time_ms": -1,
        "topics": [request.OffsetCommitRequestTopic(name=name, partitions=it) for name, it in topics.items()],
    }


def _has_moved(alias: str, group: str, it: TopicPartition, change: OffsetChange, now: str) -> TransientError:
    was = "no position" if change.expected is None else f"position {change.expected}"
    return TransientError(
        f"group {group} had {was} in {it.topic}-{it.partition} on {alias}, and {now}",
        hint="somebody else commits for it; the next cycle looks again",
        code=OFFSET_MOVED,
        group=group,
        topic=it.topic,
        partition=it.partition,
    )


def _unstable(topics: Any) -> frozenset[TopicPartition]:
    """Return the partitions whose position a transaction is about to replace."""
    return frozenset(
        TopicPartition(topic.name, it.partition_index)
        for topic in topics or ()
        for it in topic.partitions
        if it.error_code == Code.UNSTABLE_OFFSET_COMMIT
    )
