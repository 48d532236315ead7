"""Tell OpenLineage which topics were copied to where: `kafka://host:port/topic` on either side.

OpenLineage's listener asks an operator for it once its task has ended, and is the only one who imports this module's
types: without the provider (`pip install 'twinlog[lineage]'`) nothing of this runs.  Names follow OpenLineage's naming
of Kafka: the namespace is the first bootstrap server, the name is the topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import ClusterSettings
from twinlog.jsonable import Json


@dataclass(frozen=True, slots=True)
class Lineage:
    """Datasets, as (namespace, name), that a task read and wrote."""

    inputs: tuple[tuple[str, str], ...] = ()
    outputs: tuple[tuple[str, str], ...] = ()

    def facets(self) -> Any:
        """Return it as OpenLineage's listener wants it."""
        from airflow.providers.common.compat.openlineage.facet import Dataset
        from airflow.providers.openlineage.extractors import OperatorLineage

        return OperatorLineage(
            inputs=[Dataset(namespace=namespace, name=name) for namespace, name in self.inputs],
            outputs=[Dataset(namespace=namespace, name=name) for namespace, name in self.outputs],
        )


def lineage_of_copy(flow: FlowSettings, outcome: Json) -> Lineage:
    """Return the topics of which a copy (a CopyResult as JSON) has copied records.  Pure."""
    source, target = namespace(flow.source), namespace(flow.target)
    pairs = sorted({
        (it["topic"], it["remote_topic"]) for it in outcome.get("partitions", []) if it["copied_records"]
    })
    inputs = tuple((source, topic) for topic, _ in pairs)
    return Lineage(inputs, tuple(dict.fromkeys((target, remote) for _, remote in pairs)))


def namespace(cluster: ClusterSettings) -> str:
    """Return OpenLineage's name of a cluster.  Pure."""
    host, port = cluster.connection.bootstrap[0]
    return f"kafka://{host}:{port}"
