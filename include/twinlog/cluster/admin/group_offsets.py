"""Read and commit offsets of groups at their coordinators, and delete groups there.

Each position is compared right before it is replaced.  This uses our own connections with kafka-python's schemas:
confluent-kafka's list_consumer_group_offsets has been seen to garble metadata.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from twinlog.cluster.admin.groups import (
    GROUP_ACTIVE,
    OFFSET_MOVED,
    CommittedOffset,
    GroupPartition,
    OffsetChange,
)
from twinlog.cluster.portions import requests
from twinlog.cluster.values import Answers
from twinlog.errors import ClusterRefused, ClusterUnreachable, TerminalError, TransientError, TwinlogError
from twinlog.grouped import grouped
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import AUTHORIZATION, COORDINATOR_MOVED, Code, error_for
from twinlog.protocol.socket.connection import Connection

GROUPS_PER_REQUEST = 500
"""Groups whose offsets are read in one request (KIP-709)."""

NO_OFFSET = -1
PATIENCE_SECONDS = 20.0
PAUSE_SECONDS = 0.1
_MEMBERS_IN_IT = frozenset({
    Code.UNKNOWN_MEMBER_ID,
    Code.ILLEGAL_GENERATION,
    Code.REBALANCE_IN_PROGRESS,
    Code.STALE_MEMBER_EPOCH,
    Code.FENCED_MEMBER_EPOCH,
    Code.NON_EMPTY_GROUP,
})

GONE = frozenset({Code.GROUP_ID_NOT_FOUND})


def committed_offsets(
    brokers: Brokers, groups: Iterable[str]
) -> Answers[str, Mapping[TopicPartition, CommittedOffset]]:
    """Read all committed offsets of many groups; a group that does not exist has none.

    Offsets of open transactions are not included; those committed before them are.
    """
    found: dict[str, Mapping[TopicPartition, CommittedOffset]] = {}

    def read(connection: Connection, names: Sequence[str]) -> dict[str, int]:
        failed: dict[str, int] = {}
        for start in range(0, len(names), GROUPS_PER_REQUEST):
            for name, error, topics in fetch(connection, names[start : start + GROUPS_PER_REQUEST]):
                if error and error not in GONE:
                    failed[name] = error
                else:
                    found[name] = committed_in(topics)
        return failed

    return Answers(found, by_coordinator(brokers, groups, "read the offsets of", read))


def fetch(
    connection: Connection,
    names: Sequence[str],
    places: Mapping[str, Iterable[TopicPartition]] | None = None,
) -> list[tuple[str, int, Any]]:
    """Ask for the offsets of groups: (group, error code, topics). Before version 8 this is one request for each group.

    Without `places`, all offsets of the groups are read as they are committed. With `places`, only those partitions of
    each group are read, with an error if a transaction is about to replace one. A partition without a position is in
    the answer only if it is asked for by name.
    """
    request, stable = kafka_python.OFFSET_FETCH.request, places is not None
    if connection.version_of(kafka_python.OFFSET_FETCH) < 8:
        topic = request.OffsetFetchRequestTopic
        answers = [
            connection.call(
                kafka_python.OFFSET_FETCH,
                group_id=name,
                topics=_asked(topic, places[name]) if places is not None else None,
                require_stable=stable,
            )
            for name in names
        ]
        return [(name, it.error_code, it.topics) for name, it in zip(names, answers, strict=True)]
    group = request.OffsetFetchRequestGroup
    topic = group.OffsetFetchRequestTopics
    wanted = [
        group(group_id=name, topics=_asked(topic, places[name]) if places is not None else None)
        for name in names
    ]
    answer = connection.call(kafka_python.OFFSET_FETCH, groups=wanted, require_stable=stable)
    return [(it.group_id, it.error_code, it.topics) for it in answer.groups]


def _asked(topic: Callable[..., Any], places: Iterable[TopicPartition]) -> list[Any]:
    return [topic(name=name, partition_indexes=numbers) for name, numbers in grouped(places).items()]


def committed_in(topics: Any) -> Mapping[TopicPartition, CommittedOffset]:
    """Read the positions from an answer."""
    return {
        TopicPartition(topic.name, partition.partition_index): CommittedOffset(
            partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
        )
        for topic in topics or ()
        for partition in topic.partitions
        if partition.committed_offset > NO_OFFSET and not partition.error_code
    }


def delete_groups(brokers: Brokers, groups: Iterable[str]) -> Answers[str, None]:
    """Delete groups without members, with their offsets; one that does not exist is a success."""
    found: dict[str, None] = {}

    def delete(connection: Connection, names: Sequence[str]) -> dict[str, int]:
        answer = connection.call(kafka_python.DELETE_GROUPS, groups_names=list(names))
        failed = {
            result.group_id: result.error_code
            for result in answer.results
            if result.error_code and result.error_code not in GONE
        }
        found.update({name: None for name in names if name not in failed})
        return failed

    return Answers(found, by_coordinator(brokers, groups, "delete", delete))


def by_coordinator(
    brokers: Brokers,
    groups: Iterable[str],
    doing: str,
    work: Callable[[Connection, Sequence[str]], Mapping[str, int]],
) -> dict[str, TwinlogError]:
    """Do `work` on the groups of each coordinator; return the refusals.

    `work` returns error codes by group. If a group's coordinator has moved, the group is tried again for a while. That
    happens while a young cluster creates its topic of offsets.
    """
    alias = brokers.settings.alias
    wanted = [name for name in dict.fromkeys(groups) if name]
    refused: dict[str, TwinlogError] = {}
    if "" in groups:
        refused[""] = TerminalError("a group without a name has no offsets", code="invalid-group")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while wanted:
        late = time.monotonic() > deadline
        found, failed = brokers.group_coordinators(wanted)
        by_connection: dict[int, tuple[Connection, list[str]]] = {}
        for name, connection in found.items():
            by_connection.setdefault(id(connection), (connection, []))[1].append(name)
        for connection, names in by_connection.values():
            try:
                failed |= work(connection, names)
            except ClusterUnreachable:  # groups of others are not held up by it
                brokers.drop(connection)
                failed |= dict.fromkeys(names, Code.COORDINATOR_NOT_AVAILABLE)
        wanted = [name for name, code in failed.items() if code in COORDINATOR_MOVED]
        if not wanted or late:  # a frozen coordinator may take all the time of the first try
            refused |= {name: refusal(alias, code, doing, name) for name, code in failed.items()}
            break
        refused |= {
            name: refusal(alias, code, doing, name)
            for name, code in failed.items()
            if code not in COORDINATOR_MOVED
        }
        time.sleep(PAUSE_SECONDS)
    return refused


def refusal(alias: str, code: int, doing: str, group: str) -> TwinlogError:
    """Make the error for a code that a coordinator answered."""
    data: dict[str, Any] = {"cluster": alias, "group": group, "kafka_code": int(code)}
    if code in _MEMBERS_IN_IT:
        return ClusterRefused(
            f"group {group} has members on {alias}",
            hint="stop its consumers there",
            code=GROUP_ACTIVE,
            **data,
        )
    if code in AUTHORIZATION:
        return ClusterRefused(
            f"{alias} does not allow this user to {doing} group {group}",
            hint=f"grant READ and DESCRIBE on group {group}, and READ on its topics",
            code="unauthorised",
            **data,
        )
    if code == Code.OFFSET_METADATA_TOO_LARGE:
        return ClusterRefused(
            f"{alias} takes no metadata this long with an offset of group {group}",
            hint="raise offset.metadata.max.bytes on its brokers",
            code="metadata-too-large",
            **data,
        )
    if code in COORDINATOR_MOVED:
        return TransientError(
            f"group {group} has no coordinator on {alias} just now", code="unsettled", **data
        )
    return error_for(code, f"{doing} group {group}", alias)


GROUPS_AT_ONCE = 20

POSITIONS_AT_ONCE = 500
"""Groups, and their positions, that are compared and then committed without waiting in between.

