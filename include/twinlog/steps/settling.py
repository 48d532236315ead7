"""What a driver copies, settled behind its fence: progress, the ledger and the topics' lives as they are by now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinlog.cluster.clusters import Clusters
from twinlog.cluster.values import TopicPartition
from twinlog.config.settings import FlowSettings
from twinlog.steps.discover import with_later_ends
from twinlog.steps.discovery import DiscoveredTopic
from twinlog.steps.plan_ranges import Settled, settle
from twinlog.steps.standing import leader_epochs, still_standing


def settle_now(
    flow: FlowSettings,
    clusters: Clusters,
    topics: Iterable[DiscoveredTopic],
    progress: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    max_message_bytes: Mapping[str, int],
    *,
    follow: bool = False,
) -> Settled:
    """Settle the ranges of those topics that may still be copied; call behind the fence that `progress` is from.

    The topics may have been seen before it, while another driver copied on.
    """
    standing, stopped, ledger = still_standing(flow, clusters, topics)
    standing = with_later_ends(clusters.source, standing, progress)
    settled = settle(
        flow,
        standing,
        progress,
        ends,
        max_message_bytes,
        follow=follow,
        leader_epochs=leader_epochs(ledger),
    )
    return Settled(settled.ranges, (*stopped, *settled.stopped))
