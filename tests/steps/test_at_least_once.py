"""What a lane that died between map and progress left in the map."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strategies import maps
from twinlog.formats.offset_map import MapKey, decode_map_key, encode_map_key, encode_piece
from twinlog.formats.packed_map import PackedMap
from twinlog.offsets.piece import MapPiece
from twinlog.offsets.run import Run
from twinlog.relay.spec import StateTopics
from twinlog.steps.at_least_once import beyond

STATE = StateTopics("offsets", 4, "map", 4, "ledger", "MirrorSourceConnector", "A")
LIVES = {"t": "id"}


def stored(pieces: list[MapPiece], topic_id: str = "id") -> dict[bytes, bytes]:
    """The map topic's records of one partition."""
    return {
        encode_map_key(MapKey("t", topic_id, 0, it.first_upstream)): encode_piece(it)
        for it in pieces
        if it.first_upstream < it.end_upstream
    }


def after(records: dict[bytes, bytes], last: int) -> dict[bytes, bytes]:
    """The map topic when what reaches beyond progress was cut."""
    written = {it.key: it.value for it in beyond(STATE, records, LIVES, {("t", 0): last})}
    return {key: value for key, value in {**records, **written}.items() if value is not None}


@given(maps(), st.integers(0, 40))
def test_the_next_copy_contradicts_nothing(pieces: list[MapPiece], last: int) -> None:
    """Every run up to progress is as it was, none is beyond, and a piece that begins behind progress fits."""
    records = after(stored(pieces), last)
    again = MapPiece(last + 1, last + 3, (Run(last + 1, 1_000_000, 2),))
    records |= stored([again])
    opened = PackedMap.of({
        decode_map_key(key).first_upstream: value for key, value in records.items()
    }).open()
    kept = [
        Run(run.upstream, run.downstream, min(run.length, last + 1 - run.upstream))
        for piece in pieces
        for run in piece.runs
        if run.upstream <= last
    ]
    offsets = {
        up: run.downstream + up - run.upstream for run in kept for up in range(run.upstream, run.upstream_end)
    }
    found = {
        up: run.downstream + up - run.upstream
        for run in opened.runs
        for up in range(run.upstream, run.upstream_end)
    }
    assert {**offsets, last + 1: 1_000_000, last + 2: 1_000_001} == found


def test_what_progress_is_not_about_is_left() -> None:
    """An earlier life of the topic, a partition without progress, a map that cannot be read, a stranger's record."""
    records = stored([MapPiece(0, 9, (Run(0, 0, 9),))])
    assert [] == list(beyond(STATE, stored([MapPiece(0, 9, ())], "earlier"), LIVES, {("t", 0): 4}))
    assert [] == list(beyond(STATE, records, LIVES, {("t", 1): 4}))
    assert [] == list(beyond(STATE, {next(iter(records)): b"\xff"}, LIVES, {("t", 0): 4}))
    assert [] == list(beyond(STATE, {**records, b"stranger": b""}, LIVES, {("t", 0): 4}))
    assert 1 == len(list(beyond(STATE, records, LIVES, {("t", 0): 4})))
