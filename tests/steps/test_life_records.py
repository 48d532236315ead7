"""Records that change what progress and the map are about."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.ledger import ledger_from
from twinlog.cluster.progress import Maps, SourceLife
from twinlog.cluster.values import TopicPartition
from twinlog.formats.ledger import Gap, GapCause, Quarantine
from twinlog.formats.ledger_audit import PartitionAudit, SampleAudit
from twinlog.formats.ledger_metadata import TopicConfigsSet
from twinlog.formats.ledger_topics import (
    Beginning,
    DeletedTopic,
    Incarnation,
    LeaderEpoch,
    Rebuild,
    RebuildPhase,
    TopicPause,
)
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.piece import MapPiece
from twinlog.offsets.run import Run
from twinlog.relay.spec import StateTopics
from twinlog.steps.life_plan import Lost
from twinlog.steps.life_records import cut, erasure, last_traces, rewinding


@st.composite
def pieces(draw: st.DrawFn) -> MapPiece:
    """A piece of a few runs with holes on both sides."""
    first = upstream = draw(st.integers(0, 20))
    downstream = draw(st.integers(0, 20))
    runs = []
    for _ in range(draw(st.integers(0, 4))):
        upstream += draw(st.integers(0, 3))
        downstream += draw(st.integers(0, 3))
        length = draw(st.integers(1, 5))
        runs.append(Run(upstream, downstream, length))
        upstream, downstream = upstream + length, downstream + length
    return MapPiece(first, upstream + draw(st.integers(0, 3)), tuple(runs))


@given(pieces(), st.integers(0, 60))
def test_a_cut_piece_knows_what_lies_before_the_cut_and_nothing_else(piece: MapPiece, at: int) -> None:
    """Every upstream offset below the cut keeps its copy; none at or behind it has one."""

    def pairs(known: MapPiece | None) -> dict[int, int]:
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
    sample = SampleAudit("t", "id", 0, 0.5, 1, 9, 9, 0, 0, (), 2)
    state = StateTopics("offsets", 4, "map", 4, "ledger", "connector", "A")
    lost = Lost("t", "id", "A.t", 0, 5, 8, truncated=True, past=True, epoch=3)
    gap = Gap("t", 0, 5, 8, GapCause.TRUNCATION, 1, 4, "id", copied_past=True)
    records = list(rewinding(state, lost, gap, Maps({}, {}), ledger_from([*audits, sample])))
    forgotten = [it.key for it in records if it.topic == "ledger" and it.value is None]
    assert [audits[0].key(), sample.key()] == forgotten


def test_of_a_topic_that_is_gone_on_both_sides_no_key_is_left() -> None:
    """Whatever was ever written about it, in each of its lives; what is about others stays, and so does a pause."""

    def everything(topic: str) -> list:
        lives = [
            Incarnation(topic, f"{topic}{number}", number, f"A.{topic}", number=number) for number in (1, 2)
        ]
        each = [
            record
            for life in lives
            for record in (
                Beginning(topic, life.topic_id, {"0": 0}, {"0": 0}, 1),
                LeaderEpoch(topic, life.topic_id, 0, 3, 9),
                Gap(topic, 0, 5, 8, GapCause.RETENTION, 1, 4, life.topic_id, copied_past=True),
                Quarantine(topic, 0, 5, "too big", 7, life.topic_id),
                PartitionAudit(topic, life.topic_id, 0, "A.t", "rid", 0, 9, 9, 9, 9, 0, (), 0, (), 1),
                SampleAudit(topic, life.topic_id, 0, 0.5, 1, 9, 9, 0, 0, (), 2),
            )
        ]
        rebuilt = Rebuild(topic, f"{topic}2", f"A.{topic}", "", RebuildPhase.DONE, "jo", "why", 1)
        gone = DeletedTopic(topic, f"{topic}2", f"A.{topic}", 9)
        return [*lives, *each, rebuilt, gone, TopicConfigsSet(f"A.{topic}", {"a": "b"}, 1)]

    pause = TopicPause("t", 1, "jo", "why")
    ledger = ledger_from([*everything("t"), *everything("u"), pause])
    state = StateTopics("offsets", 4, "map", 4, "ledger", "connector", "A")
    stored = {SourceLife(topic, f"{topic}{number}", 0): [0, 5] for topic in "tu" for number in (1, 2)}
    progress = [TopicPartition(topic, 0) for topic in "tu"]
    records = [
        *erasure(state, "t", progress, stored, ledger),
        *last_traces(state, ledger.deleted["t"], ledger),
    ]
    assert all(it.value is None for it in records)
    left = {it.key() for it in (*everything("t"), *everything("u"), pause)} - {it.key for it in records}
    assert {it.key() for it in (*everything("u"), pause)} == left
    assert 4 == sum(it.topic == "map" for it in records)
    assert 1 == sum(it.topic == "offsets" for it in records)
