"""Resolve, behind the fence, the ranges that a driver copies: by progress, the ledger and the copies as of now.

Discovery reads without a fence. A topic that was paused, rebuilt or recreated since must not be copied by what was
found before. Both copy loops, batch and stream, begin here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinlog.cluster.api import Clusters
from twinlog.cluster.values import TopicDescription
from twinlog.copying.loopback import with_loopback
from twinlog.copying.mend import copies
from twinlog.copying.ownership import Ownership
from twinlog.copying.ranges import ResolvedRanges, StoppedPartition, resolve
from twinlog.formats.ledger.topics import RebuildPhase
from twinlog.kafka_types import Positions
from twinlog.protocol.brokers import Brokers
from twinlog.state.ledger import Ledger, read_behind_fence, require_own
from twinlog.topics.discovery import DiscoveredTopic
from twinlog.topics.discovery_rules import with_beginnings
from twinlog.topics.incarnations import differ
from twinlog.topics.pauses import why_paused, why_suspended
from twinlog.topics.snapshot import with_later_ends
from twinlog.topics.starts import start_of

MEANT = frozenset({"standing-by", "paused"})
"""Reasons that are a person's decision: no failure of the copy."""

UNBEGUN = ("start-unknown", "where its copy begins is not noted yet: sync_topics of the next cycle notes it")


def resolve_behind_fence(
    owned: Ownership,
    clusters: Clusters,
    topics: Sequence[DiscoveredTopic],
    ends: Positions,
    max_message_bytes: Mapping[str, int],
    *,
    follow: bool = False,
) -> ResolvedRanges:
    """Resolve the ranges of topics that may still be copied, without loopback records and without lost commit markers.

    The topics may have been read before the fence, while another driver copied on. Raises TerminalError if the clusters
    that answer are not those of the flow, and as `with_loopback` and `without_lost_markers`.
    """
    ledger = read_behind_fence(owned.flow, clusters.target)
    resolved = resolve_now(owned, clusters, topics, ends, max_message_bytes, follow=follow, ledger=ledger)
    resolved = with_loopback(owned.flow, clusters, resolved, ledger)
    return without_lost_markers(owned, clusters, resolved, topics)


def resolve_now(
    owned: Ownership,
    clusters: Clusters,
    topics: Sequence[DiscoveredTopic],
    ends: Positions,
    max_message_bytes: Mapping[str, int],
    *,
    follow: bool = False,
    ledger: Ledger | None = None,
) -> ResolvedRanges:
    """Resolve the ranges by the progress that the fence has read, and by the ledger and the copies as of now.

    `ledger` is given if it was read behind the fence already.
    """
    flow = owned.flow
    ledger = ledger or read_behind_fence(flow, clusters.target)
    # Addresses may lead elsewhere by now.
    require_own(flow, ledger, clusters.source.cluster_id(), clusters.target.cluster_id())
    found = clusters.target.describe_topics(topic.remote_topic for topic in topics).found
    copied = {it.topic for it in owned.progress}
    reasons = {
        topic.topic: why_not(ledger, topic, found.get(topic.remote_topic), flow.recovery_run)
        or (UNBEGUN if start_of(flow, topic, ledger, copied) is not None else None)
        for topic in topics
    }
    stopped = tuple(
        StoppedPartition(topic.topic, partition.partition, *reason)
        for topic in topics
        if (reason := reasons[topic.topic]) is not None and reason[0] not in MEANT
        for partition in topic.partitions
    )
    standing = with_beginnings((topic for topic in topics if reasons[topic.topic] is None), ledger)
    allowed = with_later_ends(clusters.source, standing, owned.progress)
    resolved = resolve(
        flow,
        allowed,
        owned.progress,
        ends,
        max_message_bytes,
        follow=follow,
        leader_epochs={
            epoch.topic_partition: epoch.epoch
            for epoch in ledger.leader_epochs
            if ledger.current(epoch.topic, epoch.topic_id)
        },
        chains={
            chain.topic_partition: chain
            for chain in ledger.chains
            if ledger.current(chain.topic, chain.topic_id)
        },
    )
    return ResolvedRanges(resolved.ranges, (*stopped, *resolved.stopped))


def why_not(
    ledger: Ledger, topic: DiscoveredTopic, copy: TopicDescription | None, run: str = ""
) -> tuple[str, str] | None:
    """Return code and reason why a topic may not be copied as it was found; None if it may. Pure."""
    known, rebuild = ledger.incarnations.get(topic.topic), ledger.rebuilds.get(topic.topic)
    suspended, paused = why_suspended(ledger, run), why_paused(ledger, topic.topic)
    rebuilding = rebuild is not None and rebuild.phase is RebuildPhase.DELETING
    recreated = known is not None and differ(known.topic_id, topic.topic_id)
    replaced = known is not None and copy is not None and differ(known.remote_topic_id, copy.topic_id)
    reasons = (
        (suspended, "standing-by", f"the flow is {suspended}"),
        (paused, "paused", f"{topic.topic} is {paused}"),
        (rebuilding, "rebuilding", f"{topic.remote_topic} is being rebuilt"),
        (recreated, "recreated", f"{topic.topic} was recreated: it is not the incarnation that is copied"),
        (copy is None, "copy-deleted", f"{topic.remote_topic} was deleted meanwhile"),
        (replaced, "copy-recreated", f"{topic.remote_topic} was deleted and created again"),
    )
    return next(((code, reason) for applies, code, reason in reasons if applies), None)


def without_lost_markers(
    owned: Ownership, clusters: Clusters, resolved: ResolvedRanges, topics: Sequence[DiscoveredTopic]
) -> ResolvedRanges:
    """Check that the copies agree with progress, and end our open transactions in them.

    Raises as `copies.without_lost_markers`, and FencedError if another driver has fenced since: records
    it copied look like a progress regression.
    """
    if not resolved.ranges and not any(topic.in_transaction for topic in topics):
        return resolved
    with Brokers(owned.flow.target.connection) as target:
        left = copies.without_lost_markers(owned.flow, clusters, target, resolved, topics, owned.grant)
        if len(left.stopped) > len(resolved.stopped):
            owned.require_last(target)
        return left
