"""An archive is written whole or not at all, and a Python without anything else runs twinlog from it."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile

import pytest

import twinlog
from twinlog.errors import ConfigError, UsageError
from twinlog.spark.archive import make
from twinlog.spark.archive.manifest import MANIFEST, read, running_python, this_platform
from twinlog.spark.build import BUILD

SMALL = ("tenacity", "crc32c")


@pytest.fixture
def small(monkeypatch):
    """Archives of two packages: all of them take half a minute."""
    monkeypatch.setattr(make, "TASKS_NEED", SMALL)


def test_a_bare_python_runs_what_is_in_it(tmp_path, small):
    """The build is the driver's, native code is found, and nothing belongs to who made it."""
    made = make.make(tmp_path / "twinlog.tar.gz")
    assert [made.manifest, set(SMALL)] == [read(tmp_path / "twinlog.tar.gz"), set(made.manifest.packages)]
    with tarfile.open(made.archive) as tar:
        entries = tar.getmembers()
        tar.extractall(tmp_path / "there", filter="data")
    assert MANIFEST == entries[0].name
    assert {(0, "")} == {(it.uid, it.uname) for it in entries}
    assert not [it.name for it in entries if "__pycache__" in it.name or it.name.startswith((".", "/"))]
    code = "import tenacity, crc32c, twinlog.spark.build as it; print(it.BUILD, crc32c.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "there")},
        capture_output=True,
        text=True,
        check=True,
    )
    build, where = done.stdout.split()
    assert BUILD == build
    assert where.startswith(str(tmp_path / "there"))


def test_a_package_of_links_is_packed_as_files(tmp_path, small, monkeypatch):
    """An installer may link to a cache of its own, which the executors' machines have not."""
    info = tmp_path / "site" / "links-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: links\nVersion: 1.0\n")
    (info / "RECORD").write_text("links.py,,\n")
    (tmp_path / "cached.py").write_text("IT = 1\n")
    (info.parent / "links.py").symlink_to(tmp_path / "cached.py")
    monkeypatch.syspath_prepend(info.parent)
    made = make.make(tmp_path / "a.tar.gz", ["links"])
    with tarfile.open(made.archive) as tar:
        assert b"IT = 1\n" == tar.extractfile("links.py").read()
        assert tar.getmember("links.py").isreg()


def test_a_file_that_exists_stays(tmp_path, small):
    """It may be something else, or in use."""
    file = tmp_path / "twinlog.tar.gz"
    file.write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        make.make(file)
    assert "mine" == file.read_text()


def test_nothing_is_left_of_an_archive_that_failed(tmp_path, small, monkeypatch):
    """Half of one would be taken for a whole one."""
    monkeypatch.setattr(make, "_installed", lambda name: iter([(name, tmp_path / "missing")]))
    with pytest.raises(FileNotFoundError):
        make.make(tmp_path / "twinlog.tar.gz")
    assert [] == list(tmp_path.iterdir())


def test_impossible_wishes_are_refused(tmp_path, small):
    """A name by which Spark would not unpack it; a folder that is not there."""
    with pytest.raises(UsageError, match=r"a\.zip is no \.tar\.gz"):
        make.make(tmp_path / "a.zip")
    with pytest.raises(UsageError, match="there is no folder"):
        make.make(tmp_path / "missing" / "a.tar.gz")


def test_a_package_installed_from_its_sources_is_refused(tmp_path, small, monkeypatch):
    """Its files are somewhere else."""
    info = tmp_path / "site" / "linked-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: linked\nVersion: 1.0\n")
    (info / "RECORD").write_text("__editable__.linked.pth,,\n")
    (info.parent / "__editable__.linked.pth").write_text("/home/me/linked\n")
    monkeypatch.syspath_prepend(info.parent)
    with pytest.raises(ConfigError, match="linked is installed as a link") as refused:
        make.make(tmp_path / "a.tar.gz", ["linked"])
    assert "spark-archive" == refused.value.code


def test_a_package_without_a_list_of_files_is_refused(tmp_path, small, monkeypatch):
    """As a Linux distribution's own packages are."""
    info = tmp_path / "site" / "listless-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: listless\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(info.parent)
    with pytest.raises(ConfigError, match="listless does not tell which files it has"):
        make.make(tmp_path / "a.tar.gz", ["listless"])
    assert ["site"] == [it.name for it in tmp_path.iterdir()]


def test_the_name_says_for_what_it_is():
    """Version, Python, platform."""
    expected = f"twinlog-{twinlog.__version__}-py{running_python()}-{this_platform()}.tar.gz"
    assert expected == make.default_name()
