"""What a replay takes from ledger and quarantine, in which order, how much at once, and where it may write."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from twinlog.batches.quarantine import Origin, Part
from twinlog.formats.ledger.records import Gap, GapCause, Quarantine, QuarantineReplayed
from twinlog.formats.ledger.topics import Incarnation
from twinlog.quarantine.replay import Wanted, chunks, not_the_users
from twinlog.quarantine.rescue import Rescue, in_order
from twinlog.state.ledger import ledger_from


def rescue(partition: int, offset: int, size: int = 0) -> Rescue:
    origin = Origin("t", "id", partition, offset)
    return Rescue(origin, (Part(origin, 1, "", 1, 1, None, b"x" * size, ()),))


def replayed(offset: int, to_topic_id: str = "mine-1") -> QuarantineReplayed:
    return QuarantineReplayed("t", "id", 0, offset, "mine", to_topic_id, "ann", 10)


@given(st.lists(st.integers(0, 30)), st.integers(1, 40))
def test_a_transaction_holds_a_bounded_part_of_the_quarantine(sizes: list[int], most: int) -> None:
    """All of it, in order, none empty; larger than the bound only if it is a single rescue."""
    records = [rescue(0, offset, size) for offset, size in enumerate(sizes)]
    made = list(chunks(records, most))
    assert records == [it for chunk in made for it in chunk]
    assert all(chunk and (len(chunk) == 1 or sum(it.size for it in chunk) <= most) for chunk in made)


@given(st.sets(st.tuples(st.integers(0, 2), st.integers(0, 20))), st.data())
def test_damaged_batches_stand_where_they_stood_in_the_source(
    places: set[tuple[int, int]], data: st.DataObject
) -> None:
    """Each partition is in the order of the source if the quarantine is, wherever its batches come from."""
    order = data.draw(st.permutations(sorted(places)))
    batches = {it for it in order if data.draw(st.booleans())}
    kept = [it for it in sorted(places, key=lambda it: it[1]) if it not in batches]
    made = [
        it.origin
        for it in in_order([rescue(*it) for it in kept], [rescue(*it) for it in order if it in batches])
    ]
    assert len(places) == len(made)
    for partition in range(3):
        expected = sorted(offset for number, offset in places if number == partition)
        assert expected == [it.offset for it in made if it.partition == partition]


LACKING = (
    Quarantine("t", 0, 5, "too large", 9, "id"),
    Quarantine("t", 0, 8, "too large", 9, "id"),
    Gap("t", 0, 6, 7, GapCause.QUARANTINE, 9, 2, "id", copied_past=True),
    Gap("t", 0, 20, 29, GapCause.RETENTION, 9, 10, "id", copied_past=True),
)


def test_what_the_topic_has_got_is_not_written_again() -> None:
    """By the topic's id: one that was deleted and created again has nothing."""
    ledger = ledger_from([*LACKING, replayed(5), replayed(6)])
    wanted, anew = Wanted.of(ledger, "mine-1"), Wanted.of(ledger, "mine-2")
    assert ({Origin("t", "id", 0, 8)}, (), 2) == (wanted.records, wanted.damaged, wanted.before)
    assert (2, [6], 0) == (len(anew.records), [it.first_offset for it in anew.damaged], anew.before)


def test_a_record_behind_later_ones_is_told() -> None:
    """Also behind what an earlier replay wrote; other partitions and incarnations have their own order."""
    wanted = Wanted.of(ledger_from([*LACKING, replayed(8)]), "mine-1")
    assert [True, False, False, True] == [
        wanted.note(it)
        for it in (
            Origin("t", "id", 0, 5),
            Origin("t", "id", 1, 5),
            Origin("t", "other", 0, 5),
            Origin("t", "id", 0, 6),
        )
    ]


def test_only_a_topic_of_the_users_is_filled(flow) -> None:
    """Not the copy, whose records stand in the source's order; nor what twinlog, MirrorMaker 2 or Kafka keep."""
    ledger = ledger_from([Incarnation("orders", "id", 1, "A.orders")])
    flow = replace(flow, aliases=frozenset({"A", "B", "C"}))
    others = (
        "A.orders",
        "A.new",
        "C.orders",
        flow.ledger_topic,
        flow.quarantine_topic,
        "mm2-ledger.C.internal",
        "__consumer_offsets",
    )
    assert "" == not_the_users(flow, ledger, "orders.rescued")
    assert all(not_the_users(flow, ledger, topic) for topic in others)
