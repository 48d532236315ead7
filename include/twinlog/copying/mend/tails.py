"""Find copies, and progress, that lost their newest records; stop those partitions before the loss is written over.

A target loses acknowledged records when a replica without them becomes the leader: by an unclean election, or after a
power cut if it was the only replica. Each progress record says where the copy ended when it was written. Behind the
fence, the copy's end is compared with that:

    the copy ends before that place        the copy lost records                        lost-tail
    one behind it (the commit marker)      whole; nothing more is asked
    further behind                         aborted records, or records of other writers; but if committed
                                           records of ours lie there, progress lost records     lost-progress

A partition without progress has not been copied, and so must not have a map either. Progress that does not say where
the copy ended (MirrorMaker's, or that of a rewind) cannot be compared. The next commit adds that place.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ranges import StoppedPartition
from twinlog.kafka_types import Positions
from twinlog.lane.fence.fence import Grant
from twinlog.lane.spec import RangeSpec
from twinlog.logs.committed_after import first_committed_after
from twinlog.protocol.brokers import LATEST, Brokers
from twinlog.state.progress import read_packed

LOST_TAIL = "lost-tail"
"""Code of a partition whose copy lost its newest records."""

LOST_PROGRESS = "lost-progress"
"""Code of a partition whose progress lost its newest records."""

_LEADER_SECONDS = 3.0
"""How long a copy may seem too short, because a deposed leader was asked that does not know it yet."""

_PAUSE_SECONDS = 0.5

_WHAT_TO_DO = 'see docs/topics.md, "A target that lost records"'


def lost_tails(
    flow: FlowSettings,
    clusters: Clusters,
    target: Brokers,
    ranges: Iterable[RangeSpec],
    ends: Positions,
    grant: Grant,
) -> list[StoppedPartition]:
    """Return the partitions that must not be copied on; call this behind the fence that gave `grant`.

    `ends` is where the logs of the copies end (downstream), for those that answered. If all copies end where progress
    says, this sends no request. Raises as `first_committed_after` and `read_packed`.
    """
    shorter: list[RangeSpec] = []
    longer: list[RangeSpec] = []
    unknown: list[RangeSpec] = []
    for span in ranges:
        end = ends.get(span.remote, 0)
        if span.topic_partition not in grant.progress:
            unknown += [span] if end else []
        elif span.copy_end is not None and span.remote in ends:
            if end < span.copy_end:
                shorter.append(span)
            elif end > span.copy_end + 1:
                longer.append(span)
    if not (shorter or longer or unknown):
        return []
    return [
        *_still_shorter(target, shorter, flow),
        *_with_records_of_ours(target, longer, ends, grant.ours, flow),
        *_with_a_map(flow, clusters, unknown),
    ]


def _still_shorter(
    target: Brokers, ranges: Collection[RangeSpec], flow: FlowSettings
) -> Iterable[StoppedPartition]:
    """Return ranges whose copies stay too short when asked again: a deposed leader knows less for a moment."""
    deadline = time.monotonic() + _LEADER_SECONDS
    ends: Positions = {}
    while ranges:
        time.sleep(_PAUSE_SECONDS)
        target.forget_leaders()
        ends = target.offsets([spec.remote for spec in ranges], LATEST)
        ranges = [spec for spec in ranges if ends[spec.remote] < (spec.copy_end or 0)]
        if time.monotonic() > deadline:
            break
    for span in ranges:
        why = (
            f"cluster {flow.target.alias} lost records: {span.remote_topic}-{span.partition} was copied up to offset"
            f" {(span.copy_end or 0) - 1}, and its log ends at {ends[span.remote]}; {_WHAT_TO_DO}"
        )
        yield StoppedPartition(span.topic, span.partition, LOST_TAIL, why)


def _with_records_of_ours(
    target: Brokers,
    ranges: Collection[RangeSpec],
    ends: Positions,
    ours: Collection[int],
    flow: FlowSettings,
) -> Iterable[StoppedPartition]:
    """Return ranges whose copies hold committed records of our lanes behind the end that progress names."""
    known = {spec.remote: spec.copy_end or 0 for spec in ranges}
    found = first_committed_after(target, known, ends, ours)
    for span in ranges:
        if (first := found.get(span.remote)) is not None:
            why = (
                f"cluster {flow.target.alias} lost progress: by {flow.offsets_topic}"
                f" {span.remote_topic}-{span.partition} was copied up to offset {(span.copy_end or 0) - 1},"
                f" but twinlog wrote to it from {first} on; {_WHAT_TO_DO}"
            )
            yield StoppedPartition(span.topic, span.partition, LOST_PROGRESS, why)


def _with_a_map(
    flow: FlowSettings, clusters: Clusters, ranges: Collection[RangeSpec]
) -> Iterable[StoppedPartition]:
    """Return ranges that have a map, and so were copied, although they have no progress."""
    if not ranges:
        return
    maps = read_packed(flow, clusters.target)
    for span in ranges:
        if maps.seen(span.life) is not None:
            why = (
                f"cluster {flow.target.alias} lost progress: {flow.offsets_topic} knows nothing of"
                f" {span.topic}-{span.partition}, but {flow.offset_map_topic} says that it was copied; {_WHAT_TO_DO}"
            )
            yield StoppedPartition(span.topic, span.partition, LOST_PROGRESS, why)
