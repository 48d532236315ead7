"""What the ledger notes and what the quarantine topic holds, as one list; parts are joined."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinlog.batches.quarantine import Captured, Origin, Part, parts, read_part
from twinlog.batches.record import record_rest
from twinlog.formats.ledger.records import Quarantine
from twinlog.quarantine.read import Aside, Joining, Kept, rows
from twinlog.state.ledger import ledger_from

contents = st.none() | st.binary(max_size=300)


@given(st.lists(st.tuples(contents, contents), max_size=4), st.integers(650, 900))
def test_what_was_written_aside_is_found_again(
    records: list[tuple[bytes | None, bytes | None]], most: int
) -> None:
    """Split or not: origin, time, reason, size and place; headers of the record such as look like ours do no harm."""
    joining, expected, found, at = Joining(), list[Aside](), list[Aside](), 0
    for offset, (key, value) in enumerate(records):
        rest = bytes(record_rest(key and key[:20], value, (("twinlog.topic", b"mine"),)))
        captured = Captured("t", "id", 3, offset, 1_000 + offset, rest, "too large")
        first = at
        for part in parts(captured, most):
            found += joining.take(at, read_part(part))
            at += 1
        size = len((key or b"")[:20]) + len(value or b"")
        expected.append(Aside(Origin("t", "id", 3, offset), 1_000 + offset, "too large", size, first, at - 1))
    assert expected == found


def test_parts_of_two_lanes_and_a_record_begun_anew_are_told_apart() -> None:
    """Parts of another record may lie between; a lane that died leaves a beginning; a repetition is left out."""
    one, two = Origin("t", "id", 0, 5), Origin("u", "id", 0, 7)

    def part(origin: Origin, number: int) -> Part:
        return Part(origin, 1, "too large", number, 2, 3)

    joining = Joining()
    log = [part(one, 1), part(two, 1), part(one, 1), part(one, 2), part(two, 2), part(one, 1), part(one, 2)]
    found = [aside for offset, it in enumerate(log) for aside in joining.take(offset, it)]
    assert [(one, 6, 2, 3), (two, 6, 1, 4)] == [
        (it.origin, it.size, it.first_offset, it.last_offset) for it in found
    ]


def test_the_list_says_what_is_left_of_each_record() -> None:
    """Held, gone from the topic, or held while the ledger has forgotten it."""
    ledger = ledger_from([
        Quarantine("t", 0, 5, "too large", 9, "id"),
        Quarantine("t", 0, 6, "too large", 9, "id"),
    ])
    held = [
        Aside(Origin("t", "id", 0, 5), 1, "too large", 40, 3, 3),
        Aside(Origin("t", "before", 0, 5), 1, "no timestamp", 50, 0, 2),
    ]
    assert [
        ("before", 5, "no timestamp", Kept.UNLISTED, "q-0 at 0 to 2", 50),
        ("id", 5, "too large", Kept.HELD, "q-0 at 3", 40),
        ("id", 6, "too large", Kept.GONE, "", None),
    ] == [(it.topic_id, it.offset, it.reason, it.state, it.place, it.size) for it in rows("q", ledger, held)]
