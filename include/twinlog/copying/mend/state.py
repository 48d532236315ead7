"""Rewrite commit markers that the target lost from twinlog's own topics; call this behind the fence.

Progress is judged by the map, and the map by progress: both of a source partition were committed together
(copying/mend/outcomes.py). One marker ends everything that a producer has open in a partition of a topic, so all of it
has to have the same outcome. A source partition with maps of several incarnations is not judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.mend.copies import LEADER_SECONDS, MARKERS_SECONDS, rewrite_markers
from twinlog.copying.mend.outcomes import MapSeen, Outcome, of_map, of_progress, together
from twinlog.errors import TerminalError, TransientError
from twinlog.formats.ledger.audit import Unproved
from twinlog.formats.map.offset_map import decode_map_key, decode_segment
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.kafka_types import TopicPartition
from twinlog.lane.fence.fence import Grant
from twinlog.lane.fence.lost_progress import LOST_MARKER, WHAT_TO_DO, LostProgress, LostProgressError
from twinlog.lane.open_transactions import find_hanging, wait_until_ended, wait_until_led
from twinlog.lane.spec import StateTopics
from twinlog.logs.log_reader import read_state
from twinlog.logs.log_state import LogState
from twinlog.logs.partition_reader import Block, PartitionReader
from twinlog.offsets.segments import MapSegment
from twinlog.protocol.brokers import Brokers

_FETCH_BYTES = 1 << 20


def mend_progress(flow: FlowSettings, target: Brokers, state: StateTopics, lost: LostProgressError) -> None:
    """Rewrite the markers that progress lacks, if map and copy tell the outcome; the next fence sees the rest.

    Call this behind the fence that raised `lost`. Raises TransientError and ClusterRefused.
    """
    maps = maps_seen(
        read_state(target, state.map_topic), {progress.topic_partition for progress in lost.records}
    )
    verdicts: dict[tuple[TopicPartition, int], list[Outcome]] = defaultdict(list)
    for record in lost.records:
        source = record.topic_partition
        seen = maps.get(source, MapSeen())
        in_copy = _in_copy(flow, target, record, seen)
        verdict = of_progress(record, lost.progress.get(source), seen, in_copy)
        verdicts[record.place, record.producer_id].append(verdict)
    rewrite_markers(target, lost.writers, {key: together(it) for key, it in verdicts.items()})


def _in_copy(flow: FlowSettings, target: Brokers, lost: LostProgress, seen: MapSeen) -> Outcome:
    """Return the outcome of the records that the open segments map.

    Return EITHER if the records are open too, or if there are none.
    """
    copy = TopicPartition(flow.remote_name(lost.topic), lost.partition)
    runs = [run for piece in seen.written_by(lost.producer_id) for run in piece.runs]
    if not runs or copy in find_hanging(target, [copy], {lost.producer_id}).open:
        return Outcome.EITHER
    if _shows(target, copy, runs[0].downstream, lost.producer_id, read_committed=True):
        return Outcome.COMMITTED
    raw = _shows(target, copy, runs[0].downstream, lost.producer_id, read_committed=False)
    return Outcome.ABORTED if raw else Outcome.UNKNOWN


def _shows(
    target: Brokers, copy: TopicPartition, offset: int, producer_id: int, *, read_committed: bool
) -> bool:
    """Say whether a consumer of that isolation level sees a batch of the producer at a downstream offset."""
    reader = PartitionReader(
        target, Unproved.TARGET_RETENTION, fetch_bytes=_FETCH_BYTES, read_committed=read_committed
    )
    blocks = (block for block in reader.read(*copy, offset, offset + 1) if isinstance(block, Block))
    return any(batch.header.producer_id == producer_id for block in blocks for batch in block.batches())


def mend_map(flow: FlowSettings, target: Brokers, state: StateTopics, grant: Grant) -> None:
    """Rewrite the markers that our lanes' transactions lack in the map, judged by progress.

    Call this behind the fence that gave `grant`, before a lane writes. Raises TerminalError (`lost-marker`) for a
    transaction whose outcome is unknown, and ClusterRefused. Raises TransientError also while a map partition has no
    leader: its marker could not be written although the outcome is known.
    """
    places = [TopicPartition(state.map_topic, number) for number in range(state.map_partitions)]
    seen = wait_until_led(target, places, grant.ours, LEADER_SECONDS)
    if seen.leaderless:
        topic, number = min(seen.leaderless)
        raise TransientError(
            f"{topic}-{number} has no leader on cluster {flow.target.alias}", code="unsettled"
        )
    if not seen.open:
        return
    log = read_state(target, state.map_topic)
    maps = maps_seen(log, None)
    verdicts: dict[tuple[TopicPartition, int], list[Outcome]] = defaultdict(list)
    for key, it in log.undecided.items():
        if it.producer_id in grant.ours:
            source = decode_map_key(key).topic_partition
            verdict = of_map(it.producer_id, grant.progress.get(source), maps.get(source, MapSeen()))
            verdicts[TopicPartition(state.map_topic, it.partition), it.producer_id].append(verdict)
    judged = {key: together(it) for key, it in verdicts.items()}
    rewrite_markers(target, grant.writers, judged)
    left = wait_until_ended(target, seen.open, grant.ours, MARKERS_SECONDS).open
    if not left:
        return
    unknown = not_known(left, judged)
    if not unknown:
        topic, number = min(left)
        raise TransientError(
            f"{topic}-{number} on cluster {flow.target.alias} lost the end of a transaction, and did not take it again",
            hint="see that its leader is up; nobody has to look at the records",
            code="unsettled",
        )
    place = min(unknown)
    raise TerminalError(
        f"cluster {flow.target.alias} lost the end of a transaction: {place.topic}-{place.partition} holds pieces of"
        f" the map open from offset {left[place].first_offset} on, and whether they count is not known from"
        f" {state.offsets_topic}",
        hint=WHAT_TO_DO,
        code=LOST_MARKER,
    )


def not_known(
    left: Collection[TopicPartition], judged: Mapping[tuple[TopicPartition, int], Outcome]
) -> frozenset[TopicPartition]:
    """Return the places of which not every open transaction was judged, or one has an unknown outcome.  Pure."""
    known = {place for place, _ in judged} - {
        place for (place, _), it in judged.items() if it is Outcome.UNKNOWN
    }
    return frozenset(left) - known


def maps_seen(log: LogState, wanted: Collection[TopicPartition] | None) -> Mapping[TopicPartition, MapSeen]:
    """Group the map topic's records by source partition; None as `wanted` means all of them. Pure.

    A source partition with several incarnations is left out. Raises FormatError for a key that is not a map key.
    """
    incarnations: dict[TopicPartition, set[str]] = defaultdict(set)
    pieces: dict[TopicPartition, dict[int, bytes]] = defaultdict(dict)
    undecided: dict[TopicPartition, list[tuple[int, MapSegment]]] = defaultdict(list)
    aborted: dict[TopicPartition, set[int]] = defaultdict(set)
    for data in {**log.committed, **log.overshadowed, **log.undecided}:
        key = decode_map_key(data)
        source = key.topic_partition
        if wanted is not None and source not in wanted:
            continue
        incarnations[source].add(key.topic_id)
        if data in log.committed:
            pieces[source][key.first_upstream] = log.committed[data]
        if it := log.undecided.get(data):
            if it.value is not None:
                undecided[source].append((it.producer_id, decode_segment(key, it.value)))
        elif data in log.overshadowed:
            aborted[source].add(key.first_upstream)
    return {
        source: MapSeen(_known(pieces[source]), tuple(undecided[source]), frozenset(aborted[source]))
        for source, ids in incarnations.items()
        if len(ids) == 1
    }


def _known(pieces: Mapping[int, bytes]) -> PackedMap | UnreadableMap | None:
    try:
        return PackedMap.of(pieces) if pieces else None
    except UnreadableMap as error:
        return error