Kafka takes one group a request. With a round trip each, 5,000 groups would wait for 10,000 of them. A larger number
would leave more time between reading a position and replacing it.
"""


Changes = Mapping[str, Mapping[TopicPartition, OffsetChange]]


def alter_offsets(brokers: Brokers, changes: Changes) -> Answers[GroupPartition, None]:
    """Commit positions for groups without members, each group read again right before it is written.

    A change is refused with `offset-moved` if the position is neither the expected one nor the new one (an answer may
    have been lost), or if an open transaction is about to replace it. It is refused with `group-active` if the group
    has members; the broker says so, in the write itself. Between our read and our write a consumer may still join,
    commit and leave: Kafka has no compare-and-set, and the time between is some milliseconds.
    """

    def read(connection: Connection, names: Sequence[str]) -> Iterator[Standing]:
        for name, error, topics in fetch(connection, names, changes):
            yield name, error if error not in GONE else 0, committed_in(topics), _unstable(topics)

    return replace_positions(brokers, changes, "commit offsets of", read, _commit)


Standing = tuple[str, int, Mapping[TopicPartition, CommittedOffset], Collection[TopicPartition]]
"""A group, an error code, its positions, and the partitions whose position a transaction is about to replace."""


def replace_positions(
    brokers: Brokers,
    changes: Changes,
    doing: str,
    read: Callable[[Connection, Sequence[str]], Iterable[Standing]],
    commit: Callable[[Connection, Changes], Iterable[tuple[GroupPartition, int]]],
) -> Answers[GroupPartition, None]:
    """Compare the positions of groups by `read`, and replace those by `commit` that are the expected ones."""
    alias = brokers.settings.alias
    found: dict[GroupPartition, None] = {}
    refused: dict[GroupPartition, TwinlogError] = {}

    def write(connection: Connection, names: Sequence[str]) -> dict[str, int]:
        failed: dict[str, int] = {}
        portions = requests(
            names, lambda name: len(changes[name]), most=POSITIONS_AT_ONCE, items=GROUPS_AT_ONCE
        )
        for part in portions:
            writable: dict[str, Mapping[TopicPartition, OffsetChange]] = {}
            for name, error, standing, unstable in read(connection, part):
                if error:
                    failed[name] = error
                    continue
                moved = _moved(alias, name, changes[name], standing, unstable)
                refused.update(moved)
                writable[name] = {
                    it: v for it, v in changes[name].items() if GroupPartition(name, *it) not in moved
                }
            for key, code in commit(connection, {name: it for name, it in writable.items() if it}):
                if code in COORDINATOR_MOVED:
                    failed[key.group] = code
                elif code:
                    refused[key] = refusal(alias, code, doing, key.group)
                else:
                    found[key] = None
        return failed

    unreached = by_coordinator(brokers, changes, doing, write)
    for name, error in unreached.items():
        refused |= {GroupPartition(name, *change): error for change in changes[name]}
    return Answers({it: None for it in found if it not in refused}, refused)


def _moved(
    alias: str,
    group: str,
    changes: Mapping[TopicPartition, OffsetChange],
    standing: Mapping[TopicPartition, CommittedOffset],
    unstable: Collection[TopicPartition],
) -> dict[GroupPartition, TwinlogError]:
    """Return the changes whose partition no longer has the expected position, or is about to lose it."""
    now = {it: at.offset for it, at in standing.items() if at.known}
    moving = "a transaction is about to commit another"
    return {
        GroupPartition(group, *it): TransientError(
            f"group {group} had {'no position' if change.expected is None else f'position {change.expected}'} in"
            f" {it.topic}-{it.partition} on {alias}, and {moving if it in unstable else f'now has {now.get(it)}'}",
            hint="somebody else commits for it; the next cycle looks again",
            code=OFFSET_MOVED,
            group=group,
            topic=it.topic,
            partition=it.partition,
        )
        for it, change in changes.items()
        if it in unstable or now.get(it) not in {change.expected, change.offset}
    }


def _commit(connection: Connection, changes: Changes) -> Iterator[tuple[GroupPartition, int]]:
    """Commit as a simple consumer does: generation -1, no member; the broker refuses if the group has members."""
    requests = [_commit_request(group, offsets) for group, offsets in changes.items()]
    answers = connection.call_each(kafka_python.OFFSET_COMMIT, requests)
    for group, answer in zip(changes, answers, strict=True):
        for topic in answer.topics:
            for partition in topic.partitions:
                yield GroupPartition(group, topic.name, partition.partition_index), partition.error_code


def _commit_request(group: str, changes: Mapping[TopicPartition, OffsetChange]) -> dict[str, Any]:
    request = kafka_python.OFFSET_COMMIT.request
    entry = request.OffsetCommitRequestTopic.OffsetCommitRequestPartition
    topics = grouped(
        (
            it.topic,
            entry(
                partition_index=it.partition,
                committed_offset=change.offset,
                committed_leader_epoch=-1,
                committed_metadata=change.metadata,
            ),
        )
        for it, change in changes.items()
    )
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "retention_time_ms": -1,
        "topics": [request.OffsetCommitRequestTopic(name=name, partitions=it) for name, it in topics.items()],
    }


def _unstable(topics: Any) -> frozenset[TopicPartition]:
    """Return the partitions whose position a transaction is about to replace."""
    return frozenset(
        TopicPartition(topic.name, partition.partition_index)
        for topic in topics or ()
        for partition in topic.partitions
        if partition.error_code == Code.UNSTABLE_OFFSET_COMMIT
    )
