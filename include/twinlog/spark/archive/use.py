"""Make Spark's tasks run from an archive that `spark.archives` names.  Pure but for reading it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from twinlog.spark.archive.manifest import require_ours, running_python

ARCHIVES: Final = "spark.archives"
ON_YARN: Final = "spark.yarn.dist.archives"
"""What spark-submit makes of `--archives` on YARN."""

FOLDER: Final = "twinlog-archive"
"""The folder into which Spark unpacks the archive, named behind `#`; no module is called like that."""

PYTHON: Final = "spark.pyspark.python"
MODULE_PATH: Final = "spark.executorEnv.PYTHONPATH"
ON_WORKERS: Final = f"./{FOLDER}:../{FOLDER}"
"""Its place below an executor's folder; the workers of a Connect session begin in a folder below that."""


@dataclass(frozen=True, slots=True)
class FromArchive:
    """The Python that executors start, by a name that they know, and the settings that let it find the archive."""

    python: str
    settings: Mapping[str, str]


def settings_of(archive: str) -> dict[str, str]:
    """Return the settings by which any Spark takes its tasks' modules from an archive."""
    return {ARCHIVES: f"{archive}#{FOLDER}", MODULE_PATH: ON_WORKERS}


def from_archive(master: str, chosen: Mapping[str, str]) -> FromArchive | None:
    """Return what a session needs if `chosen` names an archive of twinlog; None if tasks run here, or there is none.

    Raises ConfigError (`spark-archive`) for a file that is none, is damaged, or is for another Python or another
    twinlog.  An archive in another file system is not looked into: workers compare Pythons and builds themselves.
    """
    every = f"{chosen.get(ARCHIVES, '')},{chosen.get(ON_YARN, '')}".split(",")
    named = [it.strip() for it in every if it.strip().endswith(f"#{FOLDER}")]
    if not named or master.startswith("local"):
        return None
    place = urlsplit(named[0])
    if place.scheme in {"", "file"}:
        require_ours(Path(unquote(place.path)))
    return FromArchive(
        python=chosen.get(PYTHON, f"python{running_python()}"),
        settings={} if MODULE_PATH in chosen else {MODULE_PATH: ON_WORKERS},
    )
