"""`twinlog show`: the internal topics record by record, as MM2's console formatters print them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinlog.cli.flows import load_flows
from twinlog.cli.options import ConfigOption, FlowOption, Output, OutputOption, StrictOption
from twinlog.cli.render import show as show_document
from twinlog.cli.render import warn
from twinlog.errors import ExitCode, FormatError
from twinlog.jsonable import to_json
from twinlog.visible import visible

if TYPE_CHECKING:
    from twinlog.cluster.api import ClusterReader, Clusters
    from twinlog.config.flow.settings import FlowSettings


class Kind(StrEnum):
    """The topics that can be shown."""

    OFFSET_SYNCS = "offset-syncs"
    CHECKPOINTS = "checkpoints"
    HEARTBEATS = "heartbeats"
    OFFSET_MAP = "offset-map"


KindArgument = Annotated[Kind, typer.Argument(help="Which topic.")]
Line = tuple[str, dict[str, Any]]
Reader = Callable[[bytes, bytes], Line]


def show(
    kind: KindArgument,
    *,
    config: ConfigOption,
    flow: FlowOption = None,
    strict: StrictOption = False,
    output: OutputOption = Output.TABLE,
) -> int:
    """Print a flow's offset-syncs, checkpoints, heartbeats or offset map, oldest first, deleted ones left out."""
    documents: list[dict[str, Any]] = []
    unreadable = 0
    for one in load_flows(config, flow, strict=strict):
        for line, document in _records(one, kind):
            if document is None:
                unreadable += 1
                warn(line)
            elif output is Output.JSON:
                documents.append({"flow": one.name, **document})
            else:
                sys.stdout.write(f"{visible(line)}\n")
    if output is Output.JSON:
        show_document(documents, output)
    return int(ExitCode.SAYS_NO if unreadable else ExitCode.DONE)


def _records(flow: FlowSettings, kind: Kind) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield each record's line and fields; if a record cannot be read, no fields, and the reason in its line."""
    from twinlog.cluster.api import open_clusters
    from twinlog.state.mm2_topics import read_in_order

    with open_clusters(flow) as clusters:
        cluster, topic = _place(flow, clusters, kind)
        described = cluster.describe_topics([topic]).require()
        for partition in described[topic].partitions:
            for record in read_in_order(cluster, topic, partition.partition):
                if record.value is None:
                    continue
                try:
                    yield _READERS[kind](record.key or b"", record.value)
                except FormatError as error:
                    yield f"{topic}-{partition.partition}, offset {record.offset}: {error.message}", None


def _place(flow: FlowSettings, clusters: Clusters, kind: Kind) -> tuple[ClusterReader, str]:
    policy = flow.policy
    match kind:
        case Kind.OFFSET_SYNCS if flow.offset_syncs_topic_location == "source":
            return clusters.source, policy.offset_syncs_topic(flow.target.alias)
        case Kind.OFFSET_SYNCS:
            return clusters.target, policy.offset_syncs_topic(flow.source.alias)
        case Kind.CHECKPOINTS:
            return clusters.target, policy.checkpoints_topic(flow.source.alias)
        case Kind.HEARTBEATS:
            return clusters.target, policy.heartbeats_topic()
        case Kind.OFFSET_MAP:
            return clusters.target, flow.offset_map_topic


def offset_sync_line(key: bytes, value: bytes) -> Line:
    """Format a record as OffsetSyncFormatter does."""
    from twinlog.formats.mm2.records import OffsetSync

    it = OffsetSync.parse(key, value)
    line = (
        f"OffsetSync{{topicPartition={it.topic}-{it.partition}, upstreamOffset={it.upstream_offset},"
        f" downstreamOffset={it.downstream_offset}}}"
    )
    return line, to_json(it)


def checkpoint_line(key: bytes, value: bytes) -> Line:
    """Format a record as CheckpointFormatter does."""
    from twinlog.formats.mm2.records import Checkpoint

    it = Checkpoint.parse(key, value)
    line = (
        f"Checkpoint{{consumerGroupId={it.group}, topicPartition={it.topic}-{it.partition},"
        f" upstreamOffset={it.upstream_offset}, downstreamOffset={it.downstream_offset}, metadata={it.metadata}}}"
    )
    return line, to_json(it)


def heartbeat_line(key: bytes, value: bytes) -> Line:
    """Format a record as HeartbeatFormatter does."""
    from twinlog.formats.mm2.records import Heartbeat

    it = Heartbeat.parse(key, value)
    line = (
        f"Heartbeat{{sourceClusterAlias={it.source_alias}, targetClusterAlias={it.target_alias},"
        f" timestamp={it.timestamp_ms}}}"
    )
    return line, to_json(it)


def map_line(key: bytes, value: bytes) -> Line:
    """Format a record of the map in the same style: extents as upstream->downstream*length."""
    from twinlog.formats.map.offset_map import decode_map_key, decode_segment

    known = decode_map_key(key)
    piece = decode_segment(known, value)
    runs = " ".join(f"{run.upstream}->{run.downstream}*{run.length}" for run in piece.runs)
    line = (
        f"OffsetMapPiece{{topicPartition={known.topic}-{known.partition}, topicId={known.topic_id},"
        f" upstreamOffsets={piece.first_upstream}..{piece.end_upstream}, runs=[{runs}]}}"
    )
    return line, {
        "topic": known.topic,
        "partition": known.partition,
        "topic_id": known.topic_id,
        **to_json(piece),
    }


_READERS: dict[Kind, Reader] = {
    Kind.OFFSET_SYNCS: offset_sync_line,
    Kind.CHECKPOINTS: checkpoint_line,
    Kind.HEARTBEATS: heartbeat_line,
    Kind.OFFSET_MAP: map_line,
}
