"""The steps of a failover whose source is lost, up to its promotion: from the state on the target alone."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twinlog import clock
from twinlog.cluster.admin.groups import CommittedOffset, GroupPartition, GroupState, OffsetChange
from twinlog.cluster.api import Cluster, ClusterReader
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.gate import Waiver, counting
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.gate.groups import known_life, left_behind, of_this_incarnation, records_between
from twinlog.groups.maps import PartitionMaps, never_copied
from twinlog.groups.place import place as place_of
from twinlog.kafka_types import TopicPartition
from twinlog.recovery.report import Outcome, PlacedGroup, done, skips, waiting
from twinlog.recovery.steps.loss import read_loss
from twinlog.recovery.steps.scene import Scene
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.state.mm2_topics import DatedCheckpoint, newest_checkpoints
from twinlog.state.progress import Maps, read_packed, read_progress
from twinlog.topics.incarnations import sources_of_copies
from twinlog.visible import and_more, listed


def count_loss(scene: Scene) -> Outcome:
    """Say what is lost: by partition in the report, in sum here."""
    scene.loss = loss = read_loss(scene.flow, scene.clusters.target)
    scene.topics = loss.topics
    return done(loss.told)


@dataclass(frozen=True, slots=True)
class Placing:
    """Tell where one group goes on: its last checkpoint, the offset to commit, and what is committed there now.

    `write` is None if it stands there already, or behind it: then it skips at most `skipped` records.  `trouble` says
    why it cannot be placed.  If the copy is `gone`, and nothing is copied into it any more, there is no place, and
    nothing to do.
    """

    checkpoint: DatedCheckpoint
    topic: str
    there: CommittedOffset | None
    write: int | None
    exact: bool
    trouble: str = ""
    gone: bool = False
    skipped: int = 0

    @property
    def key(self) -> GroupPartition:
        """The group and the partition of the copy."""
        it = self.checkpoint.checkpoint
        return GroupPartition(it.group, it.topic, it.partition)


def place_from_checkpoints(scene: Scene) -> Outcome:
    """Commit the position of every group that has a checkpoint; groups with members on the target are left alone."""
    target, flow = scene.clusters.target, scene.flow
    ledger = read_ledger(flow, target)
    placings = read_placings(flow, target, ledger)
    spared = frozenset(waived(ledger.waivers, clock.now_ms()))
    blocked = [it for it in placings if it.trouble and not spared & {"", it.key.group}]
    if blocked:
        scene.groups = shown(placings)
        first = blocked[0]
        more = and_more(len(blocked), form=" (and {} positions more)")
        return waiting(
            f"group {first.key.group} on {first.key.topic}-{first.key.partition} cannot be placed: {first.trouble}"
            f"{more}; see to it and run it again, or waive it: twinlog waiver add group-covered --for"
            f" {shlex.quote(first.key.group)} --by NAME --until 4h --reason ..."
        )
    changes: dict[str, dict[TopicPartition, OffsetChange]] = {}
    for it in placings:
        if it.write is not None and not it.trouble:
            expected = it.there.offset if it.there is not None else None
            change = OffsetChange(it.write, expected, it.checkpoint.checkpoint.metadata)
            changes.setdefault(it.key.group, {})[it.key.topic_partition] = change
    refused = commit(target, changes)
    scene.groups = shown(placings)
    if refused is not None:
        return refused
    groups = {it.key.group for it in placings}
    left = sorted({it.key.group for it in placings if it.trouble})
    unplaced = f"; left where they are, by waiver: {listed(left)}" if left else ""
    written = sum(len(it) for it in changes.values())
    inexact = sum(not it.exact and not it.gone for it in placings)
    about = f"; {inexact:,} are not exact" if inexact else ""
    text = (
        f"{len(groups):,} groups, {len(placings):,} positions, {written:,} of them written{about}{unplaced}"
        f"{without_place(placings)}"
    )
    return done("; ".join(filter(None, [text, skips(scene.groups)])))


def without_place(placings: Sequence[Placing]) -> str:
    """Say which copies are gone, so that groups have no place there; "" if there are none.  Pure."""
    gone = sorted({it.key.topic for it in placings if it.gone})
    if not gone:
        return ""
    count = sum(it.gone for it in placings)
    return f"; {count:,} have no place: {listed(gone)}, which nothing is copied into any more, is gone"


def commit(target: Cluster, changes: Mapping[str, Mapping[TopicPartition, OffsetChange]]) -> Outcome | None:
    """Commit positions of groups; return the outcome of a step that was refused one, else None."""
    refused = target.alter_offsets(changes).refused if changes else {}
    for key, error in refused.items():
        why = f"{error.message}{and_more(len(refused))}"
        return waiting(f"group {key.group} on {key.topic}-{key.partition}: {why}; run it again")
    return None


def read_placings(flow: FlowSettings, target: ClusterReader, ledger: Ledger) -> tuple[Placing, ...]:
    """Decide for every checkpoint of the incarnations copied now.  Raises errors of the target."""
    noted = of_this_incarnation(flow, newest_checkpoints(flow, target)[0], ledger)
    wanted = {it.checkpoint.group for it in noted.values()}
    committed = target.committed_offsets(wanted).found if wanted else {}
    states = {it.group: it.state for it in target.groups()} if wanted else {}
    copies = {place.topic_partition for place in noted}
    answers = target.describe_topics({it.topic for it in copies})
    described, gone = answers.found, left_behind(flow, ledger, read_progress(flow, target), answers)
    there = {
        it for it in copies if it.topic in described and it.partition < len(described[it.topic].partitions)
    }
    ends = target.offsets(there).found
    return place(flow, ledger, read_packed(flow, target), noted, committed, states, ends, gone)


def place(
    flow: FlowSettings,
    ledger: Ledger,
    maps: Maps[PackedMap],
    noted: Mapping[GroupPartition, DatedCheckpoint],
    committed: Mapping[str, Mapping[TopicPartition, CommittedOffset]],
    states: Mapping[str, GroupState],
    ends: Mapping[TopicPartition, PartitionOffsets],
    gone: Collection[str] = (),
) -> tuple[Placing, ...]:
    """Decide where each group goes on; copies that are `gone`, and not missed, have no place.  Pure.

    The map may know more than the checkpoint did: a group that was ahead of the copy then may not be any more.  If a
    topic has the same name on both sides, or records came home to it, the checkpoint itself is kept: the reverse flow's
    map was on the source.
    """
    source_of, gaps = sources_of_copies(flow, ledger), never_copied(ledger)
    found: list[Placing] = []
    for key in sorted(noted):
        it = noted[key].checkpoint
        source = source_of(it.topic) or it.topic
        place, there = key.topic_partition, committed.get(it.group, {}).get(key.topic_partition)
        log = ends.get(place)
        if log is None:
            over = it.topic in gone
            trouble = "" if over else "its copy is gone, or does not answer"
            found.append(Placing(noted[key], source, there, None, exact=False, trouble=trouble, gone=over))
            continue
        known = known_life(ledger, source, it.partition)
        offset, exact = it.downstream_offset, False
        if source != it.topic and not ledger.came_home and flow.homes is None:
            offset, exact = _translated(
                maps.seen(known), it.upstream_offset, offset, log, gaps.get(known, ())
            )
        offset = min(max(offset, log.log_start), log.end)
        stands = there is not None and there.offset >= offset
        active = states.get(it.group, GroupState.DEAD).active
        trouble = (
            f"it has members on {flow.target.alias}, and stands at {there.offset if there else 'no position'} instead"
            f" of {offset}"
            if active and not stands
            else ""
        )
        skipped = records_between(maps.seen(known), offset, there.offset) if stands and there else 0
        write = None if stands else offset
        found.append(
            Placing(noted[key], source, there, write, exact and not skipped, trouble, skipped=skipped)
        )
    return tuple(found)


def _translated(
    packed: PackedMap | UnreadableMap | None,
    upstream: int,
    noted: int,
    log: PartitionOffsets,
    gaps: Sequence[tuple[int, int]],
) -> tuple[int, bool]:
    """Translate by the present map; if that has no answer, keep the checkpoint's own."""
    if packed is None or isinstance(packed, UnreadableMap):
        return noted, False
    found = place_of(upstream, PartitionMaps(packed, gaps=gaps), log)
    return (noted, False) if found.offset is None else (found.offset, found.exact and not found.ahead)


def shown(placings: Sequence[Placing]) -> tuple[PlacedGroup, ...]:
    """Return the positions as the report has them.  Pure."""
    return tuple(
        PlacedGroup(
            it.key.group,
            it.topic,
            it.key.partition,
            it.checkpoint.checkpoint.upstream_offset,
            it.write if it.write is not None else (it.there.offset if it.there is not None else None),
            None,  # what it has read on the source since its checkpoint cannot be asked
            it.skipped,
        )
        for it in placings
    )


def waived(waivers: Sequence[Waiver], now_ms: int) -> Iterator[str]:
    """Yield the groups whose places a person has waived, "" for all.  Pure."""
    yield from (it.subject for it in counting(waivers, "group-covered", now_ms))
