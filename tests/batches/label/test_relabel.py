"""Relabelling a batch."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from batches import Rec, decode, encode
from twinlog.batches.header import BatchHeader, walk
from twinlog.batches.relabel import relabel

RECORDS = [Rec(b"one", b"k", 5, (("h", b"1"), ("h", None))), Rec(None, b"k", 7), Rec(b"", None, 6)]


@given(st.integers(0, 2**62), st.integers(0, 32767), st.integers(0, 2**31 - 1))
def test_a_relabelled_batch_has_a_new_writer_and_the_same_records(
    producer: int, epoch: int, sequence: int
) -> None:
    """kafka-python reads the same records behind a right CRC; the header says who writes now."""
    batch = memoryview(encode(RECORDS, base_offset=41))
    header, view = next(walk(batch))
    relabel(view, header, producer, epoch, sequence)
    new = BatchHeader.read(batch)
    assert decode(batch) == RECORDS
    assert (new.base_offset, new.leader_epoch) == (0, -1)
    assert (new.producer_id, new.producer_epoch, new.base_sequence) == (producer, epoch, sequence)
    assert new.transactional


def test_a_batch_may_be_relabelled_again() -> None:
    """Whoever sends the same bytes a second time gets what one relabelling would have made of them."""
    once, twice = memoryview(encode(RECORDS)), memoryview(encode(RECORDS))
    header, _ = next(walk(once))
    relabel(twice, header, 1, 0, 0)
    for view in (once, twice):
        relabel(view, header, 7, 1, 5)
    assert bytes(once) == bytes(twice)
    assert decode(twice) == RECORDS


def test_only_the_codec_survives_of_the_attributes() -> None:
    """Control, delete-horizon and unknown bits are not passed on."""
    batch = encode(RECORDS)
    batch[21:23] = struct.pack(">h", 0x00C0)
    batch[17:21] = __import__("crc32c").crc32c(bytes(batch[21:])).to_bytes(4, "big")
    header, view = next(walk(memoryview(batch)))
    relabel(view, header, 1, 0, 0)
    assert BatchHeader.read(batch).attributes == 0x10
    assert decode(batch) == RECORDS
