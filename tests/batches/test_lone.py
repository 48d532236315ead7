"""A record that the target can hold in some way is no poison, and no batch is larger than the target takes."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable

import cramjam
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from test_cutter import content, cut_all, patch, with_gaps

from batches import Rec, encode
from twinlog.batches.codec import GZIP, LZ4, SNAPPY, ZSTD, compress
from twinlog.batches.cutter import Cutter
from twinlog.batches.header import HEADER_BYTES

APPEND_TIME = 0x08
NOW = 77_000
CODECS = [GZIP, SNAPPY, LZ4, ZSTD]

HARDER: dict[int, Callable[[bytes], bytes]] = {
    GZIP: lambda body: bytes(gzip.compress(body, 9, mtime=0)),
    SNAPPY: lambda body: bytes(cramjam.snappy.compress_raw(body)),
    LZ4: lambda body: bytes(cramjam.lz4.compress(body)),
    ZSTD: lambda body: bytes(cramjam.zstd.compress(body, level=19)),
}
"""Smaller than what we make of it by default."""


def stamped(batch: bytearray) -> bytearray:
    """Under LogAppendTime: it has to be written anew."""
    return patch(patch(batch, 35, ">q", NOW), 21, ">h", batch[22] & 7 | APPEND_TIME)


def seen(records: list[Rec]) -> list[tuple[int, Rec]]:
    """What a consumer sees of a stamped batch."""
    return [(offset, Rec(it.value, it.key, NOW)) for offset, it in enumerate(records)]


def packed(records: list[Rec], codec: int, body: bytes) -> bytearray:
    """A stamped batch with a body compressed by somebody else."""
    batch = with_gaps(list(enumerate(records)), 0, len(records) - 1)
    batch[HEADER_BYTES:] = body
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    return stamped(patch(batch, 21, ">h", codec))


def raw_body(records: list[Rec], delta: int = 0) -> bytes:
    batch = with_gaps(list(enumerate(Rec(it.value, it.key, delta) for it in records)), 0, len(records) - 1)
    return bytes(batch[HEADER_BYTES:])


def text(size: int) -> bytes:
    """What zstd makes the smaller the longer it tries."""
    chance = random.Random(1)
    words = [bytes(chance.choices(b"abcdefghijklmnop", k=chance.randint(2, 9))) for _ in range(3000)]
    return b" ".join(chance.choices(words, k=size // 5))[:size]


@given(st.sampled_from([0, *CODECS]), st.integers(700, 1000), st.integers(0, 2), st.booleans(), st.integers())
def test_a_record_goes_out_if_its_batch_fits_without_compression(
    codec: int, size: int, before: int, quarantine: bool, seed: int
) -> None:
    """Nothing compresses it: a codec's framing is what may be too much.  Its neighbours go out beside it."""
    limit, chance = 1000, random.Random(seed)
    records = [Rec(chance.randbytes(10))] * before + [Rec(chance.randbytes(size)), Rec(b"behind")]
    fits = len(encode([records[before]])) <= limit
    batch = stamped(with_gaps(list(enumerate(records)), 0, len(records) - 1, codec))
    cut = cut_all([batch], cutter=Cutter(1 << 40, limit, quarantine))
    visible = seen(records)
    expected = visible if fits else visible[:before] + (visible[before + 1 :] if quarantine else [])
    assert expected == content(cut.outgoing)
    assert all(len(item.buffer) <= limit for item in cut.outgoing)
    assert (fits or quarantine) == (cut.poison is None)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("delta", [0, 12_345])
def test_a_record_that_came_alone_keeps_its_body(codec: int, delta: int) -> None:
    """Its producer compressed it harder than we do; only the header's times are others."""
    record = Rec(text(200_000))
    body = HARDER[codec](raw_body([record], delta))
    limit = HEADER_BYTES + len(body)
    assert len(body) < len(compress(codec, raw_body([record], delta)))
    cut = cut_all([packed([record], codec, body)], limit=limit)
    assert (None, seen([record])) == (cut.poison, content(cut.outgoing))
    assert [limit] == [len(item.buffer) for item in cut.outgoing]


def test_a_record_that_only_fits_compressed_as_hard_as_can_be_goes_out() -> None:
    """A megabyte of text at zstd's level 19, as they were produced, alone or beside another record."""
    record, other = Rec(text(1_000_000)), Rec(b"small")
    alone = bytes(cramjam.zstd.compress(raw_body([record]), level=19))
    both = bytes(cramjam.zstd.compress(raw_body([record, other]), level=19))
    limit = HEADER_BYTES + len(both) + 16
    assert limit < HEADER_BYTES + len(compress(ZSTD, raw_body([record])))
    for records, body in [([record], alone), ([record, other], both)]:
        cut = cut_all([packed(records, ZSTD, body)], limit=limit)
        assert (None, seen(records)) == (cut.poison, content(cut.outgoing))
        assert all(len(item.buffer) <= limit for item in cut.outgoing)


def test_a_body_that_is_kept_has_a_checksum_of_its_own() -> None:
    """And its times are those that a consumer sees."""
    record = Rec(text(400_000))
    body = bytes(cramjam.zstd.compress(raw_body([record], 5), level=22))
    limit = HEADER_BYTES + len(body)
    (item,) = cut_all([packed([record], ZSTD, body)], limit=limit).outgoing
    assert (body, NOW - 5, NOW, ZSTD) == (
        bytes(item.buffer[HEADER_BYTES:]),
        item.header.base_timestamp,
        item.header.max_timestamp,
        item.header.attributes,
    )
    assert item.header.crc == crc32c(bytes(item.buffer[21:]))


def test_poison_names_the_size_that_is_too_large() -> None:
    """Of the smallest batch that was tried, beside the limit."""
    record = Rec(random.Random(1).randbytes(1000))
    size = len(encode([record]))
    cut = cut_all([stamped(with_gaps([(0, record)], 0, 0, GZIP))], limit=size - 1)
    assert cut.poison is not None
    assert (
        f"a batch of this record alone has {size} bytes, more than the target's max.message.bytes={size - 1}"
        == cut.poison.reason
    )
