"""Open the clusters of a flow for commands that need its ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twinlog.errors import TerminalError

if TYPE_CHECKING:
    from twinlog.cluster.open import Clusters
    from twinlog.config.flow.settings import FlowSettings


@contextmanager
def clusters_with_ledger(flow: FlowSettings) -> Iterator[Clusters]:
    """Open a flow's clusters.  Raises TerminalError `no-ledger` if the flow has never run."""
    from twinlog.cluster.open import open_clusters

    with open_clusters(flow) as clusters:
        if clusters.target.describe_topics([flow.ledger_topic]).refused:
            raise TerminalError(
                f"{flow.name} has never run: it has no ledger on {flow.target.alias}",
                hint="run `twinlog run --once` first",
                code="no-ledger",
            )
        yield clusters
