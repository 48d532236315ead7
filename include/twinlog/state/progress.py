"""Read how far a flow has copied, and where every offset went: progress and offset map, from the target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from twinlog.cluster.api import ClusterReader
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FormatError
from twinlog.formats.lane_counts import LaneCounts, parse_lane_counts
from twinlog.formats.ledger.records import GapCause
from twinlog.formats.map.offset_map import MapKey
from twinlog.formats.map.packed_map import Origin, PackedMap, UnreadableMap, group_segments
from twinlog.formats.mm2.connect_offset import parse_offset_value, parse_source_key
from twinlog.kafka_types import Positions, ReadRecord, SourceIncarnation, TopicPartition
from twinlog.offsets.offset_map import OffsetMap
from twinlog.state.ledger import Ledger, latest_or_empty, latest_records_or_empty, read_ledger

M = TypeVar("M", bound=PackedMap | OffsetMap)


class Maps(Mapping[SourceIncarnation, M], Generic[M]):
    """One map for each partition of a topic's incarnation.

    A map that cannot be read is in `broken`, with the reason, and is not iterated. Asking for it by key (`maps[life]`,
    `maps.get(life)`) raises its UnreadableMap: that stops what depends on this map, and nothing else.
    """

    def __init__(
        self, readable: Mapping[SourceIncarnation, M], broken: Mapping[SourceIncarnation, UnreadableMap]
    ) -> None:
        self._readable = readable
        self.broken = broken

    def __getitem__(self, life: SourceIncarnation) -> M:
        if life in self.broken:
            raise self.broken[life]
        return self._readable[life]

    def __contains__(self, life: object) -> bool:
        """Say whether there is a map that can be read; unlike `maps[life]` it raises nothing."""
        return life in self._readable

    def seen(self, life: SourceIncarnation) -> M | UnreadableMap | None:
        """Return the map, the reason why it cannot be read, or None without a map; for callers that decide later."""
        return self.broken.get(life) or self._readable.get(life)

    def __iter__(self) -> Iterator[SourceIncarnation]:
        return iter(self._readable)

    def __len__(self) -> int:
        return len(self._readable)


PackedMaps = Maps[PackedMap]
"""The maps as they are stored; each is opened where it is needed."""


def read_progress(flow: FlowSettings, cluster: ClusterReader) -> Positions:
    """Read the last copied upstream offset of each source partition; absent if nothing was copied.

    The topic is Connect's. Some keys are skipped: those of other connectors, those of other sources, and those that
    Connect would not take for MM2's (Connect compares them as bytes). What another engine copies is known from what was
    observed, not from what that engine says.
    """
    if flow.observed:
        seen = read_ledger(flow, cluster)
        return {
            life.topic_partition: it.copied_to - 1
            for life, it in seen.observed.items()
            if it.copied_to > 0 and seen.current(life.topic, life.topic_id)
        }
    progress: dict[TopicPartition, int] = {}
    for data, value in latest_or_empty(cluster, flow.offsets_topic).items():
        key = parse_source_key(data, flow.connector_name, flow.state_alias)
        offset = parse_offset_value(value) if key is not None else None
        if key is not None and offset is not None:
            progress[key.topic_partition] = offset
    return progress


def read_lane_counts(
    flow: FlowSettings, cluster: ClusterReader, fence_ms: int
) -> Mapping[TopicPartition, LaneCounts]:
    """Read what lanes have committed since a fence, by source partition; one without a commit since then is absent."""
    latest = latest_records_or_empty(cluster, flow.offsets_topic)
    return {place: it for place, it in lane_counts_in(flow, latest).items() if it.fence_ms == fence_ms}


def lane_counts_in(
    flow: FlowSettings, records: Mapping[bytes, ReadRecord]
) -> Mapping[TopicPartition, LaneCounts]:
    """Find in progress records what lanes have committed, by source partition, whatever fence it was since."""
    found: dict[TopicPartition, LaneCounts] = {}
    for data, record in records.items():
        counts = parse_lane_counts(record.headers)
        key = None if counts is None else parse_source_key(data, flow.connector_name, flow.state_alias)
        if counts is not None and key is not None:
            found[key.topic_partition] = counts
    return found


def read_packed(flow: FlowSettings, cluster: ClusterReader) -> PackedMaps:
    """Read the flow's offset map as it is stored; each partition's map is opened where it is needed.

    Raises FormatError for a record whose key is not a map key: it may be a part of any partition's map.
    """
    return maps_in(cluster, flow.offset_map_topic)


def maps_in(cluster: ClusterReader, map_topic: str) -> PackedMaps:
    """Read a map topic; it may be another flow's.  Raises FormatError as `read_packed`."""
    return packed_maps(map_topic, latest_records_or_empty(cluster, map_topic))


