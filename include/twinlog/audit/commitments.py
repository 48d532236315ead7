"""List the commitments of a topic: those that its copy holds, or those that the source's records get.

Two people list one side each and compare the lists: neither what the rules hide nor the key leaves its side.
"""

from __future__ import annotations

from collections.abc import Iterator

from twinlog.audit.comparison.record_fields import fields_of
from twinlog.audit.preview import read_topic
from twinlog.batches.header import BatchHeader
from twinlog.batches.record import read_records
from twinlog.batches.transform.apply import NO_END, Transform
from twinlog.cluster.api import ClusterReader
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import UsageError
from twinlog.formats.ledger.audit import Unproved
from twinlog.kafka_types import TopicPartition
from twinlog.logs.partition_reader import Lost
from twinlog.transforms.commitments import HEADER, Commitment

Listed = tuple[TopicPartition, Commitment | Lost]
"""A partition of the source topic, and a commitment, or offsets of that side that cannot be read."""


def on_source(flow: FlowSettings, source: ClusterReader, topic: str) -> Iterator[Listed]:
    """Yield what the records of a source topic get, by partition and offset.  Only the source is asked.

    Raises UsageError for a topic that is not there, or to which no rule commits; FormatError (`transform-failed`) as
    the copy would; errors of the cluster.
    """
    chain = flow.chain_of(topic, flow.policy.format_remote_topic(flow.source.alias, topic))
    if not any(rule.commit_key for rule in chain.rules):
        raise UsageError(
            f"no rule commits to fields of {topic}",
            hint="add a line such as twinlog.transform.rules.NAME.commit.key = ${env:NAME}",
            topic=topic,
        )
    committed = flow.copy.read_committed
    for place, _, item in read_topic(
        flow.source, source, topic, Unproved.SOURCE_RETENTION, committed=committed
    ):
        transform = Transform(chain, place)
        if isinstance(item, Lost):
            yield place, item
            continue
        for header, data in item.batches():
            made = transform.batch(header, data, 0, NO_END)
            for batch in [data] if made is None else made:
                yield from _in_batch(BatchHeader.read(batch), batch, place)


def on_target(flow: FlowSettings, target: ClusterReader, topic: str) -> Iterator[Listed]:
    """Yield what the committed records of a source topic's copy hold, in their order.  Only the target is asked.

    Neither rules nor their keys are needed.  Raises UsageError if there is no copy; errors of the cluster.
    """
    remote = flow.policy.format_remote_topic(flow.source.alias, topic)
    for place, _, item in read_topic(flow.target, target, remote, Unproved.TARGET_RETENTION, committed=True):
        upstream = TopicPartition(topic, place.partition)
        if isinstance(item, Lost):
            yield upstream, item
            continue
        for header, data in item.batches():
            yield from _in_batch(header, data, upstream)


def _in_batch(header: BatchHeader, batch: memoryview, place: TopicPartition) -> Iterator[Listed]:
    for record in read_records(header, batch):
        for name, content in fields_of(bytes(record.rest)).headers:
            found = Commitment.parse(content or b"") if name == HEADER else None
            if found is not None and found.topic_partition == place:
                yield place, found
