"""Gather facts about this machine without judging them (twinlog.cli.doctor judges).

It starts nothing but `java -version`, writes nothing, and contacts no cluster.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from twinlog.lab.kafka.java import parse_version

PACKAGES = (
    "apache-airflow",
    "pyspark",
    "pyspark-client",
    "confluent-kafka",
    "kafka-python",
    "great-expectations",
)
JAVA_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts.  `packages` maps a distribution to its installed version; sizes are in bytes.

    `java` is the path of the java command that Spark would start (None if there is none) and `java_version` its major
    version (None if it did not answer).  `taken_ports` are those of the given ports on which a program listens
    already.
    """

    python: tuple[int, int, int]
    packages: Mapping[str, str | None]
    java: str | None
    java_version: int | None
    memory_available: int
    temporary_folder: str
    temporary_free: int
    taken_ports: tuple[int, ...]
    jar_folder: str
    jar_count: int


def inspect_machine(ports: tuple[int, ...], jar_folder: Path) -> Machine:
    """Inspect this machine.  `ports` are TCP ports of 127.0.0.1 to try."""
    import psutil

    java = _find_java(os.environ)
    temporary = tempfile.gettempdir()
    return Machine(
        python=sys.version_info[:3],
        packages={name: _version(name) for name in PACKAGES},
        java=java,
        java_version=_ask_java(java) if java else None,
        memory_available=psutil.virtual_memory().available,
        temporary_folder=temporary,
        temporary_free=shutil.disk_usage(temporary).free,
        taken_ports=tuple(port for port in ports if _listens(port)),
        jar_folder=str(jar_folder),
        jar_count=sum(1 for _ in jar_folder.rglob("*.jar")) if jar_folder.is_dir() else 0,
    )


def _find_java(environment: Mapping[str, str]) -> str | None:
    """Look where Spark looks: JAVA_HOME first, then the path, nowhere else."""
    home = environment.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")


def _ask_java(java: str) -> int | None:
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(answer.stderr + answer.stdout) or None


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _listens(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
