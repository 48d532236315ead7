"""Choose, behind the fence, which ranges a lane generation opens, over how many lanes, and what it leaves out."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.loopback import with_loopback
from twinlog.copying.ranges import StoppedPartition
from twinlog.copying.resolve import resolve_now
from twinlog.copying.rounds import Rounds
from twinlog.follow.report import Prepared
from twinlog.kafka_types import TopicPartition
from twinlog.lane.fence.fence import Grant
from twinlog.lane.spec import RangeSpec
from twinlog.topics.discover import with_offsets_now
from twinlog.topics.discovery import DiscoveredTopic


@dataclass(frozen=True, slots=True)
class Opening:
    """Ranges that a lane generation follows, and partitions that are `stopped`.

    `topics` are as they were read last. `partial` says that a prepared partition is left out: the next topic refresh
    must not take this opening for what it would open again.
    """

    ranges: tuple[RangeSpec, ...]
    stopped: tuple[StoppedPartition, ...]
    topics: tuple[DiscoveredTopic, ...]
    partial: bool


def resolve_open(
    flow: FlowSettings, clusters: Clusters, rounds: Rounds, prepared: Prepared, grant: Grant
) -> Opening:
    """Resolve a range for every prepared partition that can be followed; call behind the fence that gave `grant`.

    Raises TransientError if the source answers for none of them, and as `resolve_now`, `with_loopback` and
    `Rounds.without_lost_markers`.
    """
    progress = {TopicPartition(*key): last for key, last in grant.progress.items()}
    # The prepared offsets are older than what the last generation copied: progress beyond an end is no truncation.
    seen = with_offsets_now(clusters.source, prepared.topics)
    settled = resolve_now(flow, clusters, seen, progress, {}, prepared.max_bytes, follow=True)
    settled = with_loopback(flow, clusters, settled)
    settled = rounds.without_lost_markers(clusters, settled, seen, grant)
    told = {it.topic_partition for it in settled.ranges} | {it.topic_partition for it in settled.stopped}
    wanted = {
        TopicPartition(topic.topic, it.partition) for topic in prepared.topics for it in topic.provisioned
    }
    # A partition in neither list was paused just now: that is no error, but it may be resumed before the next refresh.
    return Opening(settled.ranges, settled.stopped, seen, bool(settled.stopped or wanted - told))


def fixed_lanes(flow: FlowSettings, most: int) -> int | None:
    """Return how many lanes a generation has for any backlog, at most `most`; None if the backlog decides. Pure.

    Under a throttle more lanes would copy no more, and a lane's unused share of the rate does not pass to another.
    """
    if flow.copy.lanes:
        return min(flow.copy.lanes, most)
    return 1 if flow.copy.bytes_per_second else None
