"""Read committed offsets of groups from their coordinators, and delete groups there.

This uses our own connections with kafka-python's schemas: confluent-kafka's list_consumer_group_offsets has been seen
to garble metadata.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from twinlog.cluster.admin.group import GROUP_ACTIVE, CommittedOffset
from twinlog.cluster.values import Answers, TopicPartition
from twinlog.errors import ClusterRefused, TerminalError, TransientError, TwinlogError
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.error_codes import AUTHORIZATION, COORDINATOR_MOVED, Code, error_for
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
    partitions: dict[str, list[int]] = {}
    for it in places:
        partitions.setdefault(it.topic, []).append(it.partition)
    return [topic(name=name, partition_indexes=numbers) for name, numbers in partitions.items()]


def committed_in(topics: Any) -> Mapping[TopicPartition, CommittedOffset]:
    """Read the positions from an answer."""
    return {
        TopicPartition(topic.name, it.partition_index): CommittedOffset(
            it.committed_offset, it.metadata or "", it.committed_leader_epoch
        )
        for topic in topics or ()
        for it in topic.partitions
        if it.committed_offset > NO_OFFSET and not it.error_code
    }


def delete_groups(brokers: Brokers, groups: Iterable[str]) -> Answers[str, None]:
    """Delete groups without members, with their offsets; one that does not exist is a success."""
    found: dict[str, None] = {}

    def delete(connection: Connection, names: Sequence[str]) -> dict[str, int]:
        answer = connection.call(kafka_python.DELETE_GROUPS, groups_names=list(names))
        failed = {
            it.group_id: it.error_code for it in answer.results if it.error_code and it.error_code not in GONE
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
        found, failed = brokers.group_coordinators(wanted)
        by_connection: dict[int, tuple[Connection, list[str]]] = {}
        for name, connection in found.items():
            by_connection.setdefault(id(connection), (connection, []))[1].append(name)
        for connection, names in by_connection.values():
            failed |= work(connection, names)
        wanted = [name for name, code in failed.items() if code in COORDINATOR_MOVED]
        if not wanted or time.monotonic() > deadline:
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
