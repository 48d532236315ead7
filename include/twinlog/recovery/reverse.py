"""Find and open the flow in the other direction: what it copies back belongs to what groups have read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from twinlog.cluster.open import Clusters, open_clusters
from twinlog.config.flow.settings import Configuration, FlowSettings


@dataclass(frozen=True, slots=True)
class Way:
    """A flow and its clusters."""

    flow: FlowSettings
    clusters: Clusters


def reverse_of(configuration: Configuration, flow: FlowSettings) -> FlowSettings | None:
    """Return the enabled flow in the other direction, None if the file has none."""
    reverse = configuration.flows.get(f"{flow.target.alias}->{flow.source.alias}")
    return reverse if reverse is not None and reverse.enabled else None


@contextmanager
def opened_reverse(configuration: Configuration, flow: FlowSettings) -> Iterator[Way | None]:
    """Open the clusters of the enabled flow in the other direction; None if the file has none."""
    reverse = reverse_of(configuration, flow)
    if reverse is None:
        yield None
        return
    with open_clusters(reverse) as clusters:
        yield Way(reverse, clusters)
