"""`twinlog check --machine`: whether this machine can run twinlog, without looking at any configuration.

`inspect_machine` gathers facts, `diagnose` judges them.  It starts nothing but `java -version`, writes nothing, and
contacts no cluster.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from twinlog.cli.render import Grid, show
from twinlog.errors import ExitCode
from twinlog.lab.kafka.java import version_of

PACKAGES = (
    "apache-airflow",
    "apache-airflow-providers-apache-spark",
    "apache-airflow-providers-standard",
    "pyspark",
    "pyspark-client",
    "confluent-kafka",
    "kafka-python",
    "great-expectations",
)

EXTRAS = {
    "apache-airflow": "airflow",
    "apache-airflow-providers-apache-spark": "airflow",
    "apache-airflow-providers-standard": "airflow",
    "great-expectations": "gate",
    "pyspark": "spark",
    "pyspark-client": "airflow",
}
"""Packages that not everybody needs, and the extra that brings them."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts.  `packages` maps a distribution to its installed version; sizes are in bytes.

    `java` is the path of the java command that Spark would start (None if there is none) and `java_version` its major
    version (None if it did not answer).
    `classes_kept` says whether Spark finds an archive of its classes, `kernel` whether the compiled kernel was loaded.
    """

    python: tuple[int, int, int]
    packages: Mapping[str, str | None]
    java: str | None
    java_version: int | None
    memory_available: int
    temporary_folder: str
    temporary_free: int
    classes_kept: bool
    kernel: bool


def inspect_machine() -> Machine:
    """Inspect this machine."""
    import psutil

    from twinlog.batches.plain.library import LIBRARY
    from twinlog.spark.classes import spark_classes, spark_java
    from twinlog.spark.versions import installed

    java, archive = spark_java(os.environ), spark_classes(os.environ)
    temporary = tempfile.gettempdir()
    return Machine(
        python=sys.version_info[:3],
        packages={name: installed(name) for name in PACKAGES},
        java=java,
        java_version=(version_of(Path(java)) or None) if java else None,
        memory_available=psutil.virtual_memory().available,
        temporary_folder=temporary,
        temporary_free=shutil.disk_usage(temporary).free,
        classes_kept=archive is not None and archive.is_usable(),
        kernel=LIBRARY is not None,
    )


MIB = 1024 * 1024

MEMORY_WANTED = 2048 * MIB
"""Memory of a Spark driver with its Python workers, and two embedded brokers of 512 MB for the demo."""

DISK_WANTED = 2048 * MIB

JAVA_VERSIONS = (17, 21)
"""Spark 4.1 runs on 17 and 21; on 25 its Arrow paths fail."""

PYTHON_FROM, PYTHON_BELOW = (3, 11), (3, 14)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing checked.  A failed check of severity critical means that twinlog will not run here."""

    name: str
    passed: bool
    observed: str
    expected: str
    message: str
    severity: str = "warning"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Every check, and whether all critical ones passed."""

    passed: bool
    checks: tuple[Check, ...]


def doctor() -> int:
    """Check this machine, and show what was found; return the exit code."""
    result = diagnose(inspect_machine(), pins_of_twinlog())
    show(result, [_grid(result)])
    return ExitCode.of(result.passed)


def diagnose(machine: Machine, pins: Mapping[str, str]) -> Diagnosis:
    """Judge the facts.  `pins` maps a distribution to the version specifier twinlog needs ("==4.1.3")."""
    checks = (*_needed(machine, pins), *_advised(machine))
    return Diagnosis(all(check.passed for check in checks if check.severity == "critical"), checks)


def pins_of_twinlog() -> dict[str, str]:
    """Read what the installed twinlog asks for, by distribution; of a package of EXTRAS, what that extra asks for."""
    from packaging.requirements import Requirement

    requirements = [Requirement(line) for line in importlib.metadata.requires("twinlog") or ()]
    return {
        one.name: str(one.specifier)
        for one in requirements
        if one.marker is None or one.marker.evaluate({"extra": EXTRAS.get(one.name, "")})
    }


def _needed(machine: Machine, pins: Mapping[str, str]) -> Iterator[Check]:
    """Yield what twinlog does not run without."""
    yield Check(
        "python",
        PYTHON_FROM <= machine.python[:2] < PYTHON_BELOW,
        ".".join(map(str, machine.python)),
        "3.11, 3.12 or 3.13",
        "install a supported Python and make the virtual environment with it",
        "critical",
    )
    version = machine.java_version
    seen = f"{version} ({machine.java})" if version else f"{machine.java} does not answer"
    yield Check(
        "java",
        version in JAVA_VERSIONS,
        "none" if machine.java is None else seen,
        "JDK 17 or 21",
        "apt install openjdk-17-jdk-headless (Debian, Ubuntu), or set JAVA_HOME to a JDK 17 or 21",
        "critical",
    )
    yield from (_package(name, version, pins.get(name, "")) for name, version in machine.packages.items())
    spark, client = machine.packages.get("pyspark"), machine.packages.get("pyspark-client")
    yield Check(
        "pyspark = pyspark-client",
        None in {spark, client} or spark == client,
        f"{spark or 'none'} and {client or 'none'}",
        "equal versions",
        "both install into one folder: pip install both again, with one version",
        "critical",
    )


def _package(name: str, version: str | None, specifier: str) -> Check:
    from packaging.specifiers import SpecifierSet

    left_out = version is None and name in EXTRAS
    return Check(
        name,
        version is not None and SpecifierSet(specifier).contains(version),
        version or "not installed",
        specifier or "installed",
        f"needed for some of twinlog only: pip install 'twinlog[{EXTRAS[name]}] @ file:...'"
        if left_out
        else "install twinlog from its lock file: make setup",
        "warning" if left_out else "critical",
    )


def _advised(machine: Machine) -> Iterator[Check]:
    """Yield what twinlog is slow without, or may come to need."""
    yield Check(
        "memory",
        machine.memory_available >= MEMORY_WANTED,
        f"{machine.memory_available // MIB:,} MB free",
        f"{MEMORY_WANTED // MIB:,} MB",
        "Spark and the embedded brokers may be killed for want of memory",
    )
    yield Check(
        "disk",
        machine.temporary_free >= DISK_WANTED,
        f"{machine.temporary_free // MIB:,} MB free in {machine.temporary_folder}",
        f"{DISK_WANTED // MIB:,} MB",
        "free some, or point TMPDIR to a larger disk",
    )
    yield Check(
        "Spark's classes",
        machine.classes_kept,
        "archived" if machine.classes_kept else "not archived",
        "archived",
        "each start of Spark takes twice the CPU time without: twinlog machine spark cds",
    )
    yield Check(
        "compiled kernel",
        machine.kernel,
        "loaded" if machine.kernel else "none for this machine, or of another version",
        "loaded",
        "small batches take twice the CPU time without: install twinlog's wheel on Linux (glibc 2.17 or later) "
        "or macOS, x86_64 or aarch64; in a work tree: make setup",
    )


def _grid(result: Diagnosis) -> Grid:
    return Grid.of(
        "this machine",
        "verdict | what: name | found: observed | wanted: expected | what_to_do",
        result.checks,
        verdict=lambda it: "ok" if it.passed else ("no" if it.severity == "critical" else "warning"),
        what_to_do=lambda it: "" if it.passed else it.message,
    )
