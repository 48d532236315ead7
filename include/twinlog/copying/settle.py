"""Resolve, behind the fence, the ranges that a driver copies: by progress, the ledger and incarnations as of now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinlog.cluster.open import Clusters
from twinlog.cluster.values import TopicPartition
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ranges import ResolvedRanges, resolve
from twinlog.copying.revalidate import leader_epochs, revalidated
from twinlog.topics.discover import with_later_ends
from twinlog.topics.discovery import DiscoveredTopic


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
