"""Read once what both clusters say about the flow's groups. This changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twinlog import clock
from twinlog.cluster.admin.groups import CommittedOffset, GroupListing, GroupPartition, GroupType
from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.cluster.values import Answers, PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, TwinlogError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.grouped import grouped
from twinlog.groups.maps import NO_MAPS, NOTHING, PartitionMaps, begun_empty, never_copied
from twinlog.groups.report import UncoveredGroup
from twinlog.kafka_types import Positions, SourceIncarnation, TopicPartition
from twinlog.lifecycle.reader_positions import owed
from twinlog.state.ledger import Ledger
from twinlog.state.mm2_topics import DatedCheckpoint, newest_checkpoints
from twinlog.state.progress import PackedMaps, read_packed, reported_progress
from twinlog.topics.discovery import Discovery, ProblemCode
from twinlog.topics.reverse_flows import maps_home, read_reverse_state
from twinlog.topics.snapshot import FlowSnapshot
from twinlog.visible import listed

ASKED_SECONDS = 3_600
"""Age of a group's newest checkpoint after which a missing group is not asked for by name any more."""

Offsets = Mapping[TopicPartition, CommittedOffset]


@dataclass(frozen=True, slots=True)
class Route:
    """The way of one partition of the source to the target, by `maps`.

    - `source` is None if its offsets cannot be read, `target` if there is no such partition.
    - `trouble` says why positions cannot be translated.
    - `remote_id` is the topic's incarnation on the target, "" if unknown.
    - `served_to`: while clients of the target work on the source, after a failover, groups had read the target's
      records before this offset there, up to where they stand. It is 0 at any other time.
    """

    remote: TopicPartition
    source: PartitionOffsets | None
    target: PartitionOffsets | None
    maps: PartitionMaps = NO_MAPS
    trouble: str = ""
    remote_id: str = ""
    served_to: int = 0


@dataclass(frozen=True, slots=True)
class GroupPositions:
    """Tell what the groups that the flow follows have committed at `at_ms`, and the groups of the target (`states`).

    `undecided` are groups of which nobody can say whether the flow follows them.  `unread` are the partitions that
    members of a group have been given, and of which it has committed nothing.
    """

    at_ms: int
    listed: tuple[GroupListing, ...]
    committed: Answers[str, Offsets]
    there: Answers[str, Offsets]
    states: Mapping[str, GroupListing]
    undecided: tuple[GroupListing, ...]
    unread: Mapping[str, Sequence[TopicPartition]]


@dataclass(frozen=True, slots=True)
class GroupView:
    """The flow's groups.

    `held` says why a failover of the flow in the other direction keeps this one standing by, "" if none does. `routes`
    has the partitions on the target to which the positions go. `checkpoints` is the topic's content; `gone` are groups
    in it that no longer exist on the source. `owed` are positions that a rebuild has yet to restore.
    """

    positions: GroupPositions
    uncovered: tuple[UncoveredGroup, ...]
    routes: Mapping[TopicPartition, Route]
    checkpoints: Mapping[GroupPartition, DatedCheckpoint]
    gone: frozenset[str]
    ledger: Ledger
    notes: tuple[str, ...]
    held: str
    owed: frozenset[GroupPartition]

    @property
    def at_ms(self) -> int:
        """Say when the positions were read."""
        return self.positions.at_ms

    @property
    def committed(self) -> Mapping[str, Offsets]:
        """The positions on the source."""
        return self.positions.committed.found


def read_positions(flow: FlowSettings, clusters: Clusters) -> GroupPositions:
    """Read the groups and their positions.  Raises ClusterUnreachable, ClusterRefused."""
    at_ms = clock.now_ms()
    every = clusters.source.groups()
    listed = tuple(group for group in every if flow.follows_group(group.group))
    undecided = tuple(group for group in every if flow.groups.why_unsure(group.group))
    told = _told(clusters.source, listed)
    committed = _known(told)
    there = _known(_told(clusters.target, [group for group in listed if group.group in committed.found]))
    unread = _without_offset(flow, clusters.source, listed, committed.found) | _without_start(
        flow, told.found
    )
    return GroupPositions(at_ms, listed, committed, there, listed_there(clusters.target), undecided, unread)


