"""Which batch may be skipped by name: one that is damaged, is next, and ends where the log goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from damage import flipped

from twinlog.batches.quarantine import read_part
from twinlog.batches.record import Record, build_batch, record_rest
from twinlog.errors import TerminalError
from twinlog.lifecycle.alter_plan import Standing
from twinlog.quarantine.skip_plan import Around, aside, damaged_batch, require_followed

AT = Standing("t", "id", "A.t", 2, goes_on=10, log_start=0, readable_end=30)


def batch(first: int, count: int) -> bytes:
    """A whole batch at upstream offset `first`."""
    made = build_batch([Record(n, 1_000 + n, record_rest(None, b"value %d" % n)) for n in range(count)], 0)
    raw = bytearray(made)
    raw[:8] = first.to_bytes(8, "big")
    return bytes(raw)


DAMAGED = flipped(batch(10, 5), 8 * 80)


def refused(block: bytes | None, offset: int = 12, at: Standing = AT) -> str:
    with pytest.raises(TerminalError) as error:
        damaged_batch(at, offset, None if block is None else memoryview(block))
    assert "skip-refused" == error.value.code
    return error.value.message


def test_a_damaged_batch_is_taken_as_it_lies_in_the_log() -> None:
    """Its offsets, its bytes, and what is wrong; behind other batches that the answer has."""
    found = damaged_batch(AT, 12, memoryview(DAMAGED + batch(15, 3)))
    assert (10, 15, DAMAGED, "corrupt-batch") == (found.first, found.end, found.data, found.why)


def test_a_part_of_it_may_be_copied_already() -> None:
    """Only what is left of it is a gap."""
    found = damaged_batch(Standing("t", "id", "A.t", 2, 12, 0, 30), 13, memoryview(DAMAGED))
    assert (12, 15) == (found.first, found.end)


def test_what_is_not_a_damaged_batch_at_that_place_stays() -> None:
    """Whole, another one than named, without a length, or nothing."""
    assert "is whole" in refused(batch(10, 5))
    assert "99 is not in it" in refused(DAMAGED, 99)
    assert "is not in it" in refused(flipped(batch(3, 5), 8 * 80), 5)
    assert "how long" in refused(DAMAGED[:-3])
    assert "no batch" in refused(b"")
    assert "no batch" in refused(None)
    assert "format" in refused(DAMAGED[:20])


FOUND = damaged_batch(AT, 12, memoryview(DAMAGED))


def around(adjacent: bytes = b"", behind: bytes | None = b"", log_end: int = 15, **other: bytes) -> Around:
    """What lies around it if the log holds it where it says."""
    seen = Around(DAMAGED, DAMAGED, adjacent, None if behind is None else memoryview(behind), log_end)
    return replace(seen, **other)


@pytest.mark.parametrize(
    "seen",
    [
        around(batch(15, 3)[:61], batch(15, 3), 18),
        around(flipped(batch(15, 3), 8 * 80)[:61], flipped(batch(15, 3), 8 * 80), 18),
        around(b"", batch(15, 3), 18),
        around(),
    ],
    ids=["next-whole", "next-damaged-too", "end-of-segment", "end-of-log"],
)
def test_where_it_ends_is_believed_if_the_log_goes_on_there(seen: Around) -> None:
    """By the bytes behind it; at the end of a segment or of the log, where none are, by what is left to ask."""
    require_followed(AT, FOUND, seen)


@pytest.mark.parametrize(
    "seen",
    [
        around(batch(14, 4)[:61], batch(15, 1), 18),
        around(batch(17, 1)[:61], batch(17, 1), 18),
        around(batch(15, 3)[:30], batch(15, 3), 18),
        around(b"", batch(12, 6), 18),
        around(b"", batch(16, 2), 18),
        around(b"", flipped(batch(15, 3), 8 * 80), 18),
        around(b"", batch(15, 3)[:-1], 18),
        around(b"", b"", 18),
        around(b"", None),
        around(at_last=batch(14, 1)),
        around(again=batch(10, 5)),
    ],
)
def test_where_it_ends_is_not_believed_otherwise(seen: Around) -> None:
    """A damaged header may say any offset and any length: nothing that is whole is passed over."""
    with pytest.raises(TerminalError, match="does not bear it out"):
        require_followed(AT, FOUND, seen)


def test_a_batch_with_holes_at_the_end_of_a_segment_is_not_believed() -> None:
    """It may have lost any number of records, so its count bears out nothing."""
    sparse = bytearray(DAMAGED)
    sparse[57:61] = (4).to_bytes(4, "big")
    found = damaged_batch(AT, 12, memoryview(sparse))
    with pytest.raises(TerminalError, match="does not bear it out"):
        require_followed(AT, found, Around(found.data, found.data, b"", memoryview(b""), 15))


def test_a_batch_that_cannot_be_copied_yet_is_no_damage() -> None:
    """A transaction in it is open."""
    assert "up to 11 only" in refused(DAMAGED, 12, replace(AT, readable_end=12))


def test_its_bytes_are_the_value_of_a_record_of_the_quarantine() -> None:
    """With the origin of other records there, and the last offset that it says it has."""
    found = damaged_batch(AT, 12, memoryview(DAMAGED))
    (made,) = aside("q", AT, found, 1_000_000)
    part = read_part(record_rest(made.key, made.value, made.headers))
    assert (("t", "id", 2, 10), "corrupt-batch") == (tuple(part.origin), part.reason)
    assert (DAMAGED, ("twinlog.batch", b"14")) == (made.value, made.headers[0])
