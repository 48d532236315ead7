"""The options of Spark's JVM if twinlog starts it: it hands out tasks and waits; no record passes through it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SUBMIT_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""The environment variable of spark-submit's JVM options, beside spark.driver.extraJavaOptions."""

QUICK_COMPILER: Final = "-XX:TieredStopAtLevel=1"
"""Only the first compiler: the second took half the CPU of a cycle over little data (bench.cold)."""

LOCAL_IP: Final = "SPARK_LOCAL_IP"
"""The environment variable of the address at which Spark listens."""


def submit_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what to add to an environment for spark-submit; nothing if it is set already."""
    return {} if SUBMIT_OPTIONS in environment else {SUBMIT_OPTIONS: QUICK_COMPILER}


def local_address(master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what to add so that a local master is reached from this machine alone; nothing if it is set already."""
    return {LOCAL_IP: "127.0.0.1"} if master.startswith("local") and LOCAL_IP not in environment else {}
