"""Count by the map what lanes committed that died before they could report it.

Only behind the fence that follows: until then such a lane may still commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from twinlog.checks.coverage import copied_from
from twinlog.cluster.api import ClusterReader
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.result import Totals
from twinlog.kafka_types import TopicPartition
from twinlog.lane.spec import LaneOutcome, LaneReport, LaneSpec, RangeReport, RangeSpec
from twinlog.state.progress import SourceIncarnation, read_packed


def ranges_of_the_dead(specs: Iterable[LaneSpec], reports: Iterable[LaneReport]) -> Iterator[RangeSpec]:
    """Yield the ranges of lanes without a report, and of those that Spark began anew after their first try. Pure.

    A second try writes nothing, and reports no ranges (twinlog.spark.lane_task).
    """
    reported = {it.lane for it in reports if it.ranges or it.state is not LaneOutcome.FENCE_AGAIN}
    for spec in specs:
        if spec.lane not in reported:
            yield from spec.ranges


def count_by_map(
    flow: FlowSettings,
    target: ClusterReader,
    progress: Mapping[TopicPartition, int],
    ranges: Iterable[RangeSpec],
    totals: Totals,
) -> None:
    """Add to `totals` what the map knows to have been copied of `ranges`; `progress` was read behind the fence."""
    maps = read_packed(flow, target)
    for item in ranges:
        incarnation = SourceIncarnation(item.topic, item.topic_id, item.partition)
        copied = copied_from(maps, incarnation, item.start)
        reached = progress.get(item.topic_partition, item.start - 1) + 1
        report = RangeReport(item.topic, item.remote_topic, item.partition, copied, 0, reached)
        totals.add(LaneReport(0, LaneOutcome.DONE, (report,)))
