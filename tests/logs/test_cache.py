"""A cache of a compacted topic is read back as it was, or not at all."""

import errno
import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.logs import cache as state_cache
from twinlog.logs.cache import CachedPartition, Kept, clear, load, save, useless

records = st.dictionaries(
    st.binary(max_size=8), st.tuples(st.integers(0, 1 << 60), st.binary(max_size=8), st.integers(-1, 1 << 60))
)
caches = st.dictionaries(
    st.integers(0, 5), st.builds(CachedPartition, st.integers(0, 1 << 60), records, st.integers(-1, 1 << 30))
)
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


@pytest.mark.parametrize("seconds", [-1, -state_cache.MAX_AGE_SECONDS])
def test_what_was_written_in_a_time_to_come_is_not_used(tmp_path: Path, monkeypatch, seconds):
    """By a clock that has been set back since: how old it is nobody knows."""
    path = tmp_path / "a.cache"
    save(path, ONE)
    now = time.time() + seconds
    monkeypatch.setattr(state_cache.time, "time", lambda: now)
    assert load(path) is None


def test_what_another_release_wrote_is_not_used(tmp_path: Path):
    """Earlier or later."""
    path = tmp_path / "a.cache"
    save(path, ONE)
    written = path.read_bytes()
    for version in (1, 3, "2"):
        path.write_bytes(written.replace(b'"version": 2', b'"version": ' + json.dumps(version).encode()))
        assert load(path) is None


@pytest.mark.parametrize("fits", [0, 1, 2])
def test_a_full_disk_leaves_what_was_there_and_nothing_else(tmp_path: Path, monkeypatch, fits):
    """Wherever the writing ends."""
    path = tmp_path / "a.cache"
    save(path, ONE)
    before, plain, passes = path.read_bytes(), state_cache._body, []

    def body(partitions):
        passes.append(partitions)
        for count, part in enumerate(plain(partitions)):
            if len(passes) == 2 and count == fits:  # the first pass only adds up
                raise OSError(errno.ENOSPC, "No space left on device")
            yield part

    monkeypatch.setattr(state_cache, "_body", body)
    save(path, {0: CachedPartition(99, {b"other": (98, b"v", 1)})})
    assert (2, [path], before) == (len(passes), [*tmp_path.iterdir()], path.read_bytes())


def test_what_cannot_be_put_in_its_place_leaves_nothing(tmp_path: Path, monkeypatch):
    """The disk was full at the last step."""

    def refused(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(state_cache.Path, "replace", refused)
    save(tmp_path / "a.cache", ONE)
    assert [] == [*tmp_path.iterdir()]


def test_the_file_of_another_cluster_is_another_file():
    """One that was restored from copies of its disks has the same topic ids."""
    one, two = (state_cache.cache_file(cluster, "topic", "id") for cluster in ("one", "two"))
    assert (one.name, one.parent.parent) == (two.name, state_cache.folder())
    assert one != two


@pytest.mark.parametrize("cluster", ["../../etc", "/etc", "..", "a/b", "a\0b"])
def test_a_cluster_leads_to_no_other_folder(cluster: str):
    """A broker says what its id is."""
    assert state_cache.folder() == state_cache.cache_file(cluster, "topic", "id").resolve().parent.parent


def test_what_nobody_will_use_is_deleted(tmp_path: Path):
    """Old caches of flows that are gone, what a killed writer left (of earlier releases, too), folders without any."""
    now = time.time()
    files = {
        "one/fresh.cache": 10,
        "one/old.cache": state_cache.MAX_AGE_SECONDS + 10,
        "gone/old.cache": state_cache.MAX_AGE_SECONDS + 10,
        "one/tmpabc.unfinished": 4000,
        "one/tmpdef.unfinished": 10,
        "tmp_k3xv2q": 4000,
        "earlier.cache": state_cache.MAX_AGE_SECONDS + 10,
        "one/notes.txt": 10**7,
    }
    for name, age in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
        os.utime(path, (now - age, now - age))
    clear(tmp_path)
    left = {str(it.relative_to(tmp_path)) for it in tmp_path.rglob("*")}
    assert {"one", "one/fresh.cache", "one/tmpdef.unfinished", "one/notes.txt"} == left


@given(
    st.lists(
        st.tuples(st.integers(0, state_cache.MOST_BYTES), st.integers(-5, 2 * state_cache.MAX_AGE_SECONDS))
    )
)
def test_what_is_kept_is_young_and_has_its_limit(files):
    """And nothing goes while there is room for it."""
    kept = [Kept(Path(f"{n}.cache"), size, 1e9 - age) for n, (size, age) in enumerate(files)]
    gone = useless(kept, 1e9)
    left = [it for it in kept if it not in gone]
    assert all(0 <= 1e9 - it.at < state_cache.MAX_AGE_SECONDS for it in left)
    assert sum(it.size for it in left) <= state_cache.MOST_BYTES
    young = [it for it in kept if 0 <= 1e9 - it.at < state_cache.MAX_AGE_SECONDS]
    if sum(it.size for it in kept) <= state_cache.MOST_BYTES:
        assert young == left


def test_without_a_place_to_write_there_is_no_cache(tmp_path: Path):
    """And no error."""
    (tmp_path / "state").write_text("a file where the folder should be")
    save(tmp_path / "state" / "a.cache", ONE)
    assert load(tmp_path / "state" / "a.cache") is None
