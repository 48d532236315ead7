"""Make the archive of Spark's classes: with it a driver or a Connect server starts in less than half of the CPU time.

A Spark is started, does a job, and writes its classes as it ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twinlog.errors import TerminalError
from twinlog.spark.classes.use import QUICK_COMPILER, spark_classes


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
        raise _none("Java or PySpark is missing", "twinlog doctor says which")
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
