"""Taking a flow that copies at least once: no broker keeps anybody out, and nothing ties map and progress together.

Whoever follows is called back by a record in the ledger (relay/recall.py), as a fence does it; what two drivers copy at
once is there twice.  Of a lane that died, the map may reach beyond progress, which is written behind it
(relay/copy_transaction.py): what lies between is copied again, and its map begins at progress.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import numpy as np

from twinlog import clock
from twinlog.errors import FormatError
from twinlog.formats.ledger import Incarnation, LaneFence, parse_ledger
from twinlog.formats.offset_map import MapKey, encode_piece
from twinlog.formats.packed_map import PackedMap, UnreadableMap, group_pieces
from twinlog.relay.brokers import Brokers
from twinlog.relay.fence import (
    FenceLogs,
    Grant,
    GrantedLane,
    init_writer,
    lanes_ever,
    own_progress,
    write_own,
)
from twinlog.relay.lane import Lane
from twinlog.relay.spec import FenceMark, StateTopics
from twinlog.relay.state_records import StateRecord, map_record
from twinlog.steps.life_records import cut


def grant(target: Brokers, state: StateTopics, *, run_id: str, lanes: int, logs: FenceLogs) -> Grant:
    """Call back whoever follows, cut the map where progress ends, and return writers without transactions.

    Raises as `StateLog.read`, `init_writer` and `write_own`.
    """
    ledger = logs.ledger.read(target)
    mark = FenceMark(run_id, clock.now_ms(), logs.ledger.position(0))
    # If the guarantee is changed back, that fence has to reach the lanes from before.
    called = LaneFence(run_id, max(lanes_ever(ledger)), mark.at_ms)
    _write(target, [StateRecord(state.ledger_topic, 0, called.key(), called.value())])
    progress = own_progress(logs.progress.read(target).committed, state)
    if cut := _cut_back(target, state, progress, logs):
        _write(target, cut)
    granted = tuple(GrantedLane(n, init_writer(target, None, 0)) for n in range(lanes))
    return Grant(run_id, granted, progress, mark)


def _write(target: Brokers, records: list[StateRecord]) -> None:
    write_own(Lane(target, init_writer(target, None, 0)), records)


def _cut_back(
    target: Brokers, state: StateTopics, progress: Mapping[tuple[str, int], int], logs: FenceLogs
) -> list[StateRecord]:
    ledger = logs.ledger.read(target).committed.items()
    known = (parse_ledger(key, value) for key, value in ledger)
    lives = {it.topic: it.topic_id for it in known if isinstance(it, Incarnation)}
    logs.offset_map.read(target)
    stored = {key: it.value for key, it in logs.offset_map.records.items() if it.value is not None}
    return [*beyond(state, stored, lives, progress)]


def beyond(
    state: StateTopics,
    stored: Mapping[bytes, bytes],
    lives: Mapping[str, str],
    progress: Mapping[tuple[str, int], int],
) -> Iterator[StateRecord]:
    """Say of every piece that reaches beyond progress (last copied upstream offset) what is left of it.  Pure.

    `stored` are the records of the map topic, `lives` the topic ids that progress is about.  A map that cannot be read
    is left as it is, as evidence; so is one without progress, and all where a record's key is none of the map.
    """
    grouped: Mapping[MapKey, Mapping[int, bytes]] = {}
    with suppress(FormatError):
        grouped = group_pieces(stored.items())
    for key, values in grouped.items():
        last = progress.get((key.topic, key.partition))
        if last is None or lives.get(key.topic) != key.topic_id:
            continue
        with suppress(UnreadableMap):
            packed = PackedMap.of(values)
            rows = np.flatnonzero(packed.end > last + 1)
            pieces = packed.decoded(rows)
            for row in range(len(rows)):
                one = pieces.piece(row)
                left = cut(one, last + 1)
                name = MapKey(key.topic, key.topic_id, key.partition, one.first_upstream)
                yield map_record(state, name, None if left is None else encode_piece(left))
