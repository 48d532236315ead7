"""Step `offset_syncs`: write MM2's offset syncs, derived from the offset map, and compact the map.

twinlog translates by the map; the syncs are for MM2's own clients. If the source cannot be written to, that is a
warning in the result. Running the step again writes nothing until more was copied.
"""

from __future__ import annotations

import logging

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.offset_sync import emit, map_compaction
from twinlog.offset_sync.emit import OffsetSyncsResult
from twinlog.topics.snapshot import FlowSnapshot

log = logging.getLogger(__name__)


def run(
    flow: FlowSettings, clusters: Clusters, snapshot: FlowSnapshot | None = None, *, dry_run: bool = False
) -> OffsetSyncsResult:
    """Write the syncs that are due; with `dry_run` only count them."""
    snapshot = snapshot or FlowSnapshot(flow, clusters)
    result = emit.run(flow, clusters, snapshot, dry_run=dry_run)
    if not dry_run:
        log.info("offset map: %s", map_compaction.run(flow, clusters, snapshot).sentence)
    return result
