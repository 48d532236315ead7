"""The CRC of a batch with another header, without reading the batch."""

from __future__ import annotations

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from twinlog.batches.relabel import append_zeros, changed_head


@given(st.binary(min_size=1, max_size=60), st.binary(max_size=5000), st.data())
def test_a_changed_head_gives_the_crc_of_the_changed_bytes(
    head: bytes, tail: bytes, data: st.DataObject
) -> None:
    """crc(new + tail) follows from crc(old + tail) and the heads alone."""
    new = data.draw(st.binary(min_size=len(head), max_size=len(head)))
    assert changed_head(crc32c(head + tail), head, new, len(tail)) == crc32c(new + tail)


def test_damage_stays_visible() -> None:
    """A checksum that was wrong before is wrong after: relabelling never blesses damaged bytes."""
    head, tail, new = b"head", b"the records", b"HEAD"
    wrong = crc32c(head + tail) ^ 1
    assert changed_head(wrong, head, new, len(tail)) != crc32c(new + tail)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**20))
def test_zeros_are_appended_without_reading_them(checksum: int, length: int) -> None:
    """As if they had been read."""
    inverted = checksum ^ 0xFFFFFFFF
    assert append_zeros(inverted, length) ^ 0xFFFFFFFF == crc32c(bytes(length), checksum)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**30), st.integers(0, 2**30 - 1))
def test_zeros_add_up(register: int, first: int, second: int) -> None:
    """Appending a zeros and then b zeros is appending a + b zeros."""
    assert append_zeros(append_zeros(register, first), second) == append_zeros(register, first + second)
