"""Say where groups stood at a time, by the looks in the ledger, and where that is on the target now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from twinlog import clock
from twinlog.clock import iso
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import UsageError
from twinlog.formats.ledger.groups import GroupLook, Stand
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.groups.translate import Position, never_copied, positions
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.state.ledger import Ledger
from twinlog.state.progress import Maps, read_packed
from twinlog.topics.incarnations import about_source_incarnation, differ

Key = tuple[str, str, int]


class Stood(StrEnum):
    """Tell what is known of the time between two looks (the ledger's records of where all groups stood).

    `unmoved`: the group stood there at the look before and at the look behind.  `moving`: it stood there or further on.
    """

    UNMOVED = "unmoved"
    MOVING = "moving"


@dataclass(frozen=True, slots=True)
class Then:
    """Where a group stood, as of the look at `as_of_ms`; the next look is `until_ms`, None if there is none yet.

    `downstream_offset` is where that is on the target now, by the present map; None if that is not known, and `text`
    says why.  `exact`: it is the first record that the group had not read then.
    """

    group: str
    topic: str
    partition: int
    remote_topic: str
    upstream_offset: int
    downstream_offset: int | None
    exact: bool
    stood: Stood
    as_of_ms: int
    until_ms: int | None
    text: str

    @property
    def remote(self) -> TopicPartition:
        """The partition on the target."""
        return TopicPartition(self.remote_topic, self.partition)


@dataclass(frozen=True, slots=True)
class Past:
    """The positions of one moment; `untold` are groups whose positions the source did not tell around it."""

    at_ms: int
    rows: tuple[Then, ...]
    untold: tuple[str, ...]


def require_known(flow: FlowSettings, ledger: Ledger, at_ms: int, option: str) -> None:
    """Raise UsageError if the time is to come, or before the first look that the ledger has."""
    looks, asked = ledger.group_looks, iso(at_ms)
    if at_ms > clock.now_ms():
        raise UsageError(f"{option}: {asked} has not come yet", hint="give a time that has passed")
    if not looks:
        raise UsageError(
            f"{option}: the ledger of {flow.name} does not tell where groups stood",
            hint="each cycle that finds a group moved notes it from now on",
        )
    if at_ms < looks[0].at_ms:
        raise UsageError(
            f"{option}: {asked} is before the history of {flow.name} begins",
            hint=f"it begins at {iso(looks[0].at_ms)}",
        )


def past(flow: FlowSettings, target: ClusterReader, ledger: Ledger, at_ms: int, option: str = "--at") -> Past:
    """Return where all groups stood.  The source is not asked.

    Raises UsageError as `require_known`, FormatError for looks that cannot be read, and errors of the target.
    """
    require_known(flow, ledger, at_ms, option)
    found, untold = stood(ledger.group_looks, at_ms)
    remote = {TopicPartition(it.remote_topic, it.partition) for it, _ in found.values()}
    described = target.describe_topics({it.topic for it in remote}).found if remote else {}
    there = {
        it for it in remote if it.topic in described and it.partition < len(described[it.topic].partitions)
    }
    logs = target.offsets(there).found if there else {}
    ids = {name: it.topic_id for name, it in described.items()}
    after = next((it for it in ledger.group_looks if it.at_ms > at_ms), None)
    placing = _Placing(ledger, _Maps(ledger, read_packed(flow, target)), logs, ids)
    moved = _moved(after, found, at_ms)
    rows = (
        placing.of(stand, look, moved[key], after.at_ms if after is not None else None)
        for key, (stand, look) in sorted(found.items())
    )
    return Past(at_ms, tuple(rows), untold)


def stood(
    looks: Sequence[GroupLook], at_ms: int
) -> tuple[Mapping[Key, tuple[Stand, GroupLook]], tuple[str, ...]]:
    """Return each position in the last look before a time that tells of its group, and groups without one.  Pure."""
    found: dict[Key, tuple[Stand, GroupLook]] = {}
    before = [it for it in reversed(looks) if it.at_ms <= at_ms]
    untold = frozenset(before[0].unseen) if before else frozenset()
    wanted: frozenset[str] | None = None
    for look in before:
        for it in look.stands:
            if wanted is None or it.group in wanted:
                found[it.group, it.topic, it.partition] = it, look
        wanted = untold if wanted is None else wanted.intersection(look.unseen)
        if not wanted:
            break
    return found, tuple(sorted(untold - {group for group, _, _ in found}))


def _moved(
    after: GroupLook | None, found: Mapping[Key, tuple[Stand, GroupLook]], at_ms: int
) -> Mapping[Key, Stood]:
    behind = (
        {(it.group, it.topic, it.partition): it.upstream for it in after.stands} if after is not None else {}
    )
    return {
        key: Stood.UNMOVED if look.at_ms == at_ms or behind.get(key) == stand.upstream else Stood.MOVING
        for key, (stand, look) in found.items()
    }


@dataclass(frozen=True, slots=True)
class _Maps:
    ledger: Ledger
    packed: Maps[PackedMap]

    def of(self, topic: str, remote: TopicPartition) -> tuple[PackedMap | None, Iterable[tuple[int, int]]]:
        """Return the map to translate by; None if a reverse flow wrote to the same log, or this is no copy of ours."""
        life = self.ledger.incarnations.get(topic)
        if life is None or self.ledger.came_home or (topic == remote.topic and self.ledger.reverse_flows):
            return None, ()
        known = SourceIncarnation(topic, life.topic_id, remote.partition)
        packed = self.packed.seen(known)
        if packed is None or isinstance(packed, UnreadableMap):
            return None, ()
        return packed, never_copied(self.ledger).get(known, ())


class _Place(NamedTuple):
    """Where a group goes on: the offset (None: unknown), whether that is exact, and what is to be said of it."""

    offset: int | None
    exact: bool
    text: str


@dataclass(frozen=True, slots=True)
class _Placing:
    ledger: Ledger
    maps: _Maps
    logs: Mapping[TopicPartition, PartitionOffsets]
    ids: Mapping[str, str]

    def of(self, it: Stand, look: GroupLook, moved: Stood, until_ms: int | None) -> Then:
        place = self._place(it, look.at_ms)
        return Then(
            it.group,
            it.topic,
            it.partition,
            it.remote_topic,
            it.upstream,
            place.offset,
            place.exact,
            moved,
            look.at_ms,
            until_ms,
            place.text,
        )

    def _place(self, it: Stand, at_ms: int) -> _Place:
        """Translate a position: by the present map if it is this flow's copy, else as it was translated then."""
        log = self.logs.get(TopicPartition(it.remote_topic, it.partition))
        if log is None:
            return _Place(None, False, f"{it.remote_topic}-{it.partition} does not answer, or is gone")
        if not about_source_incarnation(at_ms, it.topic, self.ledger):
            return _Place(None, False, f"{it.topic} was recreated since")
        packed, gaps = self.maps.of(it.topic, TopicPartition(it.remote_topic, it.partition))
        if packed is not None:
            return _by_map(positions(packed, [it.upstream], log, gaps)[0])
        return self._as_translated_then(it, log)

    def _as_translated_then(self, it: Stand, log: PartitionOffsets) -> _Place:
        if it.downstream is None:
            return _Place(None, False, "it had no translation then, and there is no map of it here")
        if differ(it.remote_id, self.ids.get(it.remote_topic, "")):
            return _Place(None, False, f"{it.remote_topic} was recreated since")
        if not log.log_start <= it.downstream <= log.end:
            return _Place(None, False, f"{it.downstream}, where it stood there, is on the target no more")
        return _Place(it.downstream, it.exact, "" if it.exact else "as it was translated then")


def _by_map(position: Position | None) -> _Place:
    if position is None:
        return _Place(None, False, "no map reaches so far back")
    exact = position.exact and not position.ahead
    if position.missing:
        text = f"up to {position.missing:,} records that it had not read are on the target no more"
    elif position.ahead:
        text = "it had read beyond the copy"
    else:
        text = "" if exact else f"at most {position.max_duplicates:,} records are read again"
    return _Place(position.offset, exact, text)


def mapped_between(
    flow: FlowSettings,
    target: ClusterReader,
    ledger: Ledger,
    wanted: Iterable[tuple[str, TopicPartition, int, int | None]],
) -> Iterator[int | None]:
    """Count the copies in each [start, end) of (source topic, copy, start, end); None if no map can tell, or no end."""
    maps = _Maps(ledger, read_packed(flow, target))
    for topic, remote, start, end in wanted:
        packed, _ = maps.of(topic, remote)
        yield None if packed is None or end is None else packed.records_between(start, end)
