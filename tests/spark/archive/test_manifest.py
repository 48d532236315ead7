"""An archive says what it is for, and one that is for others is refused before any task."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twinlog.errors import ConfigError
from twinlog.spark.archive.manifest import read, require_ours


def test_what_is_written_is_read(archive, ours):
    """And ours is accepted."""
    require_ours(archive(ours))
    assert ours == read(archive(ours))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"python": "3.8"}, "is for Python 3.8, here is "),
        ({"build": "0.1.0+abc"}, "is for twinlog 0.1.0+abc, here is "),
        ({"python": "3.8", "build": "0.1.0+abc"}, "; and for twinlog 0.1.0+abc"),
    ],
)
def test_an_archive_for_others_is_refused(archive, ours, other, message):
    """One line says for which Python or twinlog it is."""
    with pytest.raises(ConfigError) as refused:
        require_ours(archive(replace(ours, **other)))
    assert message in refused.value.message
    assert "spark-archive" == refused.value.code


@pytest.mark.parametrize("content", [None, b"", b"no archive"])
def test_a_file_that_is_no_archive_is_refused(tmp_path, content):
    """Missing, empty, something else."""
    file = tmp_path / "twinlog.tar.gz"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match="is no sound archive of twinlog"):
        read(file)


def test_another_archive_is_refused(archive, ours):
    """Of a virtual environment, for example."""
    with pytest.raises(ConfigError, match="it does not begin with"):
        read(archive(ours, "bin/activate"))


@pytest.mark.parametrize(
    "damage", [lambda it: it[:40], lambda it: it[:-6], lambda it: it[:-8] + b"sum" + it[-5:]]
)
def test_a_damaged_archive_is_refused(archive, ours, damage):
    """A copy that broke off, early or at its end; a byte that changed, which only the checksum tells."""
    file = archive(ours)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ConfigError, match="is no sound archive of twinlog"):
        read(file)
