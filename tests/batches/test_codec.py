"""Codecs framed as Kafka frames them."""

from __future__ import annotations

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.batches import codec
from twinlog.errors import FormatError


@given(st.sampled_from(sorted(codec.NAMES)), st.binary(max_size=300), st.integers(1, 600))
def test_round_trip(number: int, piece: bytes, times: int) -> None:
    """Compressing and decompressing changes nothing, over several blocks too."""
    records = piece * times
    assert bytes(codec.decompress(number, memoryview(codec.compress(number, records)))) == records


def test_lz4_frames_have_independent_blocks() -> None:
    """Java's Lz4BlockInputStream refuses dependent blocks: bit 5 of the FLG byte says independent."""
    assert codec.compress(codec.LZ4, b"x" * 200_000)[4] & 0x20


def test_raw_snappy_is_read() -> None:
    """Some producers write a bare snappy block, without snappy-java's stream around it."""
    raw = bytes(cramjam.snappy.compress_raw(b"abc" * 100))
    assert bytes(codec.decompress(codec.SNAPPY, memoryview(raw))) == b"abc" * 100


@pytest.mark.parametrize("number", [codec.GZIP, codec.SNAPPY, codec.LZ4, codec.ZSTD])
def test_damage_is_a_format_error(number: int) -> None:
    """A damaged block is an error with a name, never other bytes."""
    compressed = bytearray(codec.compress(number, bytes(range(256)) * 40))
    del compressed[len(compressed) // 2 :]
    with pytest.raises(FormatError):
        codec.decompress(number, memoryview(compressed))


@pytest.mark.parametrize("number", [codec.GZIP, codec.SNAPPY, codec.LZ4, codec.ZSTD])
def test_a_bomb_is_refused_before_it_fills_the_memory(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits goes through, one byte more does not, whatever the codec."""
    monkeypatch.setattr(codec, "MAX_DECOMPRESSED", 3_000_000)
    zeros = codec.compress(number, bytes(3_000_000))
    assert len(codec.decompress(number, memoryview(zeros))) == 3_000_000
    with pytest.raises(FormatError, match="more than 2 MiB"):
        codec.decompress(number, memoryview(codec.compress(number, bytes(3_000_001))))


def test_a_raw_snappy_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare block says its length first."""
    monkeypatch.setattr(codec, "MAX_DECOMPRESSED", 1_000)
    with pytest.raises(FormatError, match="holds more"):
        codec.decompress(codec.SNAPPY, memoryview(bytes(cramjam.snappy.compress_raw(bytes(1_001)))))


@pytest.mark.parametrize("length", [-1, -8, 1_000_000])
def test_a_snappy_piece_of_an_impossible_length_is_refused(length: int) -> None:
    """Neither read again and again, nor beyond the end."""
    stream = bytearray(codec.compress(codec.SNAPPY, b"abc"))
    stream[16:20] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(FormatError, match="claims"):
        codec.decompress(codec.SNAPPY, memoryview(stream))


def test_unknown_codec_is_refused() -> None:
    """Codecs 5 to 7 do not exist."""
    with pytest.raises(FormatError):
        codec.decompress(5, memoryview(b""))
