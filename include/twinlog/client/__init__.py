"""twinlog for programs: where consumers go on (docs/client.md).

Imports neither Spark nor Airflow.  Only reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from twinlog.client.group_positions import Groups
from twinlog.client.pairs import Answer, Ask, Basis, Reason
from twinlog.client.translator import FlowTranslator, Translated, translate_groups, translate_time
from twinlog.cluster.api import Clusters, open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import UsageError

__all__ = [
    "Answer",
    "Ask",
    "Basis",
    "FlowClient",
    "Groups",
    "Reason",
    "Translated",
    "open_flow",
]


@dataclass(frozen=True, slots=True)
class FlowClient:
    """Exact translation of one flow's offsets."""

    flow: FlowSettings
    clusters: Clusters

    def translate(self, asks: Iterable[Ask]) -> tuple[Answer, ...]:
        """Translate offsets of the source; see FlowTranslator.translate."""
        return FlowTranslator(self.flow, self.clusters).translate(asks)

    def reverse(self, asks: Iterable[Ask]) -> tuple[Answer, ...]:
        """Translate offsets of the target back; see FlowTranslator.reverse."""
        return FlowTranslator(self.flow, self.clusters).reverse(asks)

    def translate_groups(self, groups: Groups, at_ms: int | None = None) -> Translated:
        """Translate where groups stand now, or stood at a time (epoch ms) as far as checkpoints tell."""
        return translate_groups(self.flow, self.clusters, groups, at_ms)

    def translate_time(self, at_ms: int, topics: Iterable[str] | None = None) -> Translated:
        """Translate the first record at or after a time (epoch ms) in every partition."""
        return translate_time(self.flow, self.clusters, at_ms, None if topics is None else frozenset(topics))


@contextmanager
def open_flow(config: Path | str, flow: str) -> Iterator[FlowClient]:
    """Open both clusters of a flow (`A->B`) of an mm2.properties file.

    Raises ConfigError if the file cannot be used, UsageError if it has no such flow.
    """
    configuration = load(Path(config))
    if flow not in configuration.flows:
        known = ", ".join(configuration.flows)
        raise UsageError(f"{config} has no flow {flow}", hint=f"its flows are: {known}", flow=flow)
    settings = configuration.flows[flow]
    with open_clusters(settings) as clusters:
        yield FlowClient(settings, clusters)
