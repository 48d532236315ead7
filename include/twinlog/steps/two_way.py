"""What flows both ways with unchanged topic names have to leave out (twinlog.relay.echoes).

A flow B->A, if there is one, keeps its ledger and its offset map on A, under names made of the alias B.  Whether
one exists is seen there, not in this flow's configuration file: the other way may be run from elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from twinlog.cluster.cluster import ClusterReader
from twinlog.cluster.ledger import Ledger, latest_or_empty, latest_records_or_empty, ledger_in
from twinlog.cluster.progress import Maps, packed_maps
from twinlog.config.settings import FlowSettings, Guarantee
from twinlog.errors import TerminalError
from twinlog.formats.ledger_takeover import TakenOver
from twinlog.formats.packed_map import PackedMap, UnreadableMap
from twinlog.policy.state_topics import ledger_topic, offset_map_topic
from twinlog.relay.spec import RangeSpec
from twinlog.steps.life_rules import differ
from twinlog.steps.plan_ranges import Settled, StoppedPartition


def way_back_ledger(flow: FlowSettings) -> str:
    """Name, on the source, of the ledger that a flow from this target to this source keeps."""
    return ledger_topic(flow.target.alias)


class WayBack(NamedTuple):
    """What the flow from this target to this source keeps on the source."""

    maps: Maps[PackedMap]
    ledger: Ledger


def read_way_back(flow: FlowSettings, source: ClusterReader, copies: Mapping[str, str]) -> WayBack:
    """Read map and then ledger of the way back; both empty when there is none.  Raises FormatError.

    `copies` are the ids its copies have on the source now, by name.  A map of a copy that was made anew since is about
    other records than lie there, and is left out.
    """
    topic = offset_map_topic(flow.target.alias)
    maps = packed_maps(topic, latest_records_or_empty(source, topic))
    ledger = ledger_in(source, way_back_ledger(flow))
    outlived = {
        (it.topic, it.topic_id)
        for it in ledger.lives
        if differ(it.remote_topic_id, copies.get(it.remote_topic, ""))
    }
    current = Maps(
        {life: packed for life, packed in maps.items() if (life.topic, life.topic_id) not in outlived},
        {life: why for life, why in maps.broken.items() if (life.topic, life.topic_id) not in outlived},
    )
    return WayBack(current, ledger)


def with_echoes(flow: FlowSettings, source: ClusterReader, settled: Settled) -> Settled:
    """Say for ranges of topics that keep their names which upstream offsets the map of the way back holds.

    A partition stops where what is an echo would be guessed: where that map cannot be read, and where MirrorMaker 2
    copied before the way back was taken over from it and nobody has compared what is there.  Raises FormatError where
    it cannot be said whose map it is, and TerminalError for a flow that copies at_least_once and has a way back: only
    lanes that write in transactions can be told from others.
    """
    if not any(item.remote_topic == item.topic for item in settled.ranges):
        return settled
    if flow.copy.guarantee is Guarantee.AT_LEAST_ONCE and latest_or_empty(source, way_back_ledger(flow)):
        raise TerminalError(
            f"{flow.name} and the flow the other way keep topic names, and {flow.name} copies at_least_once",
            hint="what it writes could not be told from others' records: set twinlog.guarantee=exactly_once",
            code="two-way",
            flow=flow.name,
        )
    maps, ledger = read_way_back(flow, source, {item.topic: item.topic_id for item in settled.ranges})
    taken_over: defaultdict[tuple[str, str, int], list[TakenOver]] = defaultdict(list)
    for it in ledger.taken_over:
        taken_over[it.topic, it.remote_topic_id, it.partition].append(it)
    ranges: list[RangeSpec] = []
    stopped = list(settled.stopped)
    for item in settled.ranges:
        if item.remote_topic != item.topic:
            ranges.append(item)
            continue
        theirs = taken_over[_name(item)]
        why = uncompared(item, theirs)
        if why is not None:
            stopped.append(why)
            continue
        try:
            ranges.append(_with_echoes(item, maps, theirs))
        except UnreadableMap as error:
            message = f"what of it is an echo cannot be told: {error.message}"
            stopped.append(StoppedPartition(item.topic, item.partition, error.code, message))
    return Settled(tuple(ranges), tuple(stopped))


def uncompared(item: RangeSpec, taken_over: Iterable[TakenOver]) -> StoppedPartition | None:
    """Say why a range must not be copied: records in it may be MirrorMaker 2's copies from the target.  Pure."""
    for it in taken_over:
        first, end = max(it.first, item.start), min(it.compared, item.end)
        if first < end:
            message = (
                f"{item.topic}-{item.partition}: offsets {first} to {end - 1} were there before the flow the other way"
                " was taken over from MirrorMaker 2, and nobody compared them: its copies among them would come back as"
                " new records; run `twinlog takeover` of that flow again with a greater --depth"
            )
            return StoppedPartition(item.topic, item.partition, "uncompared", message, first, end - 1)
    return None


def _name(item: RangeSpec) -> tuple[str, str, int]:
    return item.topic, item.topic_id, item.partition


def _with_echoes(item: RangeSpec, maps: Maps[PackedMap], taken_over: Iterable[TakenOver]) -> RangeSpec:
    place = item.topic, item.partition
    lives = [life for life in [*maps, *maps.broken] if (life.topic, life.partition) == place]
    compared = [(it.compared, it.end) for it in taken_over]
    return replace(item, echoes=_spans(item, [maps[life] for life in lives], compared))


def _spans(
    item: RangeSpec, maps: Iterable[PackedMap], compared: Iterable[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Downstream stretches of the way back that lie in the range, joined where they touch.

    Where a take-over compared, all that is there is the source's: MirrorMaker 2's duplicates, too, which no map has.
    """
    found = [(first, end) for first, end in compared if end > item.start and first < item.end]
    for packed in maps:
        opened = packed.open()
        ends = opened.downstream + opened.length
        inside = np.flatnonzero((ends > item.start) & (opened.downstream < item.end))
        found += zip(opened.downstream[inside].tolist(), ends[inside].tolist(), strict=True)
    joined: list[tuple[int, int]] = []
    for first, end in sorted(found):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((first, end))
    return tuple(joined)
