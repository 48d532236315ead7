"""Decide, behind the fence, which of the topics found before it may still be copied.

Discovery reads without a fence. A topic that was paused, rebuilt or recreated since must not be copied by what was
found before.

Resolve, behind the fence, the ranges that a driver copies: by progress, the ledger and incarnations as of now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinlog.cluster.open import Clusters
from twinlog.cluster.values import TopicDescription
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ranges import ResolvedRanges, StoppedPartition, resolve
from twinlog.formats.ledger.topics import RebuildPhase
from twinlog.kafka_types import TopicPartition
from twinlog.state.ledger import Ledger, read_ledger, require_own
from twinlog.topics.discover import with_later_ends
from twinlog.topics.discovery import DiscoveredTopic
from twinlog.topics.incarnations import differ
from twinlog.topics.pauses import why_paused, why_standing_by

MEANT = frozenset({"standing-by", "paused"})


"""Reasons that are a person's decision: no failure of the copy."""


def revalidated(
    flow: FlowSettings, clusters: Clusters, topics: Iterable[DiscoveredTopic]
) -> tuple[tuple[DiscoveredTopic, ...], tuple[StoppedPartition, ...], Ledger]:
    """Return the topics that may be copied, the partitions of the others with the reason, and the present ledger.

    Raises TerminalError if the clusters that answer are not those of the flow.
    """
    wanted = tuple(topics)
    ledger = read_ledger(flow, clusters.target)
    require_own(
        flow, ledger, clusters.source.cluster_id(), clusters.target.cluster_id()
    )  # addresses may lead elsewhere by now
    copies = clusters.target.describe_topics(it.remote_topic for it in wanted).found
    reasons = {it.topic: why_not(ledger, it, copies.get(it.remote_topic)) for it in wanted}
    stopped = tuple(
        StoppedPartition(it.topic, partition.partition, *reason)
        for it in wanted
        if (reason := reasons[it.topic]) is not None
        if reason[0] not in MEANT
        for partition in it.partitions
    )
    return tuple(it for it in wanted if reasons[it.topic] is None), stopped, ledger


def why_not(ledger: Ledger, topic: DiscoveredTopic, copy: TopicDescription | None) -> tuple[str, str] | None:
    """Return code and reason why a topic may not be copied as it was found; None if it may. Pure."""
    known, rebuild = ledger.incarnations.get(topic.topic), ledger.rebuilds.get(topic.topic)
    held, paused = why_standing_by(ledger), why_paused(ledger, topic.topic)
    reasons = (
        (bool(held), "standing-by", f"the flow is {held}"),
        (bool(paused), "paused", f"{topic.topic} is {paused}"),
        (
            rebuild is not None and rebuild.phase is RebuildPhase.DELETING,
            "rebuilding",
            f"{topic.remote_topic} is being rebuilt",
        ),
        (
            known is not None and differ(known.topic_id, topic.topic_id),
            "recreated",
            f"{topic.topic} was deleted and created again on the source",
        ),
        (copy is None, "copy-deleted", f"{topic.remote_topic} was deleted meanwhile"),
        (
            known is not None and copy is not None and differ(known.remote_topic_id, copy.topic_id),
            "copy-recreated",
            f"{topic.remote_topic} was deleted and created again",
        ),
    )
    return next(((code, reason) for applies, code, reason in reasons if applies), None)


def leader_epochs(ledger: Ledger) -> dict[TopicPartition, int]:
    """Return the leader epochs of the records copied last, for the incarnations that are copied now. Pure."""
    return {
        it.topic_partition: it.epoch for it in ledger.leader_epochs if ledger.current(it.topic, it.topic_id)
    }


def resolve_now(
    flow: FlowSettings,
    clusters: Clusters,
    topics: Iterable[DiscoveredTopic],
    progress: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    max_message_bytes: Mapping[str, int],
    *,
    follow: bool = False,
) -> ResolvedRanges:
    """Resolve the ranges of topics that may still be copied; call behind the fence that `progress` is from.

    The topics may have been read before the fence, while another driver copied on.
    """
    standing, stopped, ledger = revalidated(flow, clusters, topics)
    standing = with_later_ends(clusters.source, standing, progress)
    settled = resolve(
        flow,
        standing,
        progress,
        ends,
        max_message_bytes,
        follow=follow,
        leader_epochs=leader_epochs(ledger),
    )
    return ResolvedRanges(settled.ranges, (*stopped, *settled.stopped))
