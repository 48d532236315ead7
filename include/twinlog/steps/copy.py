"""Step `copy`: fence the flow, read its progress, and copy all there is, lane by lane.

Records, progress and offset map are committed in the same transaction: whenever the step ends, running it again goes
on exactly there (docs/decisions/0001-fence.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import copy
from twinlog.copying.copy import LaneRunner
from twinlog.copying.progress import CopyProgress
from twinlog.copying.result import CopyResult
from twinlog.topics.snapshot import FlowSnapshot


def run(
    flow: FlowSettings,
    clusters: Clusters,
    runner: LaneRunner,
    *,
    run_id: str,
    until_ms: int | None = None,
    topics: Collection[str] | None = None,
    on_progress: Callable[[CopyProgress], None] | None = None,
    snapshot: FlowSnapshot | None = None,
) -> CopyResult:
    """Copy with `runner`, as the run `run_id`; `snapshot` is one from before the fence.

    Raises FencedError if another twinlog runs the flow.
    """
    copied = partial(copy.run, flow, clusters, runner, run_id=run_id, snapshot=snapshot)
    return copied(until_ms=until_ms, topics=topics, on_progress=on_progress)
