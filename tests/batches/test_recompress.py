"""Compressing batches on their way changes nothing that a consumer sees, and nothing at all where it gains nothing."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_cutter import BIG, RECORD, content, cut_all, patch

from batches import Rec, encode
from twinlog.batches.codec import NAMES, NONE, ZSTD, compress
from twinlog.batches.cutter import Cutter, recompressed
from twinlog.batches.header import BatchHeader
from twinlog.batches.outgoing import Outgoing, Stretches

CODECS = st.sampled_from(sorted(NAMES))
BATCHES = st.lists(st.tuples(st.lists(RECORD, min_size=1, max_size=8), CODECS), min_size=1, max_size=6)
TEXT = [Rec(b"the same words again and again " * 20, b"k%d" % n, 1_000 + n) for n in range(20)]


def packed(records: list[Rec], codec: int, base: int) -> bytearray:
    """A batch as a producer packs it; kafka-python's own encoder lacks the libraries of three codecs."""
    plain = encode(records, base_offset=base)
    batch = plain[:61] + compress(codec, bytes(plain[61:]))
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    return patch(batch, 21, ">h", codec)


def outgoing(batch: bytearray) -> Outgoing:
    header = BatchHeader.read(batch)
    return Outgoing(memoryview(batch), header, Stretches(header.base_offset, [0, 0, header.record_count]))


@given(st.lists(RECORD, min_size=1, max_size=8), CODECS, CODECS.filter(bool), st.integers(0, 1 << 40))
def test_records_are_the_same_and_a_batch_is_never_larger(records, codec, wanted, base):
    """Offsets, times, headers and order; a batch of the same size or more stays as it is, to the byte."""
    before = outgoing(packed(records, codec, base))
    after = recompressed(before, wanted)
    assert content([before]) == content([after])
    assert after is before or (after.header.codec == wanted and len(after.buffer) < len(before.buffer))
    assert before.header._replace(batch_length=0, crc=0, attributes=0) == after.header._replace(
        batch_length=0, crc=0, attributes=0
    )


@given(BATCHES, CODECS.filter(bool))
def test_a_block_is_cut_into_the_same_records(batches, wanted):
    """The cutter sends the same records; each batch has the codec, or would not be smaller in it."""
    blocks, base = [], 0
    for records, codec in batches:
        blocks.append(packed(records, codec, base))
        base += len(records)
    plain = cut_all(blocks)
    anew = cut_all(blocks, cutter=Cutter(BIG, BIG, codec=wanted))
    assert content(plain.outgoing) == content(anew.outgoing)
    assert (plain.next_upstream, plain.poison) == (anew.next_upstream, anew.poison)
    for it in anew.outgoing:
        assert it is recompressed(it, wanted)


@pytest.mark.parametrize("codec", [it for it in NAMES if it])
def test_text_becomes_smaller_in_every_codec(codec):
    """And says that it was rewritten."""
    plain = outgoing(encode(TEXT))
    smaller = recompressed(plain, codec)
    assert (codec, True) == (smaller.header.codec, smaller.rewritten)
    assert len(smaller.buffer) < len(plain.buffer) / 4


def test_damage_is_not_given_a_checksum_that_fits():
    """The cutter sends the batches before it, and names the damaged one as the target would have refused it."""
    sound, damaged = encode(TEXT), encode(TEXT, base_offset=20)
    damaged[100] ^= 1
    cut = cut_all([sound, damaged, encode(TEXT, base_offset=40)], cutter=Cutter(BIG, BIG, codec=ZSTD))
    assert [(offset, it) for offset, it in enumerate(TEXT)] == content(cut.outgoing)
    assert cut.poison is not None
    assert (20, 20, "corrupt-batch") == (cut.next_upstream, cut.poison.offset, cut.poison.code)


def test_by_default_a_batch_stays_as_it_is():
    """To the byte: it is not read at all."""
    batch = encode(TEXT)
    (sent,) = cut_all([batch]).outgoing
    assert (NONE, bytes(batch)) == (sent.header.codec, bytes(sent.buffer))
