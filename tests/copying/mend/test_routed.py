"""A transaction that lost its end in a routed topic has the end that progress has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from twinlog.batches.routed import Origin
from twinlog.copying.mend import routed
from twinlog.copying.mend.outcomes import Outcome
from twinlog.copying.mend.routed import outcome, without_lost_markers
from twinlog.copying.ranges import ResolvedRanges
from twinlog.kafka_types import TopicPartition
from twinlog.lane.fence.fence import Grant
from twinlog.lane.open_transactions import FoundHanging, HangingTransaction
from twinlog.lane.spec import FenceMark, RangeSpec, RoutedTopic
from twinlog.transforms.chain import Chain
from twinlog.transforms.routes import Partitioner, Route
from twinlog.transforms.rules import Rule

PROGRESS = {TopicPartition("orders", 1): 7}


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (Origin("A", "orders", "id", 1, 7), Outcome.COMMITTED),
        (Origin("A", "orders", "id", 1, 8), Outcome.ABORTED),
        (Origin("A", "orders", "id", 0, 0), Outcome.ABORTED),
        (Origin("A", "orders", "earlier", 1, 7), Outcome.UNKNOWN),
        (Origin("A", "other", "id", 1, 7), Outcome.UNKNOWN),
        (None, Outcome.UNKNOWN),
    ],
)
def test_progress_tells_the_outcome(origin: Origin | None, expected: Outcome) -> None:
    """It was written in the same transaction; of another incarnation, or of no origin, it tells nothing."""
    assert expected is outcome(origin, {"orders": "id"}, PROGRESS)


def test_nothing_is_routed_behind_a_transaction_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be decided with the next one; a partition without a leader cannot tell."""
    chain = Chain(rules=(Rule("r", (".*",), route=Route("alerts", Partitioner.SAME)),))
    found = [RangeSpec("t", "id", "A.t", n, 0, 9, chain=chain) for n in (0, 1, 2)]
    known = (
        *(replace(it, routed=(RoutedTopic("alerts", 3),)) for it in found),
        RangeSpec("plain", "id", "A.plain", 0, 0, 9),
    )
    first, second = (TopicPartition("alerts", n) for n in (0, 1))
    seen = FoundHanging({first: HangingTransaction(7, 5, 9)}, frozenset([second]), frozenset(), {})
    written: list[Any] = []
    monkeypatch.setattr(routed, "wait_until_led", lambda *_: seen)
    monkeypatch.setattr(routed, "wait_until_ended", lambda *_: seen)
    monkeypatch.setattr(routed, "PartitionReader", lambda *_, **__: None)
    monkeypatch.setattr(routed, "_first_origin", lambda *_: None)
    monkeypatch.setattr(routed, "rewrite_markers", lambda _, __, endings: written.append(endings))
    nothing: Any = None
    grant = Grant("run", (), {}, FenceMark("run", 1, 0))
    left = without_lost_markers(nothing, ResolvedRanges(known, ()), (), grant, "B")
    assert [("t", 2), ("plain", 0)] == [it.topic_partition for it in left.ranges]
    assert [(0, "lost-marker"), (1, "no-leader")] == [(it.partition, it.code) for it in left.stopped]
    assert "alerts-0, to which it is routed, holds records open from offset 5 on" in left.stopped[0].message
    assert [{(first, 7): Outcome.UNKNOWN}] == written
    plain = ResolvedRanges(known[3:], ())
    assert plain is without_lost_markers(nothing, plain, (), grant, "B")
