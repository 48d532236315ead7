"""Take over a flow that copies at least once: without transactions.

No broker keeps another driver out, and no transaction ties map and progress together. A driver in follow mode is told
to stop by a record in the ledger (lane/copy/fence_watch.py), as by a fence, and has a moment to write its progress.
Records copied by two drivers at once are on the target twice. If a lane died, the map may reach beyond progress, which
is written after it (lane/copy/copy_transaction.py). The records between are copied again, and mapped anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from twinlog import clock
from twinlog.errors import FencedError, FormatError
from twinlog.formats.ledger.records import LaneFence
from twinlog.formats.map.offset_map import MapKey, encode_segment
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap, group_segments
from twinlog.lane.copy.state_records import StateRecord, map_record
from twinlog.lane.fence import fence
from twinlog.lane.fence.ownership import Identity, require_claimed, require_ours
from twinlog.lane.producer import Lane
from twinlog.lane.spec import FenceMark, RangeSpec, StateTopics
from twinlog.logs.log_state import LogState
from twinlog.offsets.segments import Column, cut
from twinlog.protocol.brokers import Brokers

LAST_WORD_SECONDS: Final = 1.0
"""How long lanes of another driver may take to write their progress once told to stop: a few commit ticks."""

_BEYOND: Final = 1 << 62
"""More than any offset."""


def grant(
    target: Brokers, flow: str, state: StateTopics, run_id: str, lanes: int, logs: fence.FenceLogs
) -> fence.Grant:
    """Tell another driver to stop, read progress, and return writers without transactions.

    Lanes of `run_id` itself may still be about to write. Its driver waits for their end, and then takes a new grant.
    (Tasks of a Spark job that was killed may write a moment longer.) A lane of another driver writes all the same if
    it hears later than `LAST_WORD_SECONDS` (a frozen process), or never (lanes of a cycle do not listen).

    Raises FencedError if another driver took the flow at the same time, TerminalError if the state belongs to another
    flow, and as `StateLog.read`, `init_writer` and `write_own`.
    """
    ledger = _ours(target, Identity(flow, state.source_cluster_id, state.target_cluster_id), state, logs)
    before = fence.last_fence(ledger)
    # If the guarantee is changed back later, the next fence has to reach the lanes from before.
    called = LaneFence(run_id, max(fence.lanes_ever(ledger)), clock.now_ms())
    _write(target, [StateRecord.of_ledger(state.ledger_topic, called)])
    if before is not None and before.run_id != run_id:
        time.sleep(LAST_WORD_SECONDS)
    holder = fence.last_fence(logs.ledger.read(target))
    mark = FenceMark(run_id, called.at_ms, logs.ledger.position(0))
    if holder is not None and not mark.is_of(holder):
        raise FencedError(
            f"another twinlog runs the flow: {holder.run_id}",
            hint="let one of them run; this one copied nothing",
            run_id=holder.run_id,
        )
    progress = fence.own_progress(logs.progress.read(target).committed, state)
    granted = tuple(fence.GrantedLane(n, fence.init_writer(target, None, 0)) for n in range(lanes))
    return fence.Grant(run_id, granted, progress, mark)


def _ours(target: Brokers, identity: Identity, state: StateTopics, logs: fence.FenceLogs) -> LogState:
    """Read the ledger, and claim it if no flow has claimed it (lane/fence/ownership.py)."""
    ledger = logs.ledger.read(target)
    owned = fence.read_owned(logs, ledger)
    require_ours(identity, owned)
    if identity.known and not owned.claims:
        claim = identity.claim(clock.now_ms())
        _write(target, [StateRecord(state.ledger_topic, 0, claim.key(), claim.value())])
        ledger = logs.ledger.read(target)
        require_claimed(identity, fence.read_owned(logs, ledger))
    return ledger


def cut_maps(target: Brokers, state: StateTopics, ranges: Sequence[RangeSpec], logs: fence.FenceLogs) -> None:
    """Cut the maps of `ranges` where the ranges begin; call this while no lane of the flow writes.

    Raises as `StateLog.read` and `write_own`.
    """
    logs.offset_map.catch_up(target)
    stored = {key: it.value for key, it in logs.offset_map.records.items() if it.value is not None}
    if records := [*beyond(state, stored, ranges)]:
        _write(target, records)


def _write(target: Brokers, records: list[StateRecord]) -> None:
    fence.write_own(Lane(target, fence.init_writer(target, None, 0)), records)


def beyond(
    state: StateTopics, stored: Mapping[bytes, bytes], ranges: Sequence[RangeSpec]
) -> Iterator[StateRecord]:
    """Return the rest of each map segment that reaches into what is about to be copied. Pure.

    `stored` are the records of the map topic. If segments contradict each other, because two drivers copied the same
    records, the newer ones stay: either copy is true. A map that cannot be read is left as it is, as evidence. If one
    record's key is not a map key, all maps are left as they are.
    """
    grouped: Mapping[MapKey, Mapping[int, bytes]] = {}
    with suppress(FormatError):
        grouped = group_segments(stored.items())
    starts = {MapKey(*it.life, 0): it.start for it in ranges}
    for key, start in starts.items():
        with suppress(UnreadableMap):
            yield from _cut(state, key, PackedMap.of(grouped.get(key, {})), start)


def _cut(state: StateTopics, key: MapKey, packed: PackedMap, start: int) -> Iterator[StateRecord]:
    ends = np.minimum(packed.end, start)
    if not packed.orderly() and not _agree(packed):
        ends = _in_order(packed, ends)
    rows = np.flatnonzero(ends < packed.end)
    pieces = packed.decoded(rows)
    for row, end in enumerate(ends[rows].tolist()):
        one = pieces.piece(row)
        left = cut(one, end)
        name = MapKey(*key.life, one.first_upstream)
        yield map_record(state, name, None if left is None else encode_segment(left))


def _agree(packed: PackedMap) -> bool:
    """Say whether overlapping segments agree."""
    try:
        packed.open()
    except UnreadableMap:
        return False
    return True


def _in_order(packed: PackedMap, ends: Column) -> Column:
    """End each segment (upstream) where a later one begins, on the source and on the target."""
    ends = np.concatenate((np.minimum(ends[:-1], packed.first[1:]), ends[-1:]))
    pieces = packed.pieces()
    low = _BEYOND
    for row in reversed(range(len(ends))):
        left = cut(pieces.piece(row), int(ends[row]))
        for run in left.runs if left is not None else ():
            if run.downstream + run.length > low:
                ends[row] = run.upstream + max(0, low - run.downstream)
                break
        left = cut(pieces.piece(row), int(ends[row]))
        if left is not None and left.runs:
            low = left.runs[0].downstream
    return ends
