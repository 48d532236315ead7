"""Many records at once are the same records as one by one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from unittest import mock

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from batches import Rec, encode
from twinlog.batches.codec import compress
from twinlog.batches.columns import Columns, read_columns
from twinlog.batches.header import walk
from twinlog.batches.record import read_records
from twinlog.errors import FormatError

RECORDS = st.lists(
    st.builds(
        Rec,
        value=st.none() | st.binary(max_size=300),
        key=st.none() | st.binary(max_size=3),
        timestamp=st.integers(-1, 2**60),
    ),
    min_size=1,
    max_size=20,
)


def block_of(
    groups: list[list[Rec]], codec: int, gap: Callable[[], int] = lambda: 0
) -> tuple[memoryview, list[int]]:
    """A block of batches behind one another, and where each begins; `gap` says how many offsets a record leaves out."""
    block, begins, offset = bytearray(), [], 7
    for group in groups:
        deltas = list(accumulate((1 + gap() for _ in group[1:]), initial=gap()))
        raw = encode(group, base_offset=offset, deltas=deltas)
        raw[61:] = compress(codec, bytes(raw[61:]))
        raw[8:12], raw[22] = (len(raw) - 12).to_bytes(4, "big"), codec
        raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
        begins.append(len(block))
        block += raw
        offset += deltas[-1] + 1 + gap()
    return memoryview(block), begins


def rows(read: Columns) -> list[tuple[int, int, bytes]]:
    """(offset, timestamp, end of the record), one by one."""
    rests = [bytes(read.data[a:b]) for a, b in zip(read.starts, read.ends, strict=True)]
    return list(zip(read.offsets.tolist(), read.timestamps.tolist(), rests, strict=True))


@given(st.lists(RECORDS, min_size=1, max_size=6), st.sampled_from([0, 1, 2, 3, 4]))
def test_columns_are_the_records_one_by_one(groups: list[list[Rec]], codec: int) -> None:
    """Offsets, timestamps and rests, for every codec."""
    block, begins = block_of(groups, codec)
    read = read_columns(block, begins)
    expected = [
        (record.offset, record.timestamp, bytes(record.rest))
        for header, batch in walk(block)
        for record in read_records(header, batch)
    ]
    assert expected == rows(read)


@given(st.lists(RECORDS, min_size=1, max_size=6), st.sampled_from([1, 2, 3, 4]), st.integers(1, 1000))
def test_compressed_batches_are_read_some_at_a_time(groups: list[list[Rec]], codec: int, room: int) -> None:
    """Each time at least one, no more than there is room for, and in the end the same records."""
    block, begins = block_of(groups, codec)
    whole = read_columns(block, begins)
    found: list[tuple[int, int, bytes]] = []
    with mock.patch("twinlog.batches.columns.TOGETHER_BYTES", room):
        while begins:
            read = read_columns(block, begins)
            assert read.batches == 1 or len(read.data) <= room
            found += rows(read)
            begins = begins[read.batches :]
    assert rows(whole) == found


@given(RECORDS, st.data())
def test_damage_is_an_error_and_nothing_else(records: list[Rec], data: st.DataObject) -> None:
    """Any bytes under a right checksum either read as records that ascend within the batch, or raise FormatError."""
    block, begins = block_of([records], 0)
    for _ in range(data.draw(st.integers(1, 4))):
        block[data.draw(st.integers(23, len(block) - 1))] = data.draw(st.integers(0, 255))
    block[17:21] = crc32c(block[21:]).to_bytes(4, "big")
    try:
        read = read_columns(block, begins)
    except FormatError:
        return
    header = next(walk(block))[0]
    offsets = read.offsets.tolist()
    assert offsets == sorted(set(offsets))
    assert (len(offsets), offsets[0] >= header.base_offset) == (header.record_count, True)
    assert offsets[-1] <= header.last_offset


def test_a_checksum_that_does_not_fit_is_named() -> None:
    """With the batch's offset."""
    block, begins = block_of([[Rec()], [Rec(b"two")]], 0)
    block[-2] ^= 1
    with pytest.raises(FormatError, match="upstream offset 8 does not fit its checksum") as caught:
        read_columns(block, begins)
    assert caught.value.code == "corrupt-batch"
