"""What flows both ways with unchanged topic names have to leave out (twinlog.relay.echoes).

A flow B->A, if there is one, keeps its ledger and its offset map on A, under names made of the alias B.  Whether
one exists is seen there, not in this flow's configuration file: the other way may be run from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from twinlog.cluster.cluster import ClusterReader
from twinlog.cluster.ledger import latest_or_empty, latest_records_or_empty
from twinlog.cluster.progress import Maps, packed_maps
from twinlog.config.settings import FlowSettings, Guarantee
from twinlog.errors import TerminalError
from twinlog.formats.packed_map import PackedMap, UnreadableMap
from twinlog.relay.spec import RangeSpec
from twinlog.steps.plan_ranges import Settled, StoppedPartition


def way_back_ledger(flow: FlowSettings) -> str:
    """Name, on the source, of the ledger that a flow from this target to this source keeps."""
    return f"mm2-ledger.{flow.target.alias}.internal"


def read_way_back(flow: FlowSettings, source: ClusterReader) -> Maps[PackedMap]:
    """Read the map of the flow from this target to this source; empty when there is none.  Raises FormatError."""
    topic = f"mm2-offset-map.{flow.target.alias}.internal"
    return packed_maps(topic, latest_records_or_empty(source, topic))


def with_echoes(flow: FlowSettings, source: ClusterReader, settled: Settled) -> Settled:
    """Say for ranges of topics that keep their names which upstream offsets the map of the way back holds.

    A partition stops where that map cannot be read: what is an echo would be guessed.  Raises FormatError where it
    cannot be said whose map it is, and TerminalError for a flow that copies at_least_once and has a way back: only
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
    maps = read_way_back(flow, source)
    ranges: list[RangeSpec] = []
    stopped = list(settled.stopped)
    for item in settled.ranges:
        try:
            ranges.append(_with_echoes(item, maps) if item.remote_topic == item.topic else item)
        except UnreadableMap as error:
            message = f"what of it is an echo cannot be told: {error.message}"
            stopped.append(StoppedPartition(item.topic, item.partition, error.code, message))
    return Settled(tuple(ranges), tuple(stopped))


def _with_echoes(item: RangeSpec, maps: Maps[PackedMap]) -> RangeSpec:
    lives = [
        life for life in [*maps, *maps.broken] if (life.topic, life.partition) == (item.topic, item.partition)
    ]
    return replace(item, echoes=_spans(item, [maps[life] for life in lives]))


def _spans(item: RangeSpec, maps: Iterable[PackedMap]) -> tuple[tuple[int, int], ...]:
    """Downstream stretches of the way back that lie in the range, joined where they touch."""
    found: list[tuple[int, int]] = []
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
