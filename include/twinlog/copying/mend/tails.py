"""Copies, and progress, that lost their newest records: the partition stops before anything is written over the loss.

A target loses what it had acknowledged when a replica without it becomes the leader: by an unclean election, or after a
power cut where it was the only one.  Each progress record says where the copy ended with it, so behind the fence one
is held against the other:

    the copy ends before that place        it lost records                              lost-tail
    one behind it, the commit's marker     whole, and nothing more is asked
    further behind                         whatever was aborted, or others wrote; but where committed records of ours
                                           lie there, progress lost what it said of them        lost-progress

Nothing has been copied of a partition without progress: then there is no map of it either.  Progress that does not say
where the copy ended (MirrorMaker's, or that of a rewind) cannot be held against anything; the next commit says it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping

from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ranges import StoppedPartition
from twinlog.lane.fence.fence import Grant
from twinlog.lane.spec import RangeSpec
from twinlog.logs.committed_after import committed_behind
from twinlog.protocol.brokers import Brokers, TopicPartition
from twinlog.protocol.list_offsets import LATEST
from twinlog.state.progress import SourceIncarnation, read_packed

LOST_TAIL = "lost-tail"
"""Code of a partition whose copy lost its newest records."""

LOST_PROGRESS = "lost-progress"
"""Code of a partition whose progress lost its newest records."""

_LEADER_SECONDS = 3.0
"""How long a copy may seem too short, because a leader was asked that does not know it was deposed."""

_PAUSE_SECONDS = 0.5

_WHAT_TO_DO = 'see docs/topics.md, "A target that lost records"'


def lost_tails(
    flow: FlowSettings,
    clusters: Clusters,
    target: Brokers,
    ranges: Iterable[RangeSpec],
    ends: Mapping[TopicPartition, int],
    grant: Grant,
) -> list[StoppedPartition]:
    """Find the ranges that must not be copied on; call behind the fence that gave `grant`.

    `ends` is where the logs of the copies end (downstream), as far as they could be asked.  Asks nothing where all ends
    are where progress says.  Raises as `committed_behind` and `read_packed`.
    """
    shorter: list[RangeSpec] = []
    longer: list[RangeSpec] = []
    unknown: list[RangeSpec] = []
    for it in ranges:
        end = ends.get((it.remote_topic, it.partition), 0)
        if (it.topic, it.partition) not in grant.progress:
            unknown += [it] if end else []
        elif it.copy_end is not None and (it.remote_topic, it.partition) in ends:
            if end < it.copy_end:
                shorter.append(it)
            elif end > it.copy_end + 1:
                longer.append(it)
    return [
        *_still_shorter(target, shorter, flow),
        *_with_records_of_ours(target, longer, ends, grant.ours, flow),
        *_with_a_map(flow, clusters, unknown),
    ]


def _still_shorter(
    target: Brokers, ranges: Collection[RangeSpec], flow: FlowSettings
) -> Iterable[StoppedPartition]:
    """Return those whose copies end too early whoever is asked: a leader that was deposed knows less for a moment."""
    deadline = time.monotonic() + _LEADER_SECONDS
    ends: Mapping[TopicPartition, int] = {}
    while ranges:
        time.sleep(_PAUSE_SECONDS)
        target.forget_leaders()
        ends = target.offsets([(it.remote_topic, it.partition) for it in ranges], LATEST)
        ranges = [it for it in ranges if ends[it.remote_topic, it.partition] < (it.copy_end or 0)]
        if time.monotonic() > deadline:
            break
    for it in ranges:
        yield _shorter(it, it.copy_end or 0, ends[it.remote_topic, it.partition], flow)


def _with_records_of_ours(
    target: Brokers,
    ranges: Collection[RangeSpec],
    ends: Mapping[TopicPartition, int],
    ours: Collection[int],
    flow: FlowSettings,
) -> Iterable[StoppedPartition]:
    """Return those whose copies hold committed records of our lanes behind the end that progress tells."""
    known = {(it.remote_topic, it.partition): it.copy_end or 0 for it in ranges}
    found = committed_behind(target, known, ends, ours)
    for it in ranges:
        if (first := found.get((it.remote_topic, it.partition))) is not None:
            yield _behind_progress(it, first, flow)


def _with_a_map(
    flow: FlowSettings, clusters: Clusters, ranges: Collection[RangeSpec]
) -> Iterable[StoppedPartition]:
    """Return those that have been copied by the map, though progress knows nothing of it."""
    if not ranges:
        return
    maps = read_packed(flow, clusters.target)
    for it in ranges:
        if maps.seen(SourceIncarnation(it.topic, it.topic_id, it.partition)) is not None:
            yield _without_progress(it, flow)


def _shorter(it: RangeSpec, copy_end: int, end: int, flow: FlowSettings) -> StoppedPartition:
    return StoppedPartition(
        it.topic,
        it.partition,
        LOST_TAIL,
        f"cluster {flow.target.alias} lost records: {it.remote_topic}-{it.partition} was copied up to offset"
        f" {copy_end - 1}, and its log ends at {end}; {_WHAT_TO_DO}",
    )


def _behind_progress(it: RangeSpec, found: int, flow: FlowSettings) -> StoppedPartition:
    return StoppedPartition(
        it.topic,
        it.partition,
        LOST_PROGRESS,
        f"cluster {flow.target.alias} lost progress: by {flow.offsets_topic} {it.remote_topic}-{it.partition} was"
        f" copied up to offset {(it.copy_end or 0) - 1}, but twinlog wrote to it from {found} on; {_WHAT_TO_DO}",
    )


def _without_progress(it: RangeSpec, flow: FlowSettings) -> StoppedPartition:
    return StoppedPartition(
        it.topic,
        it.partition,
        LOST_PROGRESS,
        f"cluster {flow.target.alias} lost progress: {flow.offsets_topic} knows nothing of {it.topic}-{it.partition},"
        f" but {flow.offset_map_topic} says that it was copied; {_WHAT_TO_DO}",
    )
