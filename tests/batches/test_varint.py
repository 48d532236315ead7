"""Zigzag varints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import decode_varint, encode_varint

from twinlog.batches import varint
from twinlog.errors import FormatError

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(INT64, st.binary(max_size=3))
def test_what_is_encoded_is_decoded(value: int, behind: bytes) -> None:
    """Decoding gives the value and the position right behind it."""
    encoded = varint.encode(value)
    assert varint.decode(encoded + behind, 0) == (value, len(encoded))


@given(INT64)
def test_the_bytes_are_kafkas(value: int) -> None:
    """kafka-python, an independent witness, writes the same bytes and reads ours."""
    out = bytearray()
    encode_varint(value, out.append)
    assert varint.encode(value) == bytes(out)
    assert decode_varint(bytearray(varint.encode(value)))[0] == value


@given(INT64)
def test_a_cut_off_varint_is_an_error(value: int) -> None:
    """Every truncation raises, none gives a wrong value."""
    encoded = varint.encode(value)
    for length in range(len(encoded)):
        with pytest.raises(FormatError):
            varint.decode(encoded[:length], 0)
