"""Records that change what progress and the map are about."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.values import PartitionOffsets
from twinlog.formats.ledger.audit import PartitionAudit
from twinlog.formats.ledger.records import Gap, GapCause
from twinlog.formats.ledger.topics import Beginning, Incarnation, LeaderEpoch
from twinlog.lane.spec import StateTopics
from twinlog.lifecycle.plan import Lost
from twinlog.lifecycle.records import (
    adoption,
    rewinding,
)
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import (
    Extent,
    MapSegment,
    cut,
)
from twinlog.state.ledger import ledger_from
from twinlog.state.progress import Maps
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic


@st.composite
def pieces(draw: st.DrawFn) -> MapSegment:
    """A piece of a few runs with holes on both sides."""
    first = upstream = draw(st.integers(0, 20))
    downstream = draw(st.integers(0, 20))
    runs = []
    for _ in range(draw(st.integers(0, 4))):
        upstream += draw(st.integers(0, 3))
        downstream += draw(st.integers(0, 3))
        length = draw(st.integers(1, 5))
        runs.append(Extent(upstream, downstream, length))
        upstream, downstream = upstream + length, downstream + length
    return MapSegment(first, upstream + draw(st.integers(0, 3)), tuple(runs))


@given(pieces(), st.integers(0, 60))
def test_a_cut_piece_knows_what_lies_before_the_cut_and_nothing_else(piece: MapSegment, at: int) -> None:
    """Every upstream offset below the cut keeps its copy; none at or behind it has one."""

    def pairs(known: MapSegment | None) -> dict[int, int]:
        runs = known.runs if known is not None else ()
        return {run.upstream + n: run.downstream + n for run in runs for n in range(run.length)}

    kept = cut(piece, at)
    assert {u: d for u, d in pairs(piece).items() if u < at} == pairs(kept)
    assert kept is None or kept.end_upstream == min(piece.end_upstream, at)
    if kept is not None:
        OffsetMap.of([kept])


def test_what_was_audited_of_a_log_that_was_cut_is_forgotten() -> None:
    """New records lie at the same upstream offsets: none of them was compared.  Its neighbours' audits stay."""
    audits = [
        PartitionAudit(topic, topic_id, number, "A.t", "rid", 0, 9, 9, 9, 9, 0, (), 0, (), 1)
        for topic, topic_id, number in (("t", "id", 0), ("t", "id", 1), ("t", "before", 0), ("u", "id", 0))
    ]
    state = StateTopics("offsets", 4, "map", 4, "ledger", "connector", "A")
    lost = Lost("t", "id", "A.t", 0, 5, 8, truncated=True, past=True, epoch=3)
    gap = Gap("t", 0, 5, 8, GapCause.TRUNCATION, 1, 4, "id", copied_past=True)
    records = list(rewinding(state, lost, gap, Maps({}, {}), ledger_from(audits)))
    forgotten = [it.key for it in records if it.topic == "ledger" and it.value is None]
    assert [audits[0].key()] == forgotten


def test_where_the_copy_keeps_what_the_source_lost_is_noted() -> None:
    """The map forgets it, and the audit took these records for strangers."""
    state = StateTopics("offsets", 4, "map", 4, "ledger", "connector", "A")
    lost = Lost("t", "id", "A.t", 0, 5, 8, truncated=True, past=True, epoch=3)
    gap = Gap("t", 0, 5, 8, GapCause.TRUNCATION, 1, 4, "id", copied_past=True)
    known = OffsetMap.of([MapSegment(0, 9, (Extent(0, 100, 7), Extent(7, 110, 2)))])
    packed: Any = SimpleNamespace(open=lambda: known, pieces=lambda: None)
    noted = next(rewinding(state, lost, gap, Maps({lost.life: packed}, {}), ledger_from([])))
    assert (105, 112) == tuple(json.loads(noted.value or b"{}")[name] for name in ("kept_from", "kept_end"))


def test_what_was_noted_of_the_earlier_life_goes_with_it() -> None:
    """Where it began and its leader epochs: a topic made anew each night leaves one life a night, and no more."""
    state = StateTopics("offsets", 4, "map", 4, "ledger", "connector", "A")
    begins = Beginning("t", "old", {"0": 0}, {"0": 0}, 1)
    epochs = [LeaderEpoch(topic, "old", 0, 3, 0) for topic in ("t", "u")]
    ledger = ledger_from([Incarnation("t", "old", 1, "A.t"), begins, *epochs])
    partition = DiscoveredPartition("t", "new", 0, PartitionOffsets(0, 0, 0), None)
    topic = DiscoveredTopic("t", "new", "A.t", 1, (partition,), None)
    records = [*adoption(state, topic, ledger, {}, "cluster", 9)]
    assert {begins.key(), epochs[0].key()} == {it.key for it in records if it.value is None}
    assert {Beginning("t", "new", {}, {}, 1).key()} <= {it.key for it in records if it.value is not None}