def _told(cluster: ClusterReader, groups: Sequence[GroupListing]) -> Answers[str, Offsets]:
    """Read committed offsets, and the start offsets of share groups."""
    committed = cluster.committed_offsets([group.group for group in groups if group.type.commits_offsets])
    starts = cluster.share_starts([group.group for group in groups if group.type is GroupType.SHARE])
    return Answers({**committed.found, **starts.found}, {**committed.refused, **starts.refused})


def _known(told: Answers[str, Offsets]) -> Answers[str, Offsets]:
    """Leave out partitions in which a share group has no start offset."""
    found = {
        group: {it: at for it, at in offsets.items() if at.known} for group, offsets in told.found.items()
    }
    return Answers(found, told.refused)


def _without_start(flow: FlowSettings, told: Mapping[str, Offsets]) -> dict[str, list[TopicPartition]]:
    """Return the partitions in which share groups have no start offset yet."""
    return grouped(
        (group, it)
        for group, offsets in told.items()
        for it in sorted(offsets)
        if not offsets[it].known and flow.why_left_out(it.topic) is None
    )


def _without_offset(
    flow: FlowSettings,
    source: ClusterReader,
    listed: Iterable[GroupListing],
    committed: Mapping[str, Offsets],
) -> dict[str, list[TopicPartition]]:
    """Return the partitions that members read and of which their groups have committed nothing yet."""
    active = [
        group.group
        for group in listed
        if group.state.active
        and group.type in {GroupType.CLASSIC, GroupType.CONSUMER}
        and group.group in committed
    ]
    return grouped(
        (group, partition)
        for group, described in sorted(source.describe_groups(active).found.items())
        for partition in sorted(described.assigned - set(committed[group]))
        if flow.why_left_out(partition.topic) is None
    )


def listed_there(target: ClusterReader) -> Mapping[str, GroupListing]:
    """Return the groups of the target; none if it does not list them: its brokers refuse to move one that is in use."""
    try:
        return {group.group: group for group in target.groups()}
    except ClusterRefused:
        return {}


def look(snapshot: FlowSnapshot, positions: GroupPositions) -> GroupView:
    """Read what else is to know of the groups: topics, maps and checkpoints.

    `positions` were read before the topics of the snapshot, so that no valid position lies beyond the end of a log.
    Raises ClusterUnreachable, ClusterRefused, and FormatError for a map topic that cannot be read.
    """
    flow, clusters, committed = snapshot.flow, snapshot.clusters, positions.committed
    wanted = {offset for offsets in committed.found.values() for offset in offsets}
    ledger = snapshot.read_state().ledger if wanted else snapshot.ledger
    checkpoints, unread = newest_checkpoints(flow, clusters.target)
    topic = flow.checkpoints_topic
    gone, hidden = _missing(
        flow, clusters.source, (group.group for group in positions.listed), checkpoints, positions.at_ms
    )
    return GroupView(
        positions=positions,
        uncovered=(*_uncovered(snapshot, positions), *_refused(committed.refused), *hidden),
        routes=dict(_routes(snapshot, wanted)) if wanted else {},
        checkpoints=checkpoints,
        gone=gone,
        ledger=ledger,
        notes=(f"{topic}: {unread} records are no checkpoints",) if unread else (),
        owed=frozenset(dict(owed(ledger, ledger.rebuilds))),
        held=snapshot.discovery.stands_by if wanted and ledger.copies_for(flow.recovery_run) else "",
    )


