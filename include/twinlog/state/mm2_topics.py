"""Read the topics MM2 keeps beside the data, record by record: offset-syncs and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from twinlog.cluster.admin.groups import GroupPartition
from twinlog.cluster.api import Cluster, ClusterReader, Clusters
from twinlog.cluster.values import NO_SUCH_TOPIC
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FormatError
from twinlog.formats.mm2.records import Checkpoint, OffsetSync
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.state.ledger import latest_records_or_empty

RECORDS_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class DatedCheckpoint:
    """A checkpoint, its time (ms), and its offset in the topic; -1 if the offset is not read."""

    checkpoint: Checkpoint
    at_ms: int
    offset: int = -1


def read_syncs(flow: FlowSettings, clusters: Clusters) -> Iterator[OffsetSync]:
    """Read the flow's offset-syncs, in their order, from where `offset-syncs.topic.location` puts them; none without.

    Raises the refusal of a cluster that does not let this user read them.
    """
    for record in read_in_order(*syncs_place(flow, clusters)):
        with suppress(FormatError):
            yield OffsetSync.parse(record.key or b"", record.value or b"")


def syncs_place(flow: FlowSettings, clusters: Clusters) -> tuple[Cluster, str]:
    """Return the cluster and topic of the syncs (KIP-716): the topic's name has the *other* cluster's alias."""
    on_source = flow.offset_syncs_topic_location == "source"
    host, other = (clusters.source, flow.target) if on_source else (clusters.target, flow.source)
    return host, flow.policy.offset_syncs_topic(other.alias)


def newest_checkpoints(
    flow: FlowSettings, target: ClusterReader
) -> tuple[Mapping[GroupPartition, DatedCheckpoint], int]:
    """Read the newest checkpoint of every key, and count records that are not checkpoints: MM2 skips them, too."""
    found: dict[GroupPartition, DatedCheckpoint] = {}
    unread = 0
    for key, record in latest_records_or_empty(target, flow.checkpoints_topic).items():
        try:
            it = Checkpoint.parse(key, record.value or b"")
        except FormatError:
            unread += 1
            continue
        found[GroupPartition(it.group, it.topic, it.partition)] = DatedCheckpoint(
            it, record.timestamp, record.offset
        )
    return found, unread


def read_checkpoint_history(flow: FlowSettings, target: ClusterReader) -> Iterator[DatedCheckpoint]:
    """Read the checkpoints that compaction has left, oldest first; other records are skipped."""
    for record in read_in_order(target, flow.checkpoints_topic):
        try:
            yield DatedCheckpoint(Checkpoint.parse(record.key or b"", record.value or b""), record.timestamp)
        except FormatError:
            continue


def read_in_order(cluster: ClusterReader, topic: str) -> Iterator[ReadRecord]:
    """Read every record of a topic with one partition; none if there is no such topic.

    Raises other refusals.
    """
    refused = cluster.describe_topics([topic]).refused.get(topic)
    if refused is not None:
        if refused.code == NO_SUCH_TOPIC:
            return
        raise refused
    it, start = TopicPartition(topic, 0), 0
    while found := cluster.read_records({it: start}, RECORDS_AT_ONCE)[it]:
        yield from found
        start = found[-1].offset + 1
