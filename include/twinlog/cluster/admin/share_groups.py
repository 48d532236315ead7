"""Read and set where share groups start (KIP-932), at their coordinators, by requests that neither library has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from twinlog.cluster.admin.group_offsets import (
    GONE,
    Changes,
    by_coordinator,
    replace_positions,
)
from twinlog.cluster.admin.groups import GroupPartition, ShareStart
from twinlog.cluster.values import Answers
from twinlog.grouped import grouped
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import Code
from twinlog.protocol.socket.connection import Connection

Starts = Mapping[TopicPartition, ShareStart]


def share_starts(brokers: Brokers, groups: Iterable[str]) -> Answers[str, Starts]:
    """Read the start offsets of many share groups; a group that does not exist has none.

    A group with a partition that is not told is refused; all groups are by brokers without share groups.
    """
    found: dict[str, Starts] = {}

    def read(connection: Connection, names: Sequence[str]) -> dict[str, int]:
        failed: dict[str, int] = {}
        for name, error, starts, _ in _read(connection, names):
            if error:
                failed[name] = error
            else:
                found[name] = starts
        return failed

    return Answers(found, by_coordinator(brokers, groups, "read the start offsets of", read))


def alter_share_starts(brokers: Brokers, changes: Changes) -> Answers[GroupPartition, None]:
    """Set start offsets of share groups without members, as `alter_offsets` commits offsets.

    A group that does not exist is created.  What was acknowledged behind a start offset is forgotten.
    """
    return replace_positions(brokers, changes, "set the start offsets of", _read, _set)


def _read(connection: Connection, names: Sequence[str]) -> Iterator[tuple[str, int, Starts, tuple[()]]]:
    """Yield each group, the error code of what is not told of it, and its start offsets.

    A broker that could not set them is not asked for them either.
    """
    api, setting = kafka_python.DESCRIBE_SHARE_OFFSETS, kafka_python.ALTER_SHARE_OFFSETS
    if min(connection.offers(api.request.API_KEY), connection.offers(setting.request.API_KEY)) < 0:
        yield from ((name, Code.UNSUPPORTED_VERSION, {}, ()) for name in names)
        return
    group = api.request.DescribeShareGroupOffsetsRequestGroup
    wanted = [group(group_id=name, topics=None) for name in names]
    for answer in connection.call(api, groups=wanted).groups:
        partitions = {
            TopicPartition(topic.topic_name, it.partition_index): it
            for topic in answer.topics
            for it in topic.partitions
        }
        codes = {answer.error_code, *(it.error_code for it in partitions.values())} - GONE - {0}
        starts = {at: ShareStart(it.start_offset, lag=it.lag) for at, it in partitions.items()}
        yield answer.group_id, next(iter(codes), 0), starts, ()


def _set(connection: Connection, changes: Changes) -> Iterator[tuple[GroupPartition, int]]:
    """Set start offsets; yield the error code of each."""
    api = kafka_python.ALTER_SHARE_OFFSETS
    topic = api.request.AlterShareGroupOffsetsRequestTopic
    entry = topic.AlterShareGroupOffsetsRequestPartition
    for name, due in changes.items():
        topics = grouped(
            (it.topic, entry(partition_index=it.partition, start_offset=change.offset))
            for it, change in due.items()
        )
        answer = connection.call(
            api, group_id=name, topics=[topic(topic_name=at, partitions=its) for at, its in topics.items()]
        )
        if answer.error_code:
            yield from ((GroupPartition(name, *it), answer.error_code) for it in due)
        for answered in answer.responses:
            for it in answered.partitions:
                yield GroupPartition(name, answered.topic_name, it.partition_index), it.error_code
