"""Create those of twinlog's own topics that a step writes to and finds missing; `sync_topics` makes the others."""

from __future__ import annotations

from collections.abc import Iterable

from twinlog.cluster.api import Cluster
from twinlog.state.internal_topics import InternalTopic
from twinlog.topics.plan import clamped


def ensure_topics(host: Cluster, topics: Iterable[InternalTopic]) -> None:
    """Create the topics that do not exist.

    Raises errors with which the cluster refuses.
    """
    for topic in topics:
        if host.describe_topics([topic.name]).refused:
            factor = clamped(topic.replication_factor, host.broker_count())
            host.create_topics([topic.creation(factor)]).require()
