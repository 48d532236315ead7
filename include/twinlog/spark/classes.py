"""The JVM options of a Spark that twinlog starts, and the archive of its classes.

With the archive a driver or a Connect server starts in less than half of the CPU time.  To make it, a Spark is started,
does a job, and writes its classes as it ends.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinlog.class_archive import ClassArchive
from twinlog.errors import TerminalError

SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
"""The environment variable of spark-submit's JVM options, beside spark.driver.extraJavaOptions."""

QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""Only the first compiler: the second took half the CPU of a cycle over little data (bench.cold)."""


ERRORS_ONLY = f"-Dlog4j2.configurationFile={Path(__file__).parent.joinpath('log4j2.properties').as_uri()}"
"""By default Spark's JVM writes to the terminal how it logs, and warnings of Hadoop."""


def submit_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what to add to an environment for spark-submit; nothing if it is set already.

    Whoever has chosen SPARK_CONF_DIR says there what is logged.
    """
    if SUBMIT_OPTIONS in environment:
        return {}
    archive = spark_classes(environment)
    logged = () if environment.get("SPARK_CONF_DIR") else (ERRORS_ONLY,)
    return {SUBMIT_OPTIONS: " ".join((QUICK_COMPILER, *logged, *(archive.options() if archive else ())))}


def spark_java(environment: Mapping[str, str]) -> str | None:
    """Look for Java where Spark looks: JAVA_HOME first, then the path, nowhere else."""
    home = environment.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin" if home else environment.get("PATH"))


def spark_classes(environment: Mapping[str, str]) -> ClassArchive | None:
    """Return the archive of the Spark and the Java that spark-submit would take; None if one of them is missing."""
    java = spark_java(environment)
    spark = importlib.util.find_spec("pyspark")
    places = [environment["SPARK_HOME"]] if environment.get("SPARK_HOME") else []
    places += (spark.submodule_search_locations or []) if spark else []
    if java is None or not places:
        return None
    return ClassArchive("spark", Path(java), Path(places[0], "jars"))


@dataclass(frozen=True)
class Made:
    """An archive that was made: its file, its size, and the options by which any spark-submit uses it."""

    file: str
    bytes: int
    java: str
    options: str


def make(run_spark: Callable[[Sequence[str]], None]) -> Made:
    """Make the archive of this machine's Spark: half a minute and 170 MB, once.

    `run_spark` starts one with the given JVM options, lets it do a job, and waits for its end.

    Raises TerminalError (code `spark-classes`) if there is no Java or Spark, or if this Java writes no archive; what
    `run_spark` raises.
    """
    archive = spark_classes(os.environ)
    if archive is None:
        raise _none("Java or PySpark is missing", "twinlog check --machine says which")
    try:
        made = archive.make(lambda options: run_spark((QUICK_COMPILER, *options)))
    except OSError as error:
        raise _none(f"{archive.file.parent} cannot be written: {error.strerror}", "make room there") from None
    if not made or not (options := archive.options()):
        raise _none(
            f"{archive.java} wrote none",
            "an OpenJDK 17 or 21 does, if spark-submit's class path has no folder with files (SPARK_CONF_DIR)",
        )
    return Made(
        str(archive.file),
        archive.file.stat().st_size,
        str(archive.java),
        " ".join((QUICK_COMPILER, *options)),
    )


def _none(reason: str, hint: str) -> TerminalError:
    return TerminalError(f"no archive of Spark's classes: {reason}", hint=hint, code="spark-classes")
