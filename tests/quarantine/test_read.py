"""What the ledger notes and what the quarantine topic holds, as one list; parts are joined."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinlog.batches.quarantine import Captured, Origin, Part, parts, read_part
from twinlog.batches.record import Headers, record_rest
from twinlog.formats.ledger.records import Quarantine, QuarantineReplayed
from twinlog.quarantine.read import Aside, Joining, Kept, rows
from twinlog.state.ledger import ledger_from

texts = st.text(max_size=8)
contents = st.none() | st.binary(max_size=300)


@given(
    st.lists(
        st.tuples(
            contents, contents, st.lists(st.tuples(texts | st.just("twinlog.topic"), contents), max_size=3)
        ),
        max_size=4,
    ),
    st.integers(650, 900),
)
def test_what_was_written_aside_is_read_back_as_it_was(
    records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]], most: int
) -> None:
    """Split or not: key, value, headers (also such as look like ours), origin, time and reason."""
    joining, expected, found = Joining(), [], []
    for offset, (key, value, headers) in enumerate(records):
        own: Headers = tuple(headers)
        rest = bytes(record_rest(key and key[:20], value, own))
        if sum(len(name) + len(content or b"") for name, content in headers) > 100:
            continue
        captured = Captured("t", "id", 3, offset, 1_000 + offset, rest, "too large")
        for number, part in enumerate(parts(captured, most)):
            found += joining.take(10 * offset + number, read_part(part))
        expected.append(
            Part(
                Origin("t", "id", 3, offset), 1_000 + offset, "too large", 1, 1, key and key[:20], value, own
            )
        )
    assert expected == [it.part for it in found]


def test_parts_of_two_lanes_and_a_record_begun_anew_are_told_apart() -> None:
    """Parts of another record may lie between; a lane that died leaves a beginning; a repetition is left out."""
    one, two = Origin("t", "id", 0, 5), Origin("u", "id", 0, 7)

    def part(origin: Origin, number: int, value: bytes) -> Part:
        return Part(origin, 1, "too large", number, 2, b"k" if number == 1 else None, value, ())

    joining = Joining()
    log = [
        part(one, 1, b"a"),
        part(two, 1, b"x"),
        part(one, 1, b"a"),
        part(one, 2, b"b"),
        part(two, 2, b"y"),
        part(one, 1, b"a"),
        part(one, 2, b"b"),
    ]
    found = [aside for offset, it in enumerate(log) for aside in joining.take(offset, it)]
    assert [(one, b"ab", 2, 3), (two, b"xy", 1, 4)] == [
        (it.origin, it.part.value, it.first_offset, it.last_offset) for it in found
    ]


def test_the_list_says_what_is_left_of_each_record() -> None:
    """Held, gone from the topic, or held while the ledger has forgotten it; and where it was replayed to."""
    ledger = ledger_from([
        Quarantine("t", 0, 5, "too large", 9, "id"),
        Quarantine("t", 0, 6, "too large", 9, "id"),
        QuarantineReplayed("t", "id", 0, 5, "mine", "mine-1", "ann", 10),
    ])
    held = [
        (Aside(Part(Origin("t", "id", 0, 5), 1, "too large", 1, 1, None, None, ()), 3, 3), 40),
        (Aside(Part(Origin("t", "before", 0, 5), 1, "no timestamp", 1, 1, None, None, ()), 0, 2), 50),
    ]
    assert [
        ("before", 5, "no timestamp", Kept.UNLISTED, "q-0 at 0 to 2", 50, ()),
        ("id", 5, "too large", Kept.HELD, "q-0 at 3", 40, ("mine",)),
        ("id", 6, "too large", Kept.GONE, "", None, ()),
    ] == [
        (it.topic_id, it.offset, it.reason, it.state, it.place, it.size, it.replayed_to)
        for it in rows("q", ledger, held)
    ]
