"""The library is there, is of this source, and computes checksums right with and without the instruction."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from twinlog.batches.plain.library import LIBRARY, library_file, load, source_digest


def test_this_installation_has_one() -> None:
    """If not, `make setup` compiles it: everything would be right without, but slow."""
    assert LIBRARY is not None


def test_one_of_another_source_is_not_taken(tmp_path: Path) -> None:
    """A kernel.c that was changed since, by a space."""
    other = tmp_path / "kernel.c"
    other.write_bytes(source_digest.__globals__["SOURCE"].read_bytes() + b" ")
    assert load(library_file(), source_digest()) is not None
    assert load(library_file(), source_digest(other)) is None


@pytest.mark.parametrize("content", [None, b"", b"of another machine"])
def test_what_cannot_be_loaded_is_none(content: bytes | None, tmp_path: Path) -> None:
    """Missing, empty, or another format of programs."""
    file = tmp_path / "x.so"
    if content is not None:
        file.write_bytes(content)
    assert load(file, source_digest()) is None


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The library, and another one that keeps to its tables."""
    copy = tmp_path_factory.mktemp("library") / "plain.so"
    shutil.copy(library_file(), copy)
    plain = ctypes.CDLL(str(copy))
    plain.twinlog_begin(1)
    return LIBRARY, plain


@given(st.binary(max_size=100), st.sampled_from([0, 7, 500, 768, 5_000, 12_288, 40_000]), st.integers(0, 9))
def test_checksums_are_those_of_crc32c(
    both: tuple[ctypes.CDLL, ctypes.CDLL], seed: bytes, more: int, skip: int
) -> None:
    """Of every length, wherever it lies in memory."""
    data = (seed + bytes(range(256)) * (more // 256 + 1))[: len(seed) + more][skip:]
    expected = crc32c(data)
    for library in both:
        found = library.twinlog_crc(ctypes.c_char_p(data), ctypes.c_int64(len(data)))
        assert expected == found & 0xFFFFFFFF
