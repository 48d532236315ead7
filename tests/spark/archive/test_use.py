"""A session finds the archive among Spark's own settings."""

from __future__ import annotations

import pytest

from twinlog.errors import ConfigError
from twinlog.spark.archive.manifest import running_python
from twinlog.spark.archive.use import (
    ARCHIVES,
    FOLDER,
    MODULE_PATH,
    ON_WORKERS,
    ON_YARN,
    PYTHON,
    FromArchive,
    from_archive,
    settings_of,
)

MASTER = "spark://master:7077"
ELSEWHERE = f"hdfs://name/twinlog.tar.gz#{FOLDER}"
HDFS = {ARCHIVES: ELSEWHERE}


@pytest.mark.parametrize(
    ("master", "chosen"),
    [
        (MASTER, {}),
        (MASTER, {ARCHIVES: ""}),
        (MASTER, {ARCHIVES: "/data/models.zip#models,/x/twinlog.tar.gz"}),
        ("local[2]", {ARCHIVES: f"/not/there.tar.gz#{FOLDER}"}),
    ],
)
def test_without_one_everything_stays(master, chosen):
    """None is named, or tasks run on this machine."""
    assert from_archive(master, chosen) is None


@pytest.mark.parametrize(
    ("master", "chosen"),
    [(MASTER, HDFS), ("yarn", {ON_YARN: ELSEWHERE}), (MASTER, {ARCHIVES: f"local:/there.tar.gz#{FOLDER}"})],
)
def test_one_elsewhere_is_left_to_the_workers(master, chosen):
    """Executors get its place, and start a Python of this version by its name."""
    found = from_archive(master, chosen)
    assert found is not None
    assert (f"python{running_python()}", {MODULE_PATH: ON_WORKERS}) == (found.python, found.settings)


def test_the_users_own_settings_stay():
    """The Python's place on the nodes, and a module path."""
    found = from_archive("yarn", HDFS | {PYTHON: "/opt/python", MODULE_PATH: f"./{FOLDER}:/opt/ours"})
    assert found is not None
    assert ("/opt/python", {}) == (found.python, found.settings)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_one_here_is_looked_into(archive, ours, scheme):
    """Ours is used, among others; another is refused before a session begins."""
    file = archive(ours)
    chosen = {ARCHIVES: f"/data/models.zip#models, {scheme}{file}#{FOLDER}"}
    assert from_archive(MASTER, chosen) is not None
    file.write_bytes(b"broken")
    with pytest.raises(ConfigError, match="is no sound archive of twinlog"):
        from_archive(MASTER, chosen)


def test_settings_for_any_spark_are_understood(archive, ours):
    """What `twinlog spark package` prints; a session has nothing to add."""
    found = from_archive(MASTER, settings_of(str(archive(ours))))
    assert FromArchive(f"python{running_python()}", {}) == found
