"""Delete a copy and create it again, empty, under the same name and with its own settings."""

from __future__ import annotations

import time

from twinlog.cluster.api import ClusterReader
from twinlog.cluster.open import Clusters
from twinlog.cluster.values import (
    NO_SUCH_TOPIC,
    ConfigSource,
    NewTopic,
    TopicDescription,
    TopicPartition,
)
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, TransientError
from twinlog.formats.ledger.topics import Rebuild
from twinlog.lifecycle.rebuild_plan import REFUSED, shared
from twinlog.topics.discovery import DiscoveredTopic, Discovery
from twinlog.topics.other_writers import other_writers
from twinlog.topics.plan import clamped, creation_configs, excluded_configs

GONE_SECONDS = 30.0


def own_configs(target: ClusterReader, remote_topic: str) -> dict[str, str]:
    """Return the settings that were made on the copy itself; empty if the copy is gone."""
    entries = target.topic_configs([remote_topic]).found.get(remote_topic, {})
    return {
        it.name: it.value
        for it in sorted(entries.values(), key=lambda it: it.name)
        if it.source is ConfigSource.TOPIC and it.value is not None and not it.read_only
    }


def delete_copy(flow: FlowSettings, clusters: Clusters, begun: Rebuild) -> None:
    """Delete the old copy; a copy with another id is a new one, and stays.

    The new copy was created by an earlier try, or by another user. Raises TerminalError `rebuild-refused` if there are
    other writers: they may have begun after the rebuild was recorded.
    """
    found = _described(clusters.target, begun.remote_topic)
    if found is None or found.topic_id != begun.old_remote_topic_id:
        return
    writers = other_writers(flow, clusters, begun.topic, begun.remote_topic, found.topic_id)
    if writers:
        raise shared(flow, begun.topic, begun.remote_topic, writers)
    clusters.target.delete_topics([begun.remote_topic]).require()
    deadline = time.monotonic() + GONE_SECONDS
    while (seen := _described(clusters.target, begun.remote_topic)) and seen.topic_id == found.topic_id:
        if time.monotonic() > deadline:
            raise TransientError(
                f"{flow.target.alias} still shows {begun.remote_topic} {GONE_SECONDS:.0f} s after its deletion",
                hint="the next cycle goes on with the rebuild",
                code="not-gone",
                topic=begun.topic,
            )
        time.sleep(0.1)


def make_copy(
    flow: FlowSettings, clusters: Clusters, discovery: Discovery, topic: DiscoveredTopic, begun: Rebuild
) -> TopicDescription:
    """Create the copy again, empty, and describe it; it may exist already."""
    configs = dict(begun.configs)
    if not begun.old_remote_topic_id:
        entries = clusters.source.topic_configs([topic.topic]).require()[topic.topic]
        excluded, defaults = excluded_configs(flow), flow.use_defaults_from == "source"
        configs = creation_configs(entries, excluded=excluded, with_defaults=defaults)
    factor = clamped(flow.replication_factor, discovery.target_brokers)
    new = NewTopic(topic.remote_topic, topic.partition_count, flow.replication_factor, configs, factor)
    clusters.target.create_topics([new]).require()
    return clusters.target.describe_topics([topic.remote_topic]).require()[topic.remote_topic]


def require_empty(flow: FlowSettings, clusters: Clusters, created: TopicDescription, begun: Rebuild) -> None:
    """Check that the copy is still the one that was created, and is empty; call this behind the fence.

    Raises TransientError if the copy is another one, TerminalError `rebuild-refused` if it holds records.
    """
    found = _described(clusters.target, created.name)
    if found is None or found.topic_id != created.topic_id:
        raise TransientError(
            f"{created.name} on {flow.target.alias} was deleted while it was made anew",
            hint="the next cycle goes on with the rebuild",
            code="rebuild-overtaken",
            topic=begun.topic,
        )
    partitions = [TopicPartition(created.name, it.partition) for it in created.partitions]
    if any(bounds.end for bounds in clusters.target.offsets(partitions).require().values()):
        raise TerminalError(
            f"{created.name} was made again on {flow.target.alias} and holds records that are not ours",
            hint=f"find out who writes to it, delete it, and run `twinlog rebuild --topic {begun.topic}` again",
            code=REFUSED,
            topic=begun.topic,
        )


def _described(target: ClusterReader, name: str) -> TopicDescription | None:
    seen = target.describe_topics([name])
    error = seen.refused.get(name)
    if error is not None and error.code != NO_SUCH_TOPIC:
        raise error
    return seen.found.get(name)
