"""How far a flow has copied, and where everything went: progress and offset map, read from the target."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from twinlog.cluster.cluster import ClusterReader
from twinlog.cluster.ledger import latest_or_empty
from twinlog.cluster.values import TopicPartition
from twinlog.config.settings import FlowSettings
from twinlog.formats.connect_offset import parse_offset_value, parse_source_key
from twinlog.formats.offset_map import decode_map_key, decode_piece
from twinlog.formats.packed_map import PackedMap, group_pieces
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.piece import MapPiece
from twinlog.offsets.run import Run


class SourceLife(NamedTuple):
    """One partition of one life (topic id) of a source topic."""

    topic: str
    topic_id: str
    partition: int


def read_progress(flow: FlowSettings, cluster: ClusterReader) -> Mapping[TopicPartition, int]:
    """Read the last copied upstream offset of each source partition; absent where nothing was copied.

    The topic is Connect's: keys of other connectors, of other sources, and keys that Connect would not take
    for MM2's (they are compared as bytes) are passed over.
    """
    progress: dict[TopicPartition, int] = {}
    for data, value in latest_or_empty(cluster, flow.offsets_topic).items():
        key = parse_source_key(data, flow.connector_name, flow.source.alias)
        offset = parse_offset_value(value) if key is not None else None
        if key is not None and offset is not None:
            progress[TopicPartition(key.topic, key.partition)] = offset
    return progress


def read_pieces(flow: FlowSettings, cluster: ClusterReader) -> Mapping[SourceLife, tuple[MapPiece, ...]]:
    """Read all pieces of the flow's offset map, in order of their first upstream offset.

    Raises FormatError for a piece that is not one.
    """
    pieces: defaultdict[SourceLife, list[MapPiece]] = defaultdict(list)
    for data, value in latest_or_empty(cluster, flow.offset_map_topic).items():
        if value is not None:
            key = decode_map_key(data)
            pieces[SourceLife(key.topic, key.topic_id, key.partition)].append(decode_piece(key, value))
    return {
        life: tuple(sorted(found, key=lambda piece: piece.first_upstream)) for life, found in pieces.items()
    }


def read_packed(flow: FlowSettings, cluster: ClusterReader) -> Mapping[SourceLife, PackedMap]:
    """Read the flow's offset map as it is stored, to be opened where it is needed.

    Raises FormatError for a key, or the head of a piece, that is not one.
    """
    return packed_maps(latest_or_empty(cluster, flow.offset_map_topic))


def packed_maps(latest: Mapping[bytes, bytes | None]) -> Mapping[SourceLife, PackedMap]:
    """Sort the content of a map topic by partition.  Raises FormatError as `read_packed`."""
    records = ((key, value) for key, value in latest.items() if value is not None)
    return {
        SourceLife(key.topic, key.topic_id, key.partition): PackedMap.of(pieces)
        for key, pieces in group_pieces(records).items()
    }


def read_maps(flow: FlowSettings, cluster: ClusterReader) -> Mapping[SourceLife, OffsetMap]:
    """Read the flow's offset map and open all of it, one exact map per partition of each life of a topic.

    For maps of any size use `read_packed`.  Raises FormatError for a piece that is not one, TerminalError
    `offset-map` when pieces contradict each other.
    """
    return {life: packed.open() for life, packed in read_packed(flow, cluster).items()}


def all_runs(pieces: tuple[MapPiece, ...]) -> tuple[Run, ...]:
    """Give the runs of all pieces, in order."""
    return tuple(run for piece in pieces for run in piece.runs)
