"""Read the records of a batch that was damaged when it was skipped, if the source has it whole now.

They are those that the copy would have: none of an aborted transaction, if the flow reads committed records.  Whatever
else the copy would have made of them is not done here, so then they are not replayed.
"""

from __future__ import annotations

from collections.abc import Iterator

from twinlog.batches.quarantine import Origin, Part
from twinlog.batches.record import key_value_headers, read_records
from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FormatError
from twinlog.formats.ledger.audit import Unproved
from twinlog.formats.ledger.records import Gap
from twinlog.logs.partition_reader import Lost, PartitionReader
from twinlog.offsets.offset_map import OffsetMap
from twinlog.protocol.brokers import LATEST, Brokers
from twinlog.quarantine.read import FETCH_BYTES
from twinlog.state.ledger import Ledger
from twinlog.state.progress import read_maps

REASON = "damaged"
"""Why such a record was written aside, as its headers tell."""


def read_whole(
    flow: FlowSettings, clusters: Clusters, source: Brokers, ledger: Ledger, gap: Gap
) -> tuple[Part, ...] | str:
    """Return the records that the source has at the offsets of a skipped batch, or say why they cannot be replayed.

    Raises UnreadableMap, and errors of the clusters.
    """
    there = flow.source.alias
    if why := not_as_copied(flow, ledger, gap):
        return why
    life = gap.life
    if not left_out(read_maps(flow, clusters.target, {life}).get(life), gap):
        return "the offset map no longer says that the copy lacks it"
    if not _is_there(clusters, gap):
        return f"{there} no longer has that topic"
    end = source.offsets([gap.topic_partition], LATEST, read_committed=flow.copy.read_committed)
    if end[gap.topic_partition] <= gap.last_offset:
        return f"{there} cannot be read up to upstream offset {gap.last_offset}"
    try:
        found = tuple(_records(flow, source, gap))
    except FormatError as error:
        return f"{there} does not have its batch whole: {error.message}"
    # If it was created again meanwhile, these may be another topic's records.
    return found if _is_there(clusters, gap) else f"{there} no longer has that topic"


def _records(flow: FlowSettings, source: Brokers, gap: Gap) -> Iterator[Part]:
    """Yield the records that the source has at these offsets.  Raises FormatError for a part that cannot be read."""
    reader = PartitionReader(
        source,
        Unproved.SOURCE_RETENTION,
        fetch_bytes=FETCH_BYTES,
        read_committed=flow.copy.read_committed,
    )
    for block in reader.read(*gap.topic_partition, gap.first_offset, gap.last_offset + 1):
        if isinstance(block, Lost):
            raise FormatError(f"{block.reason.value} from upstream offset {block.start} to {block.end - 1}")
        for batch in block.batches():
            for it in read_records(batch.header, batch.data):
                if gap.first_offset <= it.offset <= gap.last_offset:
                    origin = Origin(gap.topic, gap.topic_id, gap.partition, it.offset)
                    yield Part(origin, it.timestamp, REASON, 1, 1, *key_value_headers(it.rest))


def not_as_copied(flow: FlowSettings, ledger: Ledger, gap: Gap) -> str:
    """Say what the copy makes of a topic's records that a replay would not; "" for nothing.  Pure."""
    remote = next(
        (
            it.remote_topic
            for it in ledger.every_incarnation
            if (it.topic, it.topic_id) == (gap.topic, gap.topic_id)
        ),
        "",
    )
    if flow.chain_of(gap.topic, remote):
        return f"{flow.name} transforms its records, and a replay does not"
    if flow.homes is not None or ledger.came_home or remote in {"", gap.topic}:
        return "its topic is copied both ways, and a replay does not tell which records came from the target"
    return ""


def left_out(offset_map: OffsetMap | None, gap: Gap) -> bool:
    """Say whether the map knows that none of these offsets has a copy: after a truncation they may have one.  Pure."""
    if offset_map is None or not offset_map.covers_all(gap.first_offset, gap.last_offset + 1):
        return False
    begins, ends = offset_map.upstream, offset_map.upstream + offset_map.length
    return not ((begins <= gap.last_offset) & (ends > gap.first_offset)).any()


def _is_there(clusters: Clusters, gap: Gap) -> bool:
    found = clusters.source.describe_topics([gap.topic]).found.get(gap.topic)
    return found is not None and found.topic_id == gap.topic_id
