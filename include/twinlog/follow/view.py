"""Prepare what a lane generation needs to know of the clusters, and say whether that has changed since."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ranges import choose, max_bytes
from twinlog.lifecycle import sync_topics
from twinlog.topics import discover
from twinlog.topics.discovery import DiscoveredTopic, Discovery
from twinlog.topics.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Prepared:
    """The topics to follow, how large their records may be, and what could not be provisioned on the target."""

    discovery: Discovery
    topics: tuple[DiscoveredTopic, ...]
    max_bytes: Mapping[str, int]
    refused: tuple[Refusal, ...] = ()

    def asks_for_lanes_unlike(self, other: Prepared) -> bool:
        """Say whether lanes opened for `other` would do something else. Pure.

        A topic, an incarnation, a provisioned partition or a size limit may differ. The start and end of logs do not
        matter to open lanes.
        """
        return _shape(self) != _shape(other)


def _shape(prepared: Prepared) -> object:
    topics = [
        (it.topic, it.topic_id, it.remote, [partition.partition for partition in it.placed])
        for it in prepared.topics
    ]
    return prepared.discovery.stands_by, topics, dict(prepared.max_bytes)


def prepare(flow: FlowSettings, clusters: Clusters, topics: Collection[str] | None, run_id: str) -> Prepared:
    """Create what is missing on the target, and read both sides.

    Raises as the steps sync_topics and discover.
    """
    synced = sync_topics.run(flow, clusters, run_id=run_id)
    discovery = discover.run(flow, clusters)
    chosen = choose(discovery, topics)
    return Prepared(discovery, chosen, max_bytes(clusters.target, chosen), synced.refused)
