"""A cache of a compacted topic is read back as it was, or not at all."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.relay import state_cache
from twinlog.relay.state_cache import CachedPartition, load, save

records = st.dictionaries(
    st.binary(max_size=8), st.tuples(st.integers(0, 1 << 60), st.binary(max_size=8), st.integers(-1, 1 << 60))
)
caches = st.dictionaries(st.integers(0, 5), st.builds(CachedPartition, st.integers(0, 1 << 60), records))
ONE = {0: CachedPartition(9, {b"key": (7, b"value", 1)})}


@given(caches)
def test_reading_undoes_writing(tmp_path_factory, cache):
    """Any keys and values, none included."""
    path = tmp_path_factory.getbasetemp() / "state" / "a.cache"
    save(path, cache)
    assert cache == load(path)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:-1] + b"!", lambda data: b"", lambda data: b"{}\n"]
)
def test_what_is_damaged_is_not_used(tmp_path: Path, damage):
    """Cut short, changed, empty, or something else."""
    path = tmp_path / "a.cache"
    save(path, ONE)
    path.write_bytes(damage(path.read_bytes()))
    assert load(path) is None


def test_what_is_old_is_not_used(tmp_path: Path, monkeypatch):
    """A tombstone might have come and gone since."""
    path = tmp_path / "a.cache"
    save(path, ONE)
    now = time.time() + state_cache.MAX_AGE_SECONDS
    monkeypatch.setattr(state_cache.time, "time", lambda: now)
    assert load(path) is None


def test_without_a_place_to_write_there_is_no_cache(tmp_path: Path):
    """And no error."""
    (tmp_path / "state").write_text("a file where the folder should be")
    save(tmp_path / "state" / "a.cache", ONE)
    assert load(tmp_path / "state" / "a.cache") is None
