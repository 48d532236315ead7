"""Where a quarantine may be replayed to, and how much of it at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinlog.batches.quarantine import Origin, Part
from twinlog.formats.ledger.topics import Incarnation
from twinlog.quarantine.read import Aside
from twinlog.quarantine.replay import chunks, not_the_users
from twinlog.state.ledger import ledger_from


@given(st.lists(st.integers(0, 30)), st.integers(1, 40))
def test_a_transaction_holds_a_bounded_part_of_the_quarantine(sizes: list[int], most: int) -> None:
    """All of it, in order, none empty; larger than the bound only if it is a single record."""
    records = [
        Aside(Part(Origin("t", "id", 0, offset), 1, "", 1, 1, None, b"x" * size, ()), offset, offset)
        for offset, size in enumerate(sizes)
    ]
    made = list(chunks(records, most))
    assert records == [it for chunk in made for it in chunk]
    assert all(chunk and (len(chunk) == 1 or sum(it.size for it in chunk) <= most) for chunk in made)


def test_only_a_topic_of_the_users_is_filled(flow) -> None:
    """Not the copy, whose records stand in the source's order; nor what twinlog, MirrorMaker 2 or Kafka keep."""
    ledger = ledger_from([Incarnation("orders", "id", 1, "A.orders")])
    others = (
        "A.orders",
        flow.ledger_topic,
        flow.quarantine_topic,
        "mm2-ledger.C.internal",
        "__consumer_offsets",
    )
    assert "" == not_the_users(flow, ledger, "orders.rescued")
    assert all(not_the_users(flow, ledger, topic) for topic in others)
