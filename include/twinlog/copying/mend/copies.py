"""Rewrite commit markers that the target lost from the copies, or stop the partitions that depend on them.

The driver calls this behind its fence, before a lane writes. A transaction that is still open would be committed or
aborted with the next transaction of the same lane (lane/open_transactions.py). The order is: progress is mended first
(copying/mend/state.py), then the map by progress, then the copy by both.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.mend.outcomes import Outcome, of_copy
from twinlog.copying.mend.tails import lost_tails
from twinlog.copying.ranges import ResolvedRanges, StoppedPartition
from twinlog.grouped import grouped
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.lane.copy.range_errors import NO_LEADER
from twinlog.lane.fence.fence import Grant
from twinlog.lane.fence.lost_progress import LOST_MARKER, WHAT_TO_DO
from twinlog.lane.open_transactions import HangingTransaction, wait_until_ended, wait_until_led
from twinlog.lane.producer import Lane
from twinlog.lane.spec import RangeSpec
from twinlog.lane.transaction import Writer
from twinlog.protocol.brokers import Brokers
from twinlog.state.progress import read_packed
from twinlog.topics.discovery import DiscoveredTopic

log = logging.getLogger(__name__)

MARKERS_SECONDS = 10.0
"""How long rewritten markers may take to arrive."""

LEADER_SECONDS = 3.0
"""How long partitions of the copy may be without a leader before they are left to the next round."""

Endings = Mapping[tuple[TopicPartition, int], Outcome]
"""The outcome of each open transaction, by target partition and producer id."""


def without_lost_markers(
    flow: FlowSettings,
    clusters: Clusters,
    target: Brokers,
    resolved: ResolvedRanges,
    topics: Iterable[DiscoveredTopic],
    grant: Grant,
) -> ResolvedRanges:
    """End our lanes' open transactions in the copy, and stop partitions that are not safe to write to.

    A partition stops if the outcome of its open transaction is unknown, if records were lost, or if it has no leader.
    The ranges returned know where their copies end. Checked are the copies that are about to be written to, and those
    of `topics` that had an open transaction at discovery. Progress and map must be whole already. Raises
    TransientError and ClusterRefused.
    """
    incarnations = {span.remote: span.life for span in resolved.ranges}
    copies = incarnations | {
        topic.at_target(number): topic.life(number) for topic in topics for number in topic.in_transaction
    }
    seen = wait_until_led(target, copies, grant.ours, LEADER_SECONDS)
    still_open = seen.open
    if still_open:
        rewrite_markers(target, grant.writers, _endings(flow, clusters, still_open, copies, grant))
        still_open = wait_until_ended(target, still_open, grant.ours, MARKERS_SECONDS).open
    stopped = [_stopped(place, copies[place], found, flow) for place, found in sorted(still_open.items())]
    stopped += [
        _not_led(place, incarnations[place], flow) for place in sorted(seen.leaderless & incarnations.keys())
    ]
    ranges = [
        replace(span, copy_end=grant.copy_ends.get(span.topic_partition))
        for span in _without(resolved.ranges, stopped)
    ]
    stopped += lost_tails(flow, clusters, target, ranges, seen.ends, grant)
    ranges = _without(ranges, stopped)
    return ResolvedRanges(tuple(ranges), (*resolved.stopped, *stopped))


def _without(ranges: Iterable[RangeSpec], stopped: Iterable[StoppedPartition]) -> list[RangeSpec]:
    left = {partition.topic_partition for partition in stopped}
    return [span for span in ranges if span.topic_partition not in left]


def rewrite_markers(target: Brokers, writers: Iterable[Writer], endings: Endings) -> None:
    """Rewrite markers, each by the lane that has the producer id; leave UNKNOWN ones and those of lanes that are gone.

    Raises TransientError if the target does not accept them. Raises TransientError also if the target may still carry
    out an EndTxn that it did not acknowledge: that would end records written next in the same epoch.
    """
    by_id = {writer.producer_id: writer for writer in writers}
    places = grouped(
        ((producer_id, verdict), place)
        for (place, producer_id), verdict in endings.items()
        if verdict is not Outcome.UNKNOWN and producer_id in by_id
    )
    for (producer_id, verdict), found in places.items():
        lane = Lane(target, by_id[producer_id])
        if lane.add(found):
            continue  # the partition has no leader, or is gone
        if verdict is Outcome.COMMITTED:
            lane.commit()
        else:
            lane.abort()
        lane.await_markers()
        if lane.transaction.unacknowledged_end:
            raise lane.transaction.doubt("the end that was written again was not answered at first")
        for topic, partition in found:
            log.warning(
                "%s-%s: cluster %s had lost the end of a transaction that was %s; it is written again",
                topic,
                partition,
                target.settings.alias,
                "committed" if verdict is Outcome.COMMITTED else "aborted",
            )


def _endings(
    flow: FlowSettings,
    clusters: Clusters,
    found: Mapping[TopicPartition, HangingTransaction],
    copies: Mapping[TopicPartition, SourceIncarnation],
    grant: Grant,
) -> Endings:
    maps = read_packed(flow, clusters.target)
    endings = {}
    for place, it in found.items():
        incarnation = copies[place]
        last = grant.progress.get(incarnation.topic_partition)
        endings[place, it.producer_id] = of_copy(it, last, maps.seen(incarnation))
    return endings


def _stopped(
    place: TopicPartition, incarnation: SourceIncarnation, found: HangingTransaction, flow: FlowSettings
) -> StoppedPartition:
    message = (
        f"cluster {flow.target.alias} lost the end of a transaction: {place[0]}-{place[1]} holds records open from"
        f" offset {found.first_offset} on, and they may have been committed; {WHAT_TO_DO}"
    )
    return StoppedPartition(incarnation.topic, incarnation.partition, LOST_MARKER, message)


def _not_led(place: TopicPartition, incarnation: SourceIncarnation, flow: FlowSettings) -> StoppedPartition:
    message = (
        f"{incarnation.topic}-{incarnation.partition}: {place[0]} has no leader on cluster {flow.target.alias} that"
        " could be asked whether it holds all it was given"
    )
    return StoppedPartition(incarnation.topic, incarnation.partition, NO_LEADER, message)
