"""What the readiness gate knows of schemas: whether the copy of a schema registry's topic equals its source.

Confluent's and Karapace's registries keep each subject, version and id as the latest record of a key.
"""

from __future__ import annotations

from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable, TwinlogError
from twinlog.topics.discovery import Discovery


def differing_schemas(flow: FlowSettings, clusters: Clusters, discovery: Discovery) -> int | None:
    """Count the records of the source's registry that differ in the copy; None if there is no such copy.

    Raises ClusterUnreachable.  A topic that may not be read counts as one difference, because nothing is known of it.
    """
    topic = next((it for it in discovery.topics if it.topic == flow.gate.schemas_topic), None)
    if topic is None or topic.remote is None:
        return None
    try:
        ours, theirs = clusters.source.latest(topic.topic), clusters.target.latest(topic.remote_topic)
    except ClusterUnreachable:
        raise
    except TwinlogError:
        return 1
    return sum(theirs.get(key) != value for key, value in ours.items())
