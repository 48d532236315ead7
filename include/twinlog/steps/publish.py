"""Step `publish`: report the cycle, and keep the report in the ledger.

The ledger also keeps what is at risk, and what the source looked like: the gate reads both if the source is lost.
Running the step again writes the same report anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.monitoring import publish
from twinlog.monitoring.cycle_report import FlowReport
from twinlog.monitoring.exporter import Board


def run(
    flow: FlowSettings,
    clusters: Clusters,
    run_id: str,
    copied: Mapping[str, Any] | None,
    started_ms: int,
    *,
    failed: bool = False,
    board: Board | None = None,
    tells: bool = True,
) -> FlowReport:
    """Report the run `run_id`, begun at `started_ms` (epoch ms); `copied` is the copy's result as JSON, or None."""
    return publish.run(flow, clusters, run_id, copied, started_ms, failed=failed, board=board, tells=tells)