def _uncovered(snapshot: FlowSnapshot, positions: GroupPositions) -> Iterator[UncoveredGroup]:
    flow = snapshot.flow
    types = {it.group: it.type for it in positions.listed}
    empty = {
        partition.topic_partition
        for topic in (snapshot.discovery.topics if positions.unread else ())
        for partition in topic.partitions
        if partition.source.log_start == partition.source.end
    }
    for listing in positions.undecided:
        yield UncoveredGroup(listing.group, listing.type, flow.groups.why_unsure(listing.group), ours=False)
    for group_listing in positions.listed:
        told = (
            positions.committed.found.get(group_listing.group, True)
            or group_listing.group in positions.unread
        )
        if group_listing.type is GroupType.SHARE and not told:
            yield UncoveredGroup(group_listing.group, GroupType.SHARE, "it has acknowledged nothing yet")
    for group, partitions in positions.unread.items():
        names = listed([
            f"{partition.topic}-{partition.partition}" for partition in partitions if partition not in empty
        ])
        if not names:
            continue
        reset = "share.auto.offset.reset" if types[group] is GroupType.SHARE else "auto.offset.reset"
        reason = (
            f"it reads {names} and has committed nothing there: its {reset} says where it starts on"
            f" {flow.target.alias}"
        )
        yield UncoveredGroup(group, types[group], reason)


def _refused(refused: Mapping[str, TwinlogError]) -> Iterator[UncoveredGroup]:
    for name, error in refused.items():
        yield UncoveredGroup(name, GroupType.OTHER, str(error), refused=True)


def _missing(
    flow: FlowSettings,
    source: ClusterReader,
    listed: Iterable[str],
    checkpoints: Mapping[GroupPartition, DatedCheckpoint],
    at_ms: int,
) -> tuple[frozenset[str], tuple[UncoveredGroup, ...]]:
    """Return groups that have checkpoints and do not exist on the source any more, and those that it does not list.

    A complete listing decides about groups whose newest checkpoint is older than `ASKED_SECONDS`: one listing, for any
    number of groups. Groups with younger checkpoints are asked for by name: while a group's coordinator moves, no
    listing has the group. If the listing leaves out groups that this user may not see, all missing groups are asked
    for by name: a hidden group is refused, and not gone. So is one that has positions, and is not listed.
    """
    newest: dict[str, int] = {}
    known = set(listed)
    for key, it in checkpoints.items():
        if key.group not in known:
            newest[key.group] = max(newest.get(key.group, 0), it.at_ms)
    missing = {group for group in newest if flow.follows_group(group)}
    young = {group for group in missing if clock.seconds_between(newest[group], at_ms) < ASKED_SECONDS}
    long_gone = missing - young
    if long_gone and not source.lists_every_group():
        young, long_gone = missing, set()
    nothing: Answers[str, Offsets] = Answers({})
    asked = source.committed_offsets(sorted(young)) if young else nothing
    gone = frozenset(long_gone | {group for group, offsets in asked.found.items() if not offsets})
    unlisted = (
        UncoveredGroup(
            group, GroupType.OTHER, f"{source.alias} has it and does not list it (ListGroups)", refused=True
        )
        for group in asked.found
        if group not in gone
    )
    return gone, (*unlisted, *_refused(asked.refused))


def _routes(snapshot: FlowSnapshot, wanted: set[TopicPartition]) -> Iterator[tuple[TopicPartition, Route]]:
    flow, clusters, discovery = snapshot.flow, snapshot.clusters, snapshot.discovery
    reverse_maps, served = _reverse_maps(flow, clusters, discovery, came_home=snapshot.ledger.came_home)
    # Read behind those of the reverse flow: what these pass over as ours, our map has, or a group would skip it.
    onward = read_packed(flow, clusters.target) if reverse_maps else snapshot.maps
    gaps = never_copied(snapshot.ledger)
    problems = {problem.topic: problem.message for problem in discovery.problems if problem.blocking}
    for topic in discovery.topics:
        for partition in topic.partitions:
            it, life = partition.topic_partition, partition.life
            if it in wanted:
                maps = PartitionMaps(
                    # What no way home has brought there is the target's own.
                    onward.seen(life) or (NOTHING if flow.homes is not None else None),
                    reverse_maps.get(it),
                    gaps.get(life, ()),
                    lent=flow.homes is None and topic.topic != topic.remote_topic,
                )
                trouble = problems.get(topic.topic, "is blocked") if topic.blocked else ""
                remote = topic.at_target(partition.partition)
                yield (
                    it,
                    Route(
                        *(remote, partition.source, partition.target, maps, trouble, topic.copy_id),
                        served_to=served.get(remote, 0),
                    ),
                )
    yield from _unread(flow, discovery, wanted)
    yield from _routes_back(flow, clusters, wanted)


