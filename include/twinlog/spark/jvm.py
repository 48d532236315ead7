"""The options of Spark's JVM where twinlog starts it: it hands out tasks and waits, and no record passes through it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SUBMIT_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""The environment variable of the options that spark-submit gives its JVM, beside spark.driver.extraJavaOptions."""

QUICK_COMPILER: Final = "-XX:TieredStopAtLevel=1"
"""Only the first compiler: half the CPU of a cycle over little data was the second one's work (bench.cold)."""

LOCAL_IP: Final = "SPARK_LOCAL_IP"
"""The environment variable of the address that Spark listens at."""


def submit_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what to add to an environment in which spark-submit will be run: nothing where somebody has chosen."""
    return {} if SUBMIT_OPTIONS in environment else {SUBMIT_OPTIONS: QUICK_COMPILER}


def local_address(master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what to add so that a local master is reached from this machine alone; nothing where somebody chose."""
    return {LOCAL_IP: "127.0.0.1"} if master.startswith("local") and LOCAL_IP not in environment else {}