def packed_maps(map_topic: str, latest: Mapping[bytes, ReadRecord]) -> PackedMaps:
    """Sort the content of a map topic by partition.

    Raises FormatError as `read_packed`.
    """
    readable: dict[SourceIncarnation, PackedMap] = {}
    broken: dict[SourceIncarnation, UnreadableMap] = {}
    for key, stored in _grouped(map_topic, latest).items():
        life = key.life
        try:
            values = {first: it.value or b"" for first, it in stored.items()}
            readable[life] = PackedMap.of(values, origin=_origin(map_topic, life, stored))
        except UnreadableMap as error:
            broken[life] = error
    return Maps(readable, broken)


def read_maps(
    flow: FlowSettings, cluster: ClusterReader, wanted: Iterable[SourceIncarnation] | None = None
) -> Maps[OffsetMap]:
    """Read and open the flow's offset map: one exact map per partition of each incarnation (or of `wanted`).

    All of it is in memory then, 24 bytes an extent; for maps of any size use `read_packed`. Raises as `read_packed`.
    """
    packed = read_packed(flow, cluster)
    opened: dict[SourceIncarnation, OffsetMap] = {}
    broken = dict(packed.broken)
    for life, it in packed.items():
        if wanted is None or life in wanted:
            try:
                opened[life] = it.open()
            except UnreadableMap as error:
                broken[life] = error
    return Maps(opened, broken)


def stored_segments(
    flow: FlowSettings, cluster: ClusterReader
) -> Mapping[SourceIncarnation, tuple[int, ...]]:
    """Return the first upstream offsets under which segments are stored, without reading the segments.

    Raises as `read_packed`.
    """
    latest = latest_records_or_empty(cluster, flow.offset_map_topic)
    return {
        key.life: tuple(sorted(stored)) for key, stored in _grouped(flow.offset_map_topic, latest).items()
    }


def copied_from(maps: PackedMaps, life: SourceIncarnation, start: int) -> int:
    """Count the records that the map knows from an upstream offset on; 0 if it cannot tell."""
    try:
        packed = maps.get(life)
        return packed.opened_from(start).records_between(start, 1 << 62) if packed is not None else 0
    except UnreadableMap:
        return 0


def _grouped(map_topic: str, latest: Mapping[bytes, ReadRecord]) -> Mapping[MapKey, Mapping[int, ReadRecord]]:
    try:
        return group_segments((key, record) for key, record in latest.items() if record.value is not None)
    except FormatError as error:
        where = _place(map_topic, latest[error.data["key"]])
        raise FormatError(
            f"{where} is no record of the offset map: {error.message}",
            hint="whose it is cannot be told, so nothing is translated; find out who writes to this topic",
            code=UnreadableMap.code,
            record=where,
        ) from None


def _origin(map_topic: str, life: SourceIncarnation, stored: Mapping[int, ReadRecord]) -> Origin:
    return Origin(*life, lambda first: _place(map_topic, stored[first]))


def _place(map_topic: str, record: ReadRecord) -> str:
    return f"offset {record.offset} of {map_topic}-{record.partition}"


def reported_progress(ledger: Ledger) -> Positions:
    """Read the next upstream offsets in the last cycle report, if they belong to the incarnations copied now."""
    report = ledger.last_report
    if report is None:
        return {}
    rewound = {gap.topic_partition for gap in ledger.gaps if gap.cause is GapCause.TRUNCATION}
    return {
        it: offset
        for topic, offsets in report.summary.get("next_upstream", {}).items()
        if (life := ledger.incarnations.get(topic)) is None or life.since_ms <= report.at_ms
        for partition, offset in offsets.items()
        if (it := TopicPartition(topic, int(partition))) not in rewound
    }