def _unread(
    flow: FlowSettings, discovery: Discovery, wanted: set[TopicPartition]
) -> Iterator[tuple[TopicPartition, Route]]:
    """Yield partitions whose topic the source would not describe, or whose offsets it did not tell."""
    codes = {ProblemCode.SOURCE_REFUSED, ProblemCode.PARTITION_UNAVAILABLE}
    problems = {problem.topic: problem.message for problem in discovery.problems if problem.code in codes}
    found = {partition.topic_partition for topic in discovery.topics for partition in topic.partitions}
    counts = {topic.topic: topic.partition_count for topic in discovery.topics}
    for it in wanted - found:
        if it.topic in problems and it.partition < counts.get(it.topic, it.partition + 1):
            remote = TopicPartition(flow.remote_name(it.topic), it.partition)
            yield it, Route(remote, None, None, trouble=problems[it.topic])


def _reverse_maps(
    flow: FlowSettings, clusters: Clusters, discovery: Discovery, *, came_home: bool
) -> tuple[Mapping[TopicPartition, PackedMap | UnreadableMap], Positions]:
    """Return maps of the reverse flow, for topics that are copied both ways; empty if there is no such flow.

    If that flow was failed over, return too how far it had copied each partition of the target by its last report:
    clients worked there until then.  `came_home`: records of copies with other names have come home.
    """
    every = came_home or flow.homes is not None
    same = [
        topic
        for topic in discovery.topics
        if (every or topic.remote_topic == topic.topic) and topic.remote is not None
    ]
    way = (
        read_reverse_state(flow, clusters, {topic.topic: topic.topic_id for topic in same}) if same else None
    )
    if way is None:
        return {}, {}
    left = way.ledger.phase in {FlowPhase.PROMOTED, FlowPhase.FAILING_BACK}
    maps = {
        partition.topic_partition: way.maps.seen(
            SourceIncarnation(topic.remote_topic, topic.copy_id, partition.partition)
        )
        or NOTHING
        for topic in same
        if way.concerns(topic.topic, topic.remote_topic, topic.copy_id)
        for partition in topic.partitions
    }
    return maps, reported_progress(way.ledger) if left else {}


def _routes_back(
    flow: FlowSettings, clusters: Clusters, wanted: set[TopicPartition]
) -> Iterator[tuple[TopicPartition, Route]]:
    originals = {
        it: TopicPartition(name, it.partition)
        for it in wanted
        if flow.homes is None
        and flow.topics.accepts(it.topic)
        and flow.policy.topic_source(it.topic) == flow.target.alias
        and (name := flow.policy.upstream_topic(it.topic)) is not None
    }
    if not originals:
        return
    copies = clusters.source.describe_topics({it.topic for it in originals}).found
    way = read_reverse_state(flow, clusters, {name: it.topic_id for name, it in copies.items()})
    way_maps, ledger = (way.maps, way.ledger) if way is not None else (PackedMaps({}, {}), Ledger())
    gaps, empty = never_copied(ledger), begun_empty(ledger)
    home = maps_home(flow, clusters, {name: described.topic_id for name, described in copies.items()})
    originals_now = clusters.target.describe_topics({it.topic for it in originals.values()}).found
    here = clusters.source.offsets(originals)
    there = clusters.target.offsets(it for it in originals.values() if it.topic in originals_now)
    for it, original in originals.items():
        if it in here.found:
            topic_id = originals_now[original.topic].topic_id if original.topic in originals_now else ""
            life = SourceIncarnation(original.topic, topic_id, original.partition)
            maps = PartitionMaps(
                home.get((it, original.topic)),
                way_maps.seen(life),
                gaps.get(life, ()),
                back=True,
                begun_empty=life in empty,
            )
            yield it, Route(original, here.found[it], there.found.get(original), maps, remote_id=topic_id)
