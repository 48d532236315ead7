"""Find what a flow must leave out of topics that are copied both ways: loopback records, and what others copy.

Topics with unchanged names are, and those to which a failback brought records home from copies with other names.

A reverse flow, from B to A, keeps its ledger and its offset map on A. Whether a reverse flow exists is read from
cluster A, not from this flow's configuration file: the reverse flow may be run from elsewhere, under aliases of its
own (topics/reverse_flows.py, batches/loopback.py).

Two flows may also copy one source, under two aliases, into the same copies. Each alias has a ledger of its own on the
target, so neither fence nor claim shows the other flow. Topic ids show it: they are random, and a topic's id is the
same under every name of its cluster. Both flows record a topic before they copy it, and look behind their fences. The
flow that recorded it later stops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ranges import ResolvedRanges, StoppedPartition
from twinlog.errors import ClusterRefused, FormatError
from twinlog.formats.ledger.writers import ReverseFlow, TakenOver
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.grouped import grouped
from twinlog.lane.spec import RangeSpec
from twinlog.policy.state_topics import comes_home, source_of_ledger
from twinlog.state.changes import Entries, change
from twinlog.state.ledger import Ledger, ledger_in, read_ledger
from twinlog.topics.incarnations import differ
from twinlog.topics.reverse_flows import ReverseState, gone_reverse_flows, read_reverse_states

COPIED_TWICE = "copied-twice"


def copied_by_others(
    flow: FlowSettings, clusters: Clusters, ranges: Iterable[RangeSpec]
) -> Mapping[str, str]:
    """Return, by topic, the other flow that copies it into the same copy, and did so first.

    Ledgers that cannot be read are skipped. Raises errors of the target.
    """
    wanted = {
        (span.topic, span.topic_id, span.remote_topic): span.remote_topic_id
        for span in ranges
        if span.topic_id
    }
    since = {
        topic: incarnation.since_ms
        for topic, incarnation in read_ledger(flow, clusters.target).incarnations.items()
    }
    found: dict[str, str] = {}
    for name in clusters.target.topic_names():
        alias = source_of_ledger(name)
        if alias is None or name == flow.ledger_topic or not wanted:
            continue
        try:
            incarnations = ledger_in(clusters.target, name).every_incarnation
        except (ClusterRefused, FormatError):
            continue
        for incarnation in incarnations:
            copy = wanted.get((incarnation.topic, incarnation.topic_id, incarnation.remote_topic))
            if copy is None or differ(incarnation.remote_topic_id, copy):
                continue
            if (incarnation.since_ms, alias) < (
                since.get(incarnation.topic, incarnation.since_ms),
                flow.source.alias,
            ):
                found[incarnation.topic] = f"{alias}->{flow.target.alias}"
    return found


GONE = "reverse-flow-gone"
"""Code of the reason for partitions whose loopback records can no longer be told from others."""


def with_loopback(
    flow: FlowSettings, clusters: Clusters, resolved: ResolvedRanges, ledger: Ledger | None = None
) -> ResolvedRanges:
    """Add to ranges of topics that are copied both ways the upstream offsets that maps of reverse flows contain.

    These are topics that keep their names, and topics to which records came home from their copies.  `ledger` is given
    if it was read behind the fence already.

    A partition stops if its loopback records would have to be guessed:
    - the map of a reverse flow cannot be read;
    - MirrorMaker 2 copied before the reverse flow was migrated from it, and the records there were not compared;
    - the ledger of a reverse flow is gone.
    A partition also stops if another flow copies the same topic.

    Raises FormatError if the owner of a map cannot be told.
    """
    came_home = flow.homes is not None or (ledger or read_ledger(flow, clusters.target)).came_home
    ids = {
        span.topic: span.topic_id for span in resolved.ranges if came_home or span.remote_topic == span.topic
    }
    if not ids:
        return resolved
    flows = read_reverse_states(flow, clusters, ids)
    pairs = {_names(span) for span in resolved.ranges if span.topic in ids}
    both_ways = [way for way in flows if any(way.concerns(*names) for names in pairs)]
    taken_over = grouped(
        ((over.topic, over.remote_topic_id, over.partition), over)
        for way in flows
        for over in way.ledger.taken_over
    )
    firsts = copied_by_others(
        flow, clusters, [span for span in resolved.ranges if span.remote_topic == span.topic]
    )
    gone = _note_reverse_flows(flow, clusters, [way for way in both_ways if way.writes_to(ids)])
    ranges: list[RangeSpec] = []
    stopped = list(resolved.stopped)
    for item in resolved.ranges:
        if item.topic not in ids:
            ranges.append(item)
            continue
        same = item.remote_topic == item.topic
        theirs = taken_over.get(item.life, []) if same else []
        lost = (
            gone if same else [reverse_flow for reverse_flow in gone if comes_home(reverse_flow.ledger_topic)]
        )
        why = _stopped_by(flow, item, firsts.get(item.topic), lost) or uncompared(item, theirs)
        if why is not None:
            stopped.append(why)
            continue
        try:
            writers = [state for state in flows if same or state.concerns(*_names(item))]
            ranges.append(_with_loopback(item, writers, theirs) if same or writers else item)
        except UnreadableMap as error:
            message = f"its loopback records cannot be told: {error.message}"
            stopped.append(StoppedPartition(item.topic, item.partition, error.code, message))
    return ResolvedRanges(tuple(ranges), tuple(stopped))


def _names(item: RangeSpec) -> tuple[str, str, str]:
    return item.topic, item.remote_topic, item.remote_topic_id


def _note_reverse_flows(
    flow: FlowSettings, clusters: Clusters, flows: Sequence[ReverseState]
) -> tuple[ReverseFlow, ...]:
    """Record in the ledger whose records are left out from now on; return recorded flows whose ledger is gone."""
    noted, now = read_ledger(flow, clusters.target).reverse_flows, clock.now_ms()
    known = {reverse_flow.ledger_topic_id for reverse_flow in noted}
    new = [state for state in flows if state.ledger_topic_id and state.ledger_topic_id not in known]
    found = [ReverseFlow(state.ledger_topic, state.ledger_topic_id, now) for state in new]
    change(flow, clusters.target, lambda _: Entries(found))
    return gone_reverse_flows(clusters, noted)


def _stopped_by(
    flow: FlowSettings, item: RangeSpec, first: str | None, gone: Sequence[ReverseFlow]
) -> StoppedPartition | None:
    """Say why a partition is not copied: another flow was `first` to copy it, or ledgers of reverse flows are gone."""
    name = f"{item.topic}-{item.partition}"
    if first is not None:
        message = (
            f"{name}: {first} copies the same topic into {item.remote_topic}, under another name of the source:"
            " everything would be there twice; exclude it from one of the two, or if that flow is gone, see"
            " docs/operations.md, Names and clusters"
        )
        return StoppedPartition(item.topic, item.partition, COPIED_TWICE, message)
    if not gone:
        return None
    names = ", ".join(sorted({reverse_flow.ledger_topic for reverse_flow in gone}))
    message = (
        f"{name}: the ledger of the flow from {flow.target.alias} ({names} on {flow.source.alias}) was deleted: what"
        " that flow wrote would come back as new records. When none of it is left in the log, or it may come back:"
        f" twinlog migrate claim --flow '{flow.name}' --reason ..."
    )
    return StoppedPartition(item.topic, item.partition, GONE, message)


def uncompared(item: RangeSpec, taken_over: Iterable[TakenOver]) -> StoppedPartition | None:
    """Say why a range must not be copied: it may hold records that MirrorMaker 2 copied from the target. Pure."""
    for over in taken_over:
        first, end = max(over.first, item.start), min(over.compared, item.end)
        if first < end:
            message = (
                f"{item.topic}-{item.partition}: offsets {first} to {end - 1} were there before the reverse flow"
                " was migrated from MirrorMaker 2, and nobody compared them: its copies among them would come back as"
                " new records; run `twinlog migrate takeover` of that flow again with a greater --depth"
            )
            return StoppedPartition(item.topic, item.partition, "uncompared", message, first, end - 1)
    return None


def _with_loopback(
    item: RangeSpec, flows: Iterable[ReverseState], taken_over: Iterable[TakenOver]
) -> RangeSpec:
    place, same = (item.remote_topic, item.partition), item.remote_topic == item.topic
    maps = [
        reverse.maps[incarnation]
        for reverse in flows
        for incarnation in [*reverse.maps, *reverse.maps.broken]
        if incarnation.topic_partition == place
        and (same or not differ(incarnation.topic_id, item.remote_topic_id))
    ]
    compared = [(over.compared, over.end) for over in taken_over]
    return replace(item, both_ways=not same, loopback=_spans(item, maps, compared))


def _spans(
    item: RangeSpec, maps: Iterable[PackedMap], compared: Iterable[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Return downstream ranges of the reverse flow that lie in the range, joined where they touch.

    Where a migration from MM2 compared the records, all records are the source's, including MirrorMaker 2's
    duplicates, which no map contains.
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
