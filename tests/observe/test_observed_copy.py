"""What is told of groups in a copy that another engine makes."""

from __future__ import annotations

from dataclasses import replace

from twinlog.config.flow.settings import CopiedBy
from twinlog.fact import Total
from twinlog.formats.ledger.observed import Observed
from twinlog.formats.ledger.records import Incarnation
from twinlog.observe.observed_copy import EnginePosition, ObservedCopy, observed_copy
from twinlog.state.ledger import Ledger


def position(again: int | None, skipped: int | None, by_map: int | None) -> EnginePosition:
    return EnginePosition(
        group="billing",
        topic="orders",
        remote_topic="A.orders",
        partition=0,
        upstream_offset=5,
        ours=None if again is None else 5,
        exact=again is not None,
        theirs=3,
        by="committed",
        again=again,
        skipped=skipped,
        again_by_map=by_map,
    )


def told(*groups: EnginePosition) -> str:
    return ObservedCopy("mirrormaker2", (), groups, ()).told


def test_positions_that_are_not_known_are_no_zero():
    """Neither alone, nor beside others."""
    unknown = position(None, None, None)
    assert "of 2 of 2 positions it is not known yet" == told(unknown, unknown)
    assert told(position(2, 7, 1), unknown) == (
        "2 records read again and 7 skipped by the translation of mirrormaker2; 1 and none by the map, where it is"
        " exact; of 1 of 2 positions it is not known yet"
    )
    assert "not known" not in told(position(2, 7, 1))


def test_no_kind_counts_0_where_a_partition_was_not_observed(flow):
    """And such a topic is not one that is equal alone."""
    seen = Observed("orders", "", 0, "A.orders", "", 0, 9, 9, 9, 9, {"doubled": 4}, {}, (), 0, 0, 1, {})
    ledger = Ledger(
        incarnations={"orders": Incarnation("orders", "", 1, "A.orders")}, observed={seen.life: seen}
    )
    found = {"orders": {"missing": Total(0, "not observed"), "doubled": Total(4, "not observed")}}
    copy = observed_copy(replace(flow, copied_by=CopiedBy.MIRRORING), ledger, (), (), found)
    assert copy is not None
    (topic,) = copy.topics
    assert {"missing": None, "doubled": 4} == topic.counts
    assert not replace(topic, counts={"missing": None}).equal_alone
    assert replace(topic, counts={"missing": 0}).equal_alone
