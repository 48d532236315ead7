"""The JVM options of a Spark that twinlog starts, and where the archive of its classes is."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from twinlog.class_archive import ClassArchive

SUBMIT_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""The environment variable of spark-submit's JVM options, beside spark.driver.extraJavaOptions."""

QUICK_COMPILER: Final = "-XX:TieredStopAtLevel=1"
"""Only the first compiler: the second took half the CPU of a cycle over little data (bench.cold)."""


ERRORS_ONLY: Final = (
    f"-Dlog4j2.configurationFile={Path(__file__).parents[1].joinpath('log4j2.properties').as_uri()}"
)
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
